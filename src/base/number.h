// Numbers as text and back: the one place that converts floats. Nothing here depends on the
// process's locale, on the global std::locale or on the rounding mode, so that kernels, files and
// cache keys are the same in every program. tools/check_numbers keeps the calls that do depend on
// them out of src/.
#pragma once
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/float_environment.h"

namespace mote {

// As printf writes them in the "C" locale; "inf", "-inf" and "nan" where there are no digits.
std::string fixed_text(double v, int digits);       // %.*f
std::string scientific_text(double v, int digits);  // %.*e
std::string general_text(double v, int digits);     // %.*g
std::string hex_text(double v);                     // %a
// As many lower-case hexadecimal digits as given.
std::string hex_text(uint64_t v, int digits);
// The fewest digits that read back as v.
std::string shortest_text(double v);
std::string shortest_scientific_text(double v);
std::string shortest_scientific_text(float v);

// Reads a number at the front of `text` and takes it off; false, and nothing is taken, where there
// is none or it does not fit T. No sign "+", no spaces.
template <class T>
bool take_number(std::string_view& text, T& out) {
  T v{};
  std::from_chars_result read;
  if constexpr (std::is_floating_point_v<T>) {
    FloatEnvironment nearest;
    read = std::from_chars(text.data(), text.data() + text.size(), v);
  } else {
    read = std::from_chars(text.data(), text.data() + text.size(), v);
  }
  if (read.ec != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  out = v;
  return true;
}

// The whole text is a number; else false, and out is as before.
template <class T>
bool read_number(std::string_view text, T& out) {
  T v{};
  if (!take_number(text, v) || !text.empty()) return false;
  out = v;
  return true;
}

// The first word (no space, tab or line end in it) of what is left, taken off; "" at the end.
std::string_view take_word(std::string_view& text);

}  // namespace mote
