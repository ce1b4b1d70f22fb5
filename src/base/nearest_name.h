// What a mistyped word was probably meant to be.
#pragma once
#include <span>
#include <string_view>

namespace mote {

// The name nearest to what was typed, or "" when none is near: a few letters put in, left out,
// replaced or swapped, or a beginning.
std::string_view nearest_name(std::string_view typed, std::span<const std::string_view> names);

}  // namespace mote
