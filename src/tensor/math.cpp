// Elementwise functions composed of the primitive ones, accurate and with accurate derivatives.
//
// Most have derivatives of their own (given.h). Of others: where a branch of a where() is not
// finite, its argument is made harmless first, for its derivative would be 0 * inf; and a branch
// point belongs to one side.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/autocast.h"
#include "tensor/checks.h"
#include "tensor/given.h"
#include "tensor/operators.h"
#include "tensor/wide.h"

namespace mote {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor apply(Op op, const Tensor& t, DType d) { return elementwise(op, {t}, d); }

// One primitive of floats.
Tensor curve(Op op, const Tensor& t) { return apply(op, t, float_dtype(t.dtype())); }

// f of t in f32 or wider (f64 if asked), given in t's float dtype.
template <class F>
Tensor composed(const Tensor& t, bool twice_as_wide, F f) {
  DType d = float_dtype(t.dtype());
  return f(t.to(twice_as_wide ? DType::f64 : accumulator(d))).to(d);
}

// The same with derivatives of its own.
Tensor composed(const Tensor& t, bool twice_as_wide, Tensor (*f)(const Tensor&), Given which) {
  return composed(t, twice_as_wide, [=](const Tensor& x) { return given(which, f(x), {x}); });
}

// The same of f32 in f64, of f64 by another way.
Tensor doubled(const Tensor& t, Tensor (*narrow)(const Tensor&), Tensor (*wide)(const Tensor&),
               Given which) {
  return composed(t, true, t.dtype() == DType::f64 ? wide : narrow, which);
}

template <class F>
Tensor composed(const Operand& a, const Operand& b, bool twice_as_wide, F f) {
  Operand both[] = {a, b};
  DType d = float_dtype(result_dtype(both));
  DType wide = twice_as_wide ? DType::f64 : accumulator(d);
  const Tensor& like = a.tensor ? *a.tensor : *b.tensor;
  return f(to_tensor(a, like, wide), to_tensor(b, like, wide)).to(d);
}

Tensor fitted(const Tensor& x, const Tensor& to) { return broadcast_tensor(x, dims_of(to)); }

// Cephes' atan in f64: three ranges, one rational function.
Tensor atan_wide(const Tensor& x) {
  Tensor a = magnitude(x), far = a > 2.41421356237309504880, mid = (a > 0.66) & !far;
  Tensor r =
      mote::where(far, -1.0 / mote::where(far, a, 1), mote::where(mid, (a - 1) / (a + 1), a));
  Tensor z = r * r;
  Tensor p = polynomial(z, std::array{-8.750608600031904122785e-1, -1.615753718733365076637e1,
                                      -7.500855792314704667340e1, -1.228866684490136173410e2,
                                      -6.485021904942025371773e1});
  Tensor q = polynomial(z, std::array{1.0, 2.485846490142306297962e1, 1.650270098316988542046e2,
                                      4.328810604912902668951e2, 4.853903996359136964868e2,
                                      1.945506571482613964425e2});
  Tensor start = mote::where(far, x.full_like(std::numbers::pi / 2),
                             mote::where(mid, x.full_like(std::numbers::pi / 4), x.zeros_like()));
  return sign_of(x) * (start + (r + r * (z * p / q)));
}

Tensor atan2_wide(const Tensor& y, const Tensor& x) {
  Tensor none = (x.eq(0) & y.eq(0)) | (x.isinf() & y.isinf());
  Tensor slope = mote::where(none, 0, y) / mote::where(none, 1, x);
  Tensor base = atan_wide(slope);
  Tensor turn =
      mote::where(y.signbit(), x.full_like(-std::numbers::pi), x.full_like(std::numbers::pi));
  Tensor out = base + mote::where(x.signbit() & !none, turn, 0);
  // Both infinite: the diagonals. Both zero: 0 or pi, signed by y.
  Tensor quarter = mote::where(x < 0, turn * 0.75, turn * 0.25);
  Tensor zero = mote::where(x.signbit(), turn, y);
  return mote::where(none, mote::where(x.isinf(), quarter, zero), out);
}

Tensor asin_wide(const Tensor& x) { return atan_wide(x / ((1 - x) * (1 + x)).sqrt()); }
Tensor acos_wide(const Tensor& x) { return 2 * atan_wide(((1 - x) / (1 + x)).sqrt()); }

Tensor integral(const Tensor& t, Tensor (*f)(const Tensor&)) {
  expect(t.dtype() != DType::boolean, "needs numbers, got bool");
  return t.is_floating_point() ? f(t) : unchanged(t);
}

Tensor truncated(const Tensor& x) { return apply(Op::Trunc, x, x.dtype()); }

Tensor rounded_down(const Tensor& x) {
  Tensor t = truncated(x);
  return mote::where(x < t, t - 1, t);
}

Tensor rounded_up(const Tensor& x) {
  Tensor t = truncated(x);
  return mote::where(t < x, t + 1, t);
}

// From 2^mantissa on there are only integers; below it, adding that leaves no place for others.
Tensor to_even(const Tensor& t) {
  Tensor x = t.detach().to(accumulator(t.dtype())), size = magnitude(x);
  const double integers = x.dtype() == DType::f64 ? 0x1p52 : 0x1p23;
  Tensor whole = (size + integers) - integers;
  Tensor out = mote::where(size < integers, mote::where(x.signbit(), -whole, whole), x);
  return make_value(prim::flat_in(node_of(t), node_of(out.to(t.dtype()))), t);
}

// a - b * trunc(a / b), exact while the quotient is. A zero has the sign of a.
Tensor fmod_wide(const Tensor& a, const Tensor& b) {
  Tensor q = truncated(a / b).detach(), r = a - q * b;
  Tensor passed = r.ne(0) & (r < 0).ne(a < 0);  // the quotient was rounded up
  r = r + mote::where(passed, mote::where(a < 0, -b.abs(), b.abs()), 0);
  Tensor zero = (a * 0).detach() - (r.detach() - r);  // with the derivatives of r
  r = mote::where(r.eq(0), zero, r);
  return mote::where(b.isinf() & a.isfinite(), a, r);
}

DType common_dtype(const Operand& a, const Operand& b) {
  DType d = result_type(a, b);
  return d == DType::boolean ? DType::i64 : d;
}

struct Pair {
  Tensor a, b;
};
Pair as_tensors(const Operand& a, const Operand& b, DType d) {
  const Tensor& like = a.tensor ? *a.tensor : *b.tensor;
  return {to_tensor(a, like, d), to_tensor(b, like, d)};
}

// Euclid's steps, as many as the widest pair of the dtype needs.
Tensor gcd_wide(const Tensor& a, const Tensor& b) {
  Tensor x = a.abs(), y = b.abs();
  int steps = 8 * size_of(a.dtype()) * 3 / 2;
  for (int i = 0; i < steps; ++i) {
    Tensor done = y.eq(0), rest = elementwise(Op::IMod, {x, y}, a.dtype());
    x = mote::where(done, x, y);
    y = rest;
  }
  return x;
}

}  // namespace

