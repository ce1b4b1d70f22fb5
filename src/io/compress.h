// gzip, xz, zstd and zip's deflate, by zlib, liblzma and libzstd, which are opened at run time; an
// error names the package where one is missing. Memory grows with what has come out, and stops at a
// limit: files are not trusted, and a small one can unpack to more than there is.
#pragma once
#include "io/bytes.h"

namespace mote {

// Far above any file mote is for, and below what would bring a machine down before it is noticed.
constexpr uint64_t kUnpackedLimit = uint64_t{1} << 36;

// How many bytes may come out of `packed` ones: 256 times as many, or 64 MiB if that is more; never
// more than `most`, nor than the memory at hand. `why` ends the sentence "more than N bytes".
struct UnpackLimit {
  uint64_t bytes;
  const char* why;
};
UnpackLimit unpack_limit(uint64_t packed, uint64_t most = kUnpackedLimit);

bool is_gzip(std::span<const uint8_t> bytes);
bool is_xz(std::span<const uint8_t> bytes);
bool is_zstd(std::span<const uint8_t> bytes);

// All members of a gzip file, one after another. Checks the sums that the format has.
Bytes unpack_gzip(const File& file, uint64_t limit = kUnpackedLimit);
Bytes unpack_xz(const File& file, uint64_t limit = kUnpackedLimit);
Bytes unpack_zstd(const File& file, uint64_t limit = kUnpackedLimit);
// The file as it is, or unpacked if it is compressed: for formats that come either way.
File unpacked(const File& file, uint64_t limit = kUnpackedLimit);

// A raw deflate stream that must give exactly `size` bytes.
Bytes inflate(const std::string& name, std::span<const uint8_t> packed, uint64_t size);

// `before` is the sum of the bytes before these.
uint32_t crc32(std::span<const uint8_t> bytes, uint32_t before = 0);

}  // namespace mote
