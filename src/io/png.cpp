// PNG: a signature, then chunks; pixels are filtered row by row and packed with zlib.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "io/compress.h"
#include "io/picture.h"

namespace mote {

namespace {

constexpr std::string_view signature("\x89PNG\r\n\x1a\n", 8);
constexpr uint8_t grey = 0, rgb = 2, palette = 3, grey_alpha = 4, rgb_alpha = 6;

struct Header {
  int64_t width, height;
  int depth, color;
  bool interlaced;
  int samples() const {
    return color == rgb ? 3 : color == grey_alpha ? 2 : color == rgb_alpha ? 4 : 1;
  }
  uint64_t row_bytes(int64_t pixels) const {
    return (static_cast<uint64_t>(pixels) * static_cast<uint64_t>(samples() * depth) + 7) / 8;
  }
  size_t pixel_bytes() const { return static_cast<size_t>(std::max(1, samples() * depth / 8)); }
};

// One pass over every (dx, dy)th pixel from (x, y) on; without interlacing there is one over all.
struct Pass {
  int64_t x, y, dx, dy;
};
constexpr Pass whole[] = {
    {0, 0, 1, 1}
};
constexpr Pass adam7[] = {
    {0, 0, 8, 8},
    {4, 0, 8, 8},
    {0, 4, 4, 8},
    {2, 0, 4, 4},
    {0, 2, 2, 4},
    {1, 0, 2, 2},
    {0, 1, 1, 2}
};
std::span<const Pass> passes(const Header& h) {
  return h.interlaced ? std::span<const Pass>(adam7) : whole;
}
int64_t columns(const Header& h, const Pass& p) { return (h.width - p.x + p.dx - 1) / p.dx; }
int64_t rows(const Header& h, const Pass& p) { return (h.height - p.y + p.dy - 1) / p.dy; }

struct Chunks {
  Header header;
  std::vector<uint8_t> packed, colors, alphas;
};

uint32_t big_endian(Reader& in, const char* field) { return __builtin_bswap32(in.u32(field)); }

Header read_header(Reader& in) {
  Header h{};
  h.width = big_endian(in, "the width"), h.height = big_endian(in, "the height");
  h.depth = in.u8("the bit depth"), h.color = in.u8("the colour type");
  in.check(h.width > 0 && h.height > 0 && h.width < INT32_MAX && h.height < INT32_MAX, "its size ",
           h.width, " x ", h.height, " is not valid for a picture");
  const bool small = h.depth == 1 || h.depth == 2 || h.depth == 4;
  const bool known = h.color == grey      ? small || h.depth == 8 || h.depth == 16
                     : h.color == palette ? small || h.depth == 8
                     : h.color == rgb || h.color == grey_alpha || h.color == rgb_alpha
                         ? h.depth == 8 || h.depth == 16
                         : false;
  in.check(known, "there is no colour type ", h.color, " of ", h.depth, " bits");
  in.check(in.u8("the compression") == 0 && in.u8("the filter") == 0,
           "the compression or the filter is unknown");
  const uint8_t interlaced = in.u8("the interlacing");
  in.check(interlaced <= 1, "the interlacing ", interlaced, " is unknown");
  h.interlaced = interlaced;
  return h;
}

Chunks read_chunks(const File& file) {
  Reader in(file);
  in.skip(signature.size(), "the signature");
  Chunks out{};
  for (bool first = true;; first = false) {
    const uint32_t length = big_endian(in, "a chunk's length");
    const size_t begin = in.at();
    const std::string_view kind =
        Bytes(in.take(4, "a chunk's name")).text();  // of the file's own bytes
    in.check(first == (kind == "IHDR"), "the chunk IHDR must come first and only once");
    const std::span<const uint8_t> body = in.take(length, "a chunk");
    const uint32_t sum = big_endian(in, "a chunk's sum");
    in.check(crc32(file.bytes.span().subspan(begin, length + 4)) == sum, "the chunk ", quoted(kind),
             " does not match its checksum");
    Reader inside(file.name, body);
    if (kind == "IHDR") out.header = read_header(inside);
    if (kind == "IDAT") out.packed.insert(out.packed.end(), body.begin(), body.end());
    if (kind == "PLTE") out.colors.assign(body.begin(), body.end());
    if (kind == "tRNS") out.alphas.assign(body.begin(), body.end());
    if (kind == "IEND") return out;
  }
}

uint32_t adler32(std::span<const uint8_t> bytes) {
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < bytes.size();) {
    const size_t end = std::min(bytes.size(), i + 5552);  // before b can overflow
    for (; i < end; ++i) b += a += bytes[i];
    a %= 65521, b %= 65521;
  }
  return b << 16 | a;
}

// The filtered rows of all passes.
Bytes unpack_rows(const File& file, const Chunks& c) {
  uint64_t size = 0;
  for (const Pass& p : passes(c.header)) {
    if (columns(c.header, p) <= 0 || rows(c.header, p) <= 0) continue;
    size +=
        (c.header.row_bytes(columns(c.header, p)) + 1) * static_cast<uint64_t>(rows(c.header, p));
  }
  const UnpackLimit limit = unpack_limit(file.bytes.size());
  check_file(size <= limit.bytes, file.name, "a picture of ", c.header.width, " x ",
             c.header.height, " takes ", size, " bytes, more than ", limit.bytes, " bytes, ",
             limit.why);
  Reader in(file.name, c.packed);
  const uint8_t method = in.u8("the packed pixels"), flags = in.u8("the packed pixels");
  in.check((method & 15) == 8 && (method * 256 + flags) % 31 == 0 && !(flags & 32),
           "the pixels are not compressed with zlib");
  in.check(in.left() >= 4, "the compressed pixels end too early");
  Bytes out = inflate(file.name, in.take(in.left() - 4, "the packed pixels"), size);
  in.check(adler32(out.span()) == big_endian(in, "the sum of the pixels"),
           "the pixels do not match their checksum");
  return out;
}

int paeth(int a, int b, int c) {
  const int p = a + b - c, pa = std::abs(p - a), pb = std::abs(p - b), pc = std::abs(p - c);
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

// What a filter adds to a byte, from those at the left, above and above at the left.
int predicted(int filter, int a, int b, int c) {
  switch (filter) {
    case 1: return a;
    case 2: return b;
    case 3: return (a + b) / 2;
    case 4: return paeth(a, b, c);
    default: return 0;
  }
}

// Undoes the filter of a row; `above` is empty for the first one.
void unfilter(std::span<uint8_t> row, std::span<const uint8_t> above, int filter, size_t each) {
  for (size_t i = 0; i < row.size(); ++i) {
    const int a = i >= each ? row[i - each] : 0, b = above.empty() ? 0 : above[i];
    const int c = i >= each && !above.empty() ? above[i - each] : 0;
    row[i] = static_cast<uint8_t>(row[i] + predicted(filter, a, b, c));
  }
}

// Sample i of a row, as 8 bits; of a palette the position.
uint8_t sample(const Header& h, std::span<const uint8_t> row, size_t i) {
  if (h.depth == 16) return row[2 * i];
  if (h.depth == 8) return row[i];
  const auto depth = static_cast<size_t>(h.depth);
  const size_t each = 8 / depth;
  const int bits = row[i / each] >> (8 - depth * (i % each + 1)) & ((1 << h.depth) - 1);
  return static_cast<uint8_t>(h.color == palette ? bits : bits * 255 / ((1 << h.depth) - 1));
}

class Painter {
 public:
  Painter(const File& file, const Chunks& c) : file_(file), c_(c) {
    const Header& h = c.header;
    if (h.color == palette)
      check_file(!c.colors.empty() && c.colors.size() % 3 == 0, file.name, "the palette has ",
                 c.colors.size(), " bytes");
    out.width = h.width, out.height = h.height;
    out.channels = h.color != palette ? h.samples() : c.alphas.empty() ? 3 : 4;
    resize(out.pixels,
           static_cast<uint64_t>(h.width) * static_cast<uint64_t>(h.height) *
               static_cast<uint64_t>(out.channels),
           file.name);
  }
  void paint(int64_t x, int64_t y, std::span<const uint8_t> row, size_t at) {
    const Header& h = c_.header;
    uint8_t* to = out.pixels.data() + (y * out.width + x) * out.channels;
    const auto samples = static_cast<size_t>(h.samples());
    for (size_t s = 0; s < samples; ++s) to[s] = sample(h, row, at * samples + s);
    if (h.color != palette) return;
    const size_t color = to[0];
    check_file(3 * color < c_.colors.size(), file_.name, "a pixel has colour ", color, " of ",
               c_.colors.size() / 3);
    std::copy_n(c_.colors.data() + 3 * color, 3, to);
    if (out.channels == 4) to[3] = color < c_.alphas.size() ? c_.alphas[color] : 255;
  }
  Picture out;

 private:
  const File& file_;
  const Chunks& c_;
};

void append_chunk(std::string& out, std::string_view kind, const std::string& body) {
  auto number = [&](uint32_t v) {
    const uint32_t turned = __builtin_bswap32(v);
    out.append(reinterpret_cast<const char*>(&turned), 4);
  };
  number(static_cast<uint32_t>(body.size()));
  const size_t begin = out.size();
  out.append(kind).append(body);
  number(crc32({reinterpret_cast<const uint8_t*>(out.data()) + begin, out.size() - begin}));
}

// The row behind the filter whose bytes are smallest, taken as signed: it packs best.
std::string filtered(std::span<const uint8_t> row, std::span<const uint8_t> above, size_t each) {
  std::string best;
  int64_t least = INT64_MAX;
  for (int filter : {0, 1, 2, 4}) {
    std::string bytes(1, static_cast<char>(filter));
    int64_t sum = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const int a = i >= each ? row[i - each] : 0, b = above.empty() ? 0 : above[i];
      const int c = i >= each && !above.empty() ? above[i - each] : 0;
      const auto left = static_cast<int8_t>(row[i] - predicted(filter, a, b, c));
      bytes.push_back(static_cast<char>(left));
      sum += std::abs(left);
    }
    if (sum < least) least = sum, best = std::move(bytes);
  }
  return best;
}

}  // namespace