// clang-format off
#define MOTE_RESULT(name, result) \
  Tensor Tensor::name(Loc w) const { \
    Call call(#name, w); \
    expect_defined(*this); \
    if (Recast as{call}) return as(*this).name(w); \
    return result; \
  }
MOTE_RESULT(sqrt, curve(Op::Sqrt, *this))
#define CURVE(op, function, meaning, f32, f64, derivative) \
  MOTE_RESULT(function, curve(Op::op, *this))
#include "ir/curves.def"
#undef CURVE
MOTE_RESULT(positive, unchanged(*this))
MOTE_RESULT(square, dtype() == DType::boolean ? to_long() : mul(*this))
MOTE_RESULT(reciprocal, 1.0 / *this)
MOTE_RESULT(deg2rad, *this * (std::numbers::pi / 180))
MOTE_RESULT(rad2deg, *this * (180 / std::numbers::pi))
MOTE_RESULT(sgn, sign())
MOTE_RESULT(floor, integral(*this, rounded_down))
MOTE_RESULT(ceil, integral(*this, rounded_up))
MOTE_RESULT(trunc, integral(*this, truncated))
MOTE_RESULT(round, integral(*this, to_even))
MOTE_RESULT(rsqrt, composed(*this, false, [](const Tensor& x) { return 1.0 / x.sqrt(); }))
MOTE_RESULT(expm1, composed(*this, false, expm1_wide, Given::Expm1))
MOTE_RESULT(log1p, composed(*this, false, log1p_wide, Given::Log1p))
MOTE_RESULT(tan, composed(*this, false, tan_wide, Given::Tan))
MOTE_RESULT(sinh, composed(*this, false, sinh_wide, Given::Sinh))
MOTE_RESULT(cosh, composed(*this, false, cosh_wide, Given::Cosh))
MOTE_RESULT(asinh, doubled(*this, asinh_narrow, asinh_wide, Given::Asinh))
MOTE_RESULT(acosh, doubled(*this, acosh_narrow, acosh_wide, Given::Acosh))
MOTE_RESULT(atanh, doubled(*this, atanh_narrow, atanh_wide, Given::Atanh))
MOTE_RESULT(atan, doubled(*this, atan_narrow, atan_wide, Given::Atan))
MOTE_RESULT(asin, doubled(*this, asin_narrow, asin_wide, Given::Asin))
MOTE_RESULT(acos, doubled(*this, acos_narrow, acos_wide, Given::Acos))
MOTE_RESULT(erfc, doubled(*this, erfc_narrow, erfc_wide, Given::Erfc))
#undef MOTE_RESULT
// clang-format on

Tensor Tensor::round(int decimals, Loc w) const {
  Call call("round", w);
  if (!is_floating_point() && decimals >= 0) return round();
  double scale = std::pow(10.0, std::abs(decimals));
  if (decimals >= 0) return (*this * scale).round() / scale;
  Tensor x = is_floating_point() ? *this : to_double();
  return ((x / scale).round() * scale).to(dtype());
}
Tensor Tensor::frac(Loc w) const {
  Call call("frac", w);
  expect(is_floating_point(), "needs a float tensor, got ", dtype());
  return *this - trunc();
}

Tensor Tensor::neg(Loc w) const {
  Call call("neg", w);
  expect(dtype() != DType::boolean, "a bool tensor cannot be negated; use logical_not");
  return apply(Op::Neg, *this, dtype());
}
Tensor Tensor::abs(Loc w) const {
  Call call("abs", w);
  if (!mote::is_signed(dtype())) return unchanged(*this);
  Tensor larger = elementwise(Op::Max, {*this, neg()}, dtype());
  return is_floating_point() ? larger + 0.0 : larger;  // the larger of -0 and 0 may be either
}
Tensor Tensor::sign(Loc w) const {
  Call call("sign", w);
  if (dtype() == DType::boolean) return unchanged(*this);
  Tensor zero = zeros_like(), up = mote::where(*this > 0, ones_like(), zero);
  Tensor out = mote::is_signed(dtype()) ? mote::where(*this < 0, full_like(-1), up) : up;
  return make_value(prim::flat_in(node_of(*this), node_of(out)), *this);
}
Tensor Tensor::signbit(Loc w) const {
  Call call("signbit", w);
  if (!is_floating_point()) return *this < 0;
  static constexpr DType whole[] = {DType::i8, DType::i16, DType::i32, DType::i64};
  int bytes = size_of(dtype());
  return bitcast(whole[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3]) < 0;
}

Tensor Tensor::logical_not(Loc w) const {
  Call call("logical_not", w);
  return make_value(prim::logical_not(node_of(to_bool())), *this);
}
Tensor Tensor::bitwise_not(Loc w) const {
  Call call("bitwise_not", w);
  expect(!is_floating_point(), "needs integers or bools, got ", dtype());
  return dtype() == DType::boolean ? logical_not() : bitwise_xor(-1);
}

Tensor Tensor::isnan(Loc w) const {
  Call call("isnan", w);
  return is_floating_point() ? ne(*this) : zeros_like(DType::boolean);
}
Tensor Tensor::isinf(Loc w) const {
  Call call("isinf", w);
  return is_floating_point() ? abs().eq(kInf) : zeros_like(DType::boolean);
}
Tensor Tensor::isposinf(Loc w) const {
  Call call("isposinf", w);
  return is_floating_point() ? eq(kInf) : zeros_like(DType::boolean);
}
Tensor Tensor::isneginf(Loc w) const {
  Call call("isneginf", w);
  return is_floating_point() ? eq(-kInf) : zeros_like(DType::boolean);
}
Tensor Tensor::isfinite(Loc w) const {
  Call call("isfinite", w);
  return is_floating_point() ? abs() < kInf : ones_like(DType::boolean);
}
Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan, Loc w) const {
  Call call("isclose", w);
  if (dtype() == DType::boolean && other.dtype() == DType::boolean) return eq(other);
  Tensor near = (*this - other).abs() <= other.abs() * rtol + atol;
  Tensor close = eq(other) | (near & other.isfinite());
  return equal_nan ? close | (isnan() & other.isnan()) : close;
}
Tensor Tensor::nan_to_num(double nan, Loc w) const {
  Call call("nan_to_num", w);
  if (!is_floating_point()) return unchanged(*this);
  static constexpr double largest[] = {448,
                                       57344,
                                       3.3895313892515355e38,
                                       65504,
                                       std::numeric_limits<float>::max(),
                                       std::numeric_limits<double>::max()};
  double most = largest[static_cast<int>(dtype()) - static_cast<int>(DType::f8e4m3)];
  Tensor t = mote::where(isnan(), full_like(nan), *this);
  return mote::where(isposinf(), full_like(most), mote::where(isneginf(), full_like(-most), t));
}

