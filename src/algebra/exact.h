// Integers wide enough that index arithmetic cannot overflow while it is being decided.
#pragma once
#include <cstdint>
#include <limits>

#include "base/integers.h"

namespace mote {

using Wide = __int128;
constexpr int64_t kMinimum = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaximum = std::numeric_limits<int64_t>::max();
constexpr Wide kInfinite = Wide(1) << 100;  // far beyond any finite bound, sums of some still fit

struct WideInterval {
  Wide lo, hi;
};

constexpr bool fits(Wide v) { return v > kMinimum && v < kMaximum; }

}  // namespace mote
