// Characters of UTF-8.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mote::data {

// The first character, which is taken off `text` (not empty). Bytes that are not UTF-8 stand for
// themselves, one at a time, as 0x110000 + byte: no character has such a number.
uint32_t take_character(std::string_view& text);
void append_character(std::string& out, uint32_t character);

enum class CharacterClass : uint8_t { Other, Letter, Number, Space };
CharacterClass class_of(uint32_t character);  // Unicode's

}  // namespace mote::data