Tensor Tensor::log10(Loc w) const {
  Call call("log10", w);
  if (Recast as{call}) return as(*this).log10(w);
  return doubled(*this, log10_narrow, log10_wide, Given::Log10);
}
Tensor Tensor::sinc(Loc w) const {
  Call call("sinc", w);
  return composed(*this, false, [](const Tensor& x) {
    Tensor zero = x.eq(0), y = mote::where(zero, 1, x) * std::numbers::pi;
    return given(Given::Sinc, mote::where(zero, 1, y.sin() / y), {x});
  });
}

Tensor atan2(Operand a, Operand b, Loc w) {
  Call call("atan2", w);
  if (Recast as{call, a, b}) {
    Tensor y, x;
    return atan2(as(a, y), as(b, x), w);
  }
  auto of_points = [](Tensor (*angle_of)(const Tensor&, const Tensor&)) {
    return [=](const Tensor& y, const Tensor& x) {
      Tensor angle = angle_of(y, x);
      return given(Given::Atan2, angle, {fitted(y, angle), fitted(x, angle)});
    };
  };
  Operand both[] = {a, b};
  const bool wide = result_dtype(both) == DType::f64;
  return composed(a, b, true, of_points(wide ? atan2_wide : atan2_narrow));
}

Tensor hypot(Operand a, Operand b, Loc w) {
  Call call("hypot", w);
  return composed(a, b, true, [](const Tensor& x, const Tensor& y) {
    Tensor m = mote::where(x.abs() < y.abs(), y.abs(), x.abs());  // squares stay within f64
    Tensor scale = mote::where(m > 1e150, x.full_like(0x1p-600),
                               mote::where(m < 1e-150, x.full_like(0x1p600), 1));
    Tensor p = x * scale, q = y * scale, root = (p * p + q * q).sqrt() / scale;
    Tensor size = mote::where(x.isinf() | y.isinf(), x.full_like(kInf), root);
    return given(Given::Hypot, size, {fitted(x, size), fitted(y, size)});
  });
}

