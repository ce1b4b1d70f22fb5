// Classes of characters.
#pragma once
#include <cstdint>

#include "base/utf8.h"

namespace mote::data {

enum class CharacterClass : uint8_t { Other, Letter, Number, Space };
CharacterClass class_of(uint32_t character);  // Unicode's

}  // namespace mote::data
