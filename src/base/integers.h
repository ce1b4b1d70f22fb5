// Integer division that rounds down or up, and the sizes of memory that are the same everywhere.
#pragma once
#include <cstdint>
#include <type_traits>

namespace mote {

// Bytes of a line: what memory gives at once, and what memory is aligned to.
constexpr int64_t kCacheLine = 64;

// How many of size d are in n, the last of them maybe not filled; n is not negative.
template <class T>
constexpr T ceil_div(T n, std::type_identity_t<T> d) {
  return (n + d - 1) / d;
}
// The least multiple that is no less than n.
template <class T>
constexpr T round_up(T n, std::type_identity_t<T> to) {
  return ceil_div(n, to) * to;
}

template <class T>
constexpr T floor_div(T a, std::type_identity_t<T> b) {
  const T q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
template <class T>
constexpr T floor_mod(T a, std::type_identity_t<T> b) {
  return a - floor_div(a, b) * b;
}

}  // namespace mote
