// Deflate (RFC 1951) in its simplest useful form: one block with the fixed codes.
#include <algorithm>
#include <bit>
#include <utility>

#include "io/picture.h"

namespace mote {

namespace {

constexpr size_t kWindow = 32768, kLongest = 258, kShortest = 3;
constexpr int kHashBits = 15;

class BitWriter {
 public:
  // The lowest bit first.
  void put(uint32_t value, int bits) {
    held_ |= static_cast<uint64_t>(value) << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8)
      out.push_back(static_cast<char>(held_ & 0xff));
  }
  // A Huffman code: the highest bit first.
  void put_code(uint32_t code, int bits) {
    uint32_t turned = 0;
    for (int i = 0; i < bits; ++i) turned |= (code >> i & 1) << (bits - 1 - i);
    put(turned, bits);
  }
  void flush() {
    if (count_ > 0) put(0, 8 - count_);
  }
  std::string out;

 private:
  uint64_t held_ = 0;
  int count_ = 0;
};

// The fixed codes of literals, the end (256) and lengths (257 ...).
void put_symbol(BitWriter& w, uint32_t s) {
  if (s < 144) return w.put_code(0x30 + s, 8);
  if (s < 256) return w.put_code(0x190 + s - 144, 9);
  if (s < 280) return w.put_code(s - 256, 7);
  w.put_code(0xc0 + s - 280, 8);
}

// Lengths and distances come in groups of 2^extra: group number and what is left of the value.
struct Group {
  uint32_t number, rest;
  int extra;
};
Group group_of(uint32_t value, uint32_t groups_each) {  // value from 0 on
  const uint32_t first = 2 * groups_each;
  if (value < first) return {value, 0, 0};
  const int extra = std::bit_width(value / groups_each) - 1;
  const uint32_t number = value >> extra;  // groups_each ... 2 * groups_each - 1
  return {number + static_cast<uint32_t>(extra) * groups_each, value & ((1u << extra) - 1), extra};
}

void put_match(BitWriter& w, size_t length, size_t distance) {
  if (length == kLongest) {
    put_symbol(w, 285);
  } else {
    const Group g = group_of(static_cast<uint32_t>(length - kShortest), 4);
    put_symbol(w, 257 + g.number);
    w.put(g.rest, g.extra);
  }
  const Group g = group_of(static_cast<uint32_t>(distance - 1), 2);
  w.put_code(g.number, 5);
  w.put(g.rest, g.extra);
}

uint32_t hash_at(std::span<const uint8_t> b, size_t at) {
  const uint32_t three = b[at] | b[at + 1] << 8 | static_cast<uint32_t>(b[at + 2]) << 16;
  return three * 2654435761u >> (32 - kHashBits);
}

}  // namespace

std::string deflated(std::span<const uint8_t> bytes) {
  BitWriter w;
  w.put(1, 1);  // the last block
  w.put(1, 2);  // with the fixed codes
  std::vector<size_t> seen(size_t{1} << kHashBits, SIZE_MAX);
  for (size_t at = 0; at < bytes.size();) {
    size_t length = 0, from = SIZE_MAX;
    const bool room = at + kShortest <= bytes.size();
    if (room) from = std::exchange(seen[hash_at(bytes, at)], at);
    if (from != SIZE_MAX && at - from <= kWindow) {
      const size_t most = std::min(kLongest, bytes.size() - at);
      while (length < most && bytes[from + length] == bytes[at + length]) ++length;
    }
    if (length < kShortest) {
      put_symbol(w, bytes[at++]);
      continue;
    }
    put_match(w, length, at - from);
    for (size_t i = 1; i < length && at + i + kShortest <= bytes.size(); ++i)
      seen[hash_at(bytes, at + i)] = at + i;
    at += length;
  }
  put_symbol(w, 256);
  w.flush();
  return std::move(w.out);
}

}  // namespace mote
