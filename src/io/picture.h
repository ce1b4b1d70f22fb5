// Pictures in files: PNG read and written, JPEG read.
#pragma once
#include "io/bytes.h"

namespace mote {

// Rows of pixels from the top; 1 to 4 bytes each: grey, grey and alpha, RGB, RGB and alpha.
struct Picture {
  int64_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

bool is_png(const File& file);
bool is_jpeg(const File& file);
// All kinds that the format has; 16 bits are cut to 8. Colours named as transparent stay as they
// are, but in palettes.
Picture parse_png(const File& file);
std::string png_text(const Picture& picture);
// By libturbojpeg, opened at run time.
Picture parse_jpeg(const File& file);

// A raw deflate stream: repetitions found by hashes of three bytes, the format's fixed codes.
std::string deflated(std::span<const uint8_t> bytes);

}  // namespace mote
