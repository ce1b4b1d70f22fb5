// Integers wide enough that index arithmetic cannot overflow while it is being decided.
#pragma once
#include <cstdint>
#include <limits>

namespace mote {

using Wide = __int128;
constexpr int64_t kMinimum = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaximum = std::numeric_limits<int64_t>::max();
constexpr Wide kInfinite = Wide(1) << 100;  // far beyond any finite bound, sums of some still fit

struct WideInterval {
  Wide lo, hi;
};

constexpr Wide floor_div(Wide a, Wide b) {
  Wide q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
constexpr Wide floor_mod(Wide a, Wide b) { return a - floor_div(a, b) * b; }
constexpr bool fits(Wide v) { return v > kMinimum && v < kMaximum; }

}  // namespace mote
