// What the curves share: a float type's layout and arithmetic on it.
#pragma once
#include <span>

#include "ir/build.h"
#include "ir/target.h"

namespace mote {

using Coefficients = std::span<const double>;

// One float type, f32 or f64.
struct Real {
  DType type, bits, ints;  // the float, the unsigned and the signed integer of its width
  int mantissa, bias;      // bits of the mantissa field; exponent of 1.0
  bool fma;
  bool through_double;  // f32 without fma: f64 can stand in

  static Real of(DType type, const Target& target);
  UOp number(double v) const { return constant(type, v); }
  UOp word(int64_t v) const { return constant(bits, v); }
  UOp mad(UOp a, UOp b, UOp c) const;  // a * b + c, fused where the target can
  // Rounded as if once, where the target can at all: the steps that f32's bounds hang on.
  UOp fused(UOp a, UOp b, UOp c) const;
  // c[0] + c[1] x + c[2] x^2 + ...
  UOp polynomial(UOp x, Coefficients c) const;
  // The same where x^2 is at hand: two chains of half the length, in as many steps.
  UOp polynomial(UOp x, UOp square, Coefficients c) const;
  UOp precise_polynomial(UOp x, Coefficients c) const;  // its last two steps fused
  UOp as_bits(UOp x) const { return make(Op::Bitcast, bits, {x}); }
  UOp as_float(UOp b) const { return make(Op::Bitcast, type, {b}); }
  UOp magnitude(UOp x) const;  // without the sign
  UOp sign_bit(UOp x) const;   // alone, as bits
  UOp with_sign(UOp x, UOp sign) const;
};

UOp decompose_sine(Op op, const Real& real, UOp x);  // Sin and Cos

}  // namespace mote
