#include "onnx/narrow.h"

#include <cmath>

namespace mote::onnx {

namespace {

Tensor float_bits(const Tensor& x) {
  return x.dim() ? x.bitcast(DType::i32) : x.reshape({1}).bitcast(DType::i32).reshape({});
}
Tensor from_bits(const Tensor& bits) {
  return bits.dim() ? bits.bitcast(DType::f32) : bits.reshape({1}).bitcast(DType::f32).reshape({});
}

// The nearest value of the type, ties to even: a multiple of a step that follows from the exponent.
Tensor rounded(const Tensor& x, const NarrowFloat& f, bool saturate) {
  const Tensor size = x.abs();
  const Tensor exponent = (float_bits(size).bitwise_right_shift(23) - 127).maximum(1 - f.bias);
  const Tensor step = from_bits((exponent - f.mantissa_bits + 127).bitwise_left_shift(23));
  Tensor out = (size / step).round() * step;
  const Tensor is_over = out > f.most;
  const bool clips = saturate || (!f.has_infinity && !f.has_nan);
  out = out.masked_fill(is_over, clips ? f.most : f.has_infinity ? INFINITY : NAN);
  out = f.has_nan ? mote::where(x.isnan(), x, out) : out.masked_fill(x.isnan(), 0);
  out = mote::where(x.signbit(), -out, out);
  return f.has_negative_zero ? out : out.masked_fill(out.eq(0), 0);
}

// A power of two from the float's exponent; 2^-127 is below the normal floats.
Tensor power_of_two(const Tensor& x, bool saturate, RoundScale scale) {
  const Tensor bits = float_bits(x);
  const Tensor exponent = bits.bitwise_right_shift(23).bitwise_and(255);
  const Tensor fraction = bits.bitwise_and((1 << 23) - 1);
  Tensor up = exponent.zeros_like(DType::boolean);
  if (scale == RoundScale::up) up = fraction.gt(0);
  if (scale == RoundScale::nearest)
    up = (fraction > (1 << 22)).logical_or(fraction.eq(1 << 22).logical_and(exponent > 0));
  Tensor out = exponent + up.cast(DType::i32);
  if (saturate) out = out.minimum(254);
  const Tensor shifted = out.bitwise_left_shift(23);
  const Tensor value = from_bits(mote::where(out.eq(0), (out + 1).bitwise_left_shift(22), shifted));
  return value.masked_fill(exponent.eq(255).logical_or(out.eq(255)), NAN);
}

}  // namespace

Tensor to_element(const Tensor& x, const Element& to, bool saturate, RoundScale scale) {
  if (to.is_narrow_float()) {
    const Tensor wide = x.cast(DType::f32);
    const Tensor out = to.narrow.mantissa_bits == 0 ? power_of_two(wide, saturate, scale)
                                                    : rounded(wide, to.narrow, saturate);
    return out.cast(to.held);
  }
  if (to.type == kBool) return x.ne(0);
  if (!to.is_small_int()) return x.cast(to.held);
  const int64_t all = int64_t{1} << to.bits;
  const Tensor low = x.cast(DType::i32).bitwise_and(all - 1);
  const bool is_signed = to.held == DType::i8;
  return (is_signed ? mote::where(low >= all / 2, low - all, low) : low).cast(to.held);
}

}  // namespace mote::onnx
