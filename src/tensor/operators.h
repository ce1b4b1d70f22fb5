// The operators of what tensor/ itself computes with. They take a tensor as a pointer and a number as
// a register, where the public ones take Operands: half the code at every use.
#pragma once
#include <concepts>

#include "tensor/impl.h"

namespace mote {

// clang-format off
#define MOTE_OPERATORS(F) \
  F(+, add) F(-, sub) F(*, mul) F(/, div) F(<, lt) F(<=, le) F(>, gt) F(>=, ge)
// clang-format on

namespace terse {
#define MOTE_DECLARE(sign, name)                 \
  Tensor name(const Tensor& a, const Tensor& b); \
  Tensor name(const Tensor& a, double b);        \
  Tensor name(double a, const Tensor& b);        \
  Tensor name(const Tensor& a, int64_t b);       \
  Tensor name(int64_t a, const Tensor& b);
MOTE_OPERATORS(MOTE_DECLARE)
#undef MOTE_DECLARE
Tensor where(const Tensor& c, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& c, const Tensor& a, double b);
Tensor where(const Tensor& c, double a, const Tensor& b);
Tensor where(const Tensor& c, const Tensor& a, int64_t b);
Tensor where(const Tensor& c, int64_t a, const Tensor& b);

// Numbers that are one of these, not what converts to one; whole ones stay whole.
template <class N>
concept Plain = std::same_as<N, double> || std::same_as<N, int> || std::same_as<N, int64_t>;
template <Plain N>
using Wide = std::conditional_t<std::same_as<N, double>, double, int64_t>;
}  // namespace terse

#define MOTE_DECLARE(sign, name)                                                              \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { return terse::name(a, b); } \
  template <terse::Plain N>                                                                   \
  Tensor operator sign(const Tensor& a, N b) {                                                \
    return terse::name(a, terse::Wide<N>(b));                                                 \
  }                                                                                           \
  template <terse::Plain N>                                                                   \
  Tensor operator sign(N a, const Tensor& b) {                                                \
    return terse::name(terse::Wide<N>(a), b);                                                 \
  }
MOTE_OPERATORS(MOTE_DECLARE)
#undef MOTE_DECLARE

inline Tensor where(const Tensor& c, const Tensor& a, const Tensor& b) {
  return terse::where(c, a, b);
}
template <terse::Plain N>
Tensor where(const Tensor& c, const Tensor& a, N b) {
  return terse::where(c, a, terse::Wide<N>(b));
}
template <terse::Plain N>
Tensor where(const Tensor& c, N a, const Tensor& b) {
  return terse::where(c, terse::Wide<N>(a), b);
}

}  // namespace mote
