#include "data/utf8.h"

#include <algorithm>
#include <iterator>

namespace mote::data {

uint32_t take_character(std::string_view& text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t lead = byte(0);
  size_t length = lead < 0x80   ? 1
                  : lead < 0xc2 ? 0
                  : lead < 0xe0 ? 2
                  : lead < 0xf0 ? 3
                  : lead < 0xf5 ? 4
                                : 0;
  uint32_t c = length == 1 ? lead : length ? lead & (0x7fu >> length) : 0;
  bool ok = length && length <= text.size();
  for (size_t i = 1; ok && i < length; ++i) {
    ok = (byte(i) & 0xc0) == 0x80;
    c = c << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (!ok || c < kLeast[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
    text.remove_prefix(1);
    return 0x110000u + lead;
  }
  text.remove_prefix(length);
  return c;
}

void append_character(std::string& out, uint32_t c) {
  auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c >= 0x110000) return put(c - 0x110000);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xe0 | c >> 12);
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3f));
    }
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

namespace {

struct ClassRange {
  uint32_t first, last;
  CharacterClass kind;
};
constexpr ClassRange ranges[] = {
#define RANGE(first, last, kind) {first, last, CharacterClass::kind},
#include "data/unicode_classes.def"
#undef RANGE
};

}  // namespace

CharacterClass class_of(uint32_t c) {
  auto at = std::partition_point(std::begin(ranges), std::end(ranges),
                                 [&](const ClassRange& r) { return r.last < c; });
  return at != std::end(ranges) && at->first <= c ? at->kind : CharacterClass::Other;
}

}  // namespace mote::data
