#include "base/utf8.h"

#include <cstring>

#include "base/number.h"

namespace mote {

namespace {

constexpr uint32_t kByte = 0x110000;

void append_escape(std::string& out, uint32_t c) {
  const bool is_byte = c >= kByte || c < 0x80;
  out += is_byte ? "\\x" + hex_text(uint64_t{c}, 2) : "\\u" + hex_text(uint64_t{c}, 4);
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    uint64_t eight;
    if (text.size() >= sizeof eight) {
      std::memcpy(&eight, text.data(), sizeof eight);
      if (!(eight & 0x8080808080808080u)) {
        text.remove_prefix(sizeof eight);
        continue;
      }
    }
    if (take_character(text) >= kByte) return false;
  }
  return true;
}

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
    return kByte + lead;
  }
  text.remove_prefix(length);
  return c;
}

void append_character(std::string& out, uint32_t c) {
  auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c >= kByte) return put(c - kByte);
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

bool is_control(uint32_t c) {
  if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return true;
  return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x206f);
}

std::string printable(std::string_view text, Lines lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    const uint32_t c = take_character(text);
    const bool line = c == '\n' || c == '\t' || (c == '\r' && text.starts_with('\n'));
    if (c >= kByte || (is_control(c) && !(line && lines == Lines::Keep)))
      append_escape(out, c);
    else
      out += before.substr(0, before.size() - text.size());
  }
  return out;
}

}  // namespace mote
