// Characters of UTF-8, and text that is safe to show.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mote {

bool is_utf8(std::string_view text);

// The first character, which is taken off `text` (not empty). Bytes that are not UTF-8 stand for
// themselves, one at a time, as 0x110000 + byte: no character has such a number.
uint32_t take_character(std::string_view& text);
void append_character(std::string& out, uint32_t character);

// Control characters (C0, DEL, C1), and those that end a line or turn the direction of text.
bool is_control(uint32_t character);

// Text that may come from anywhere, for a terminal, a log or an error: control characters and bytes
// that are not UTF-8 are written as \x1b, \u202e. `Lines::Keep` leaves tabs and ends of lines.
enum class Lines { Escape, Keep };
std::string printable(std::string_view text, Lines lines = Lines::Escape);

}  // namespace mote