Tensor copysign(Operand a, Operand b, Loc w) {
  Call call("copysign", w);
  return composed(a, b, false, [](const Tensor& x, const Tensor& y) {
    Tensor size = x.abs();
    return mote::where(y.signbit(), -size, size);
  });
}

// The larger and the logarithm of what the smaller adds; equal infinities are left alone.
Tensor logaddexp(Operand a, Operand b, Loc w) {
  Call call("logaddexp", w);
  return composed(a, b, false, [](const Tensor& x, const Tensor& y) {
    Tensor top = mote::where(x < y, y, x), same = x.eq(y) & x.isinf();
    Tensor gap = mote::where(same, 0, x) - mote::where(same, 0, y);
    Tensor sum = top + mote::where(gap < 0, gap, -gap).exp().log1p();
    return mote::where(same, x * 0.5 + y * 0.5, sum);
  });
}
Tensor logaddexp2(Operand a, Operand b, Loc w) {
  Call call("logaddexp2", w);
  return composed(a, b, true, [](const Tensor& x, const Tensor& y) {
    return logaddexp(x * std::numbers::ln2, y * std::numbers::ln2) * std::numbers::log2e;
  });
}

Tensor xlogy(Operand a, Operand b, Loc w) {
  Call call("xlogy", w);
  return composed(a, b, false, [](const Tensor& x, const Tensor& y) {
    Tensor zero = x.eq(0) & !y.isnan();
    Tensor out = mote::where(zero, 0, x * mote::where(zero, 1, y).log());
    return given(Given::Xlogy, out, {fitted(x, out), fitted(y, out)});
  });
}

