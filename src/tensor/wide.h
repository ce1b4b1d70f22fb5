// Elementwise functions of f32 and f64 that are composed of the primitive ones. Those of f64 are
// within 2 ulp; what rounding loses on the way is carried in a second number where that is needed.
#pragma once
#include "tensor/impl.h"

namespace mote {

Tensor magnitude(const Tensor& x);  // |x|, slope 1 at 0
Tensor sign_of(const Tensor& x);    // 1 or -1
// The first coefficient is that of the highest power.
Tensor polynomial(const Tensor& x, std::span<const double> coefficients);

Tensor expm1_wide(const Tensor& x);
Tensor sinh_wide(const Tensor& x);
Tensor cosh_wide(const Tensor& x);
Tensor tan_wide(const Tensor& x);
Tensor log1p_wide(const Tensor& x);
Tensor log10_wide(const Tensor& x);
Tensor asinh_wide(const Tensor& x);
Tensor acosh_wide(const Tensor& x);
Tensor atanh_wide(const Tensor& x);
Tensor erfc_wide(const Tensor& x);
Tensor erfcx_wide(const Tensor& x);  // erfc(x) e^(x * x)

// Of f64 tensors that hold numbers of f32, with results to be rounded to f32.
Tensor log10_narrow(const Tensor& x);
Tensor asin_narrow(const Tensor& x);
Tensor acos_narrow(const Tensor& x);
Tensor atan_narrow(const Tensor& x);
Tensor atan2_narrow(const Tensor& y, const Tensor& x);
Tensor asinh_narrow(const Tensor& x);
Tensor acosh_narrow(const Tensor& x);
Tensor atanh_narrow(const Tensor& x);
Tensor erfc_narrow(const Tensor& x);

}  // namespace mote