bool is_png(const File& file) { return file.bytes.text().starts_with(signature); }

Picture parse_png(const File& file) {
  check_file(is_png(file), file.name, "is not a PNG file");
  const Chunks chunks = read_chunks(file);
  const Header& h = chunks.header;
  const Bytes filtered_rows = unpack_rows(file, chunks);
  std::vector<uint8_t> bytes(filtered_rows.span().begin(), filtered_rows.span().end());
  Painter painter(file, chunks);
  size_t at = 0;
  for (const Pass& p : passes(h)) {
    const int64_t width = columns(h, p), height = rows(h, p);
    if (width <= 0 || height <= 0) continue;
    const size_t length = h.row_bytes(width);
    std::span<uint8_t> above;
    for (int64_t y = 0; y < height; ++y, at += length + 1) {
      std::span<uint8_t> row(bytes.data() + at + 1, length);
      check_file(bytes[at] <= 4, file.name, "a row has the filter ", bytes[at],
                 ", which is unknown");
      unfilter(row, above, bytes[at], h.pixel_bytes());
      for (int64_t x = 0; x < width; ++x)
        painter.paint(p.x + x * p.dx, p.y + y * p.dy, row, static_cast<size_t>(x));
      above = row;
    }
  }
  return std::move(painter.out);
}