Tensor heaviside(Operand a, Operand b, Loc w) {
  Call call("heaviside", w);
  auto [x, values] = as_tensors(a, b, result_type(a, b));
  return mote::where(x.eq(0), values, (x > 0).to(x.dtype()));
}

Tensor fmax(Operand a, Operand b, Loc w) {
  Call call("fmax", w);
  auto [x, y] = as_tensors(a, b, result_type(a, b));
  return where((x >= y) | y.isnan(), x, y);  // of equal ones the first has the derivative
}
Tensor fmin(Operand a, Operand b, Loc w) {
  Call call("fmin", w);
  auto [x, y] = as_tensors(a, b, result_type(a, b));
  return where((x <= y) | y.isnan(), x, y);
}

Tensor gcd(Operand a, Operand b, Loc w) {
  Call call("gcd", w);
  DType d = common_dtype(a, b);
  expect(is_int(d), "needs integers, got ", d);
  auto [x, y] = as_tensors(a, b, d);
  return gcd_wide(x, y);
}
Tensor lcm(Operand a, Operand b, Loc w) {
  Call call("lcm", w);
  DType d = common_dtype(a, b);
  expect(is_int(d), "needs integers, got ", d);
  auto [x, y] = as_tensors(a, b, d);
  return (elementwise(Op::IDiv, {x, gcd_wide(x, y)}, d) * y).abs();
}

Tensor fmod(Operand a, Operand b, Loc w) {
  Call call("fmod", w);
  DType d = common_dtype(a, b);
  Tensor kept;
  if (!is_float(d)) return elementwise(Op::IMod, {a, checked_divisor(b, kept)}, d);
  return composed(a, b, true, fmod_wide);
}

// The sign of the divisor, as Python's %.
Tensor remainder(Operand a, Operand b, Loc w) {
  Call call("remainder", w);
  DType d = common_dtype(a, b);
  auto [x, y] = as_tensors(a, b, d);
  Tensor r = fmod(x, y);
  if (!is_signed(d)) return r;
  return where(r.ne(0) & (r < 0).ne(y < 0), r + y, r);
}

Tensor floor_divide(Operand a, Operand b, Loc w) {
  Call call("floor_divide", w);
  DType d = common_dtype(a, b);
  auto [x, y] = as_tensors(a, b, d);
  if (is_float(d)) {
    Tensor rest = fmod(x, y), whole = (x - rest) / y;
    whole = where(rest.ne(0) & (rest < 0).ne(y < 0), whole - 1, whole);
    Tensor below = whole.floor(), signed_zero = x / y * 0;
    below = where(whole - below > 0.5, below + 1, below);
    return where(y.eq(0), x / y, where(whole.eq(0), signed_zero, below));
  }
  Tensor kept, q = elementwise(Op::IDiv, {x, checked_divisor(y, kept)}, d);
  if (!is_signed(d)) return q;
  Tensor inexact = (q * y).ne(x) & y.ne(0);
  return where(inexact & (x < 0).ne(y < 0), q - 1, q);
}

}  // namespace mote
