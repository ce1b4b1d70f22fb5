#include "base/number.h"

#include <cmath>

namespace mote {

namespace {

// The longest text, that of the least double with all its digits, has 310 of them before the point.
template <class... Format>
std::string written(Format... format) {
  FloatEnvironment keeps_subnormals;  // to_chars compares with 0
  char out[400];
  const std::to_chars_result end = std::to_chars(out, out + sizeof out, format...);
  if (end.ec == std::errc()) return {out, end.ptr};
  std::string large(4096, '\0');  // more digits than any double has
  return large.assign(large.data(),
                      std::to_chars(large.data(), large.data() + large.size(), format...).ptr);
}

}  // namespace

std::string fixed_text(double v, int digits) {
  return written(v, std::chars_format::fixed, digits);
}
std::string scientific_text(double v, int digits) {
  return written(v, std::chars_format::scientific, digits);
}
std::string general_text(double v, int digits) {
  return written(v, std::chars_format::general, digits);
}

std::string hex_text(double v) {
  if (!std::isfinite(v)) return written(v);
  std::string digits = written(std::fabs(v), std::chars_format::hex);
  return (std::signbit(v) ? "-0x" : "0x") + digits;
}

std::string hex_text(uint64_t v, int digits) {
  std::string out(static_cast<size_t>(digits), '0');
  for (auto at = out.rbegin(); at != out.rend(); ++at, v >>= 4) *at = "0123456789abcdef"[v & 15];
  return out;
}

std::string shortest_text(double v) { return written(v); }
std::string shortest_scientific_text(double v) { return written(v, std::chars_format::scientific); }
std::string shortest_scientific_text(float v) { return written(v, std::chars_format::scientific); }

std::string_view take_word(std::string_view& text) {
  constexpr std::string_view spaces = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(spaces));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace mote