std::string png_text(const Picture& p) {
  constexpr char kinds[] = {0, grey, grey_alpha, rgb, rgb_alpha};
  std::string header;
  for (int64_t size : {p.width, p.height}) {
    const uint32_t turned = __builtin_bswap32(static_cast<uint32_t>(size));
    header.append(reinterpret_cast<const char*>(&turned), 4);
  }
  header += {8, kinds[p.channels], 0, 0, 0};
  const auto length = static_cast<size_t>(p.width * p.channels);
  std::string rows_text;
  std::span<const uint8_t> above;
  for (int64_t y = 0; y < p.height; ++y) {
    std::span<const uint8_t> row(p.pixels.data() + static_cast<size_t>(y) * length, length);
    rows_text += filtered(row, above, static_cast<size_t>(p.channels));
    above = row;
  }
  const std::span<const uint8_t> raw(reinterpret_cast<const uint8_t*>(rows_text.data()),
                                     rows_text.size());
  const uint32_t sum = __builtin_bswap32(adler32(raw));
  std::string packed("\x78\x01", 2);
  packed += deflated(raw);
  packed.append(reinterpret_cast<const char*>(&sum), 4);
  std::string out(signature);
  append_chunk(out, "IHDR", header);
  append_chunk(out, "IDAT", packed);
  append_chunk(out, "IEND", "");
  return out;
}

}  // namespace mote
