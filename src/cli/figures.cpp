#include "cli/figures.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "io/bytes.h"

namespace mote {

std::string decimal(double v, int digits) {
  if (std::isnan(v)) return "nan";  // whatever its sign
  return fixed_text(v, digits);
}

std::string size_text(int64_t bytes) {
  if (bytes == INT64_MAX) return "without limit";
  const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  double shown = static_cast<double>(bytes);
  size_t unit = 0;
  for (; shown >= 1024 && unit < 4; ++unit) shown /= 1024;
  return text(general_text(shown, 4), " ", units[unit]);
}

std::string clock_text(double seconds) {
  int64_t s = std::llround(seconds);
  auto two = [](int64_t n) { return text(n < 10 ? "0" : "", n); };
  if (s >= 3600) return text(s / 3600, ":", two(s / 60 % 60), ":", two(s % 60));
  return text(s / 60, ":", two(s % 60));
}

std::string duration_text(double seconds) {
  if (seconds >= 1) return decimal(seconds, 2) + " s";
  return decimal(seconds * 1e3, seconds >= 0.1 ? 0 : seconds >= 1e-3 ? 1 : 3) + " ms";
}

std::string as_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const uint32_t c = take_character(bytes);
    append_character(out, c < 0x110000 ? c : 0xfffd);
  }
  return out;
}

}  // namespace mote
