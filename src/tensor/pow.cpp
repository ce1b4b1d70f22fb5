// Powers: whole exponents by squaring, others through logarithms in f64.
#include <cmath>

#include "tensor/autocast.h"
#include "tensor/given.h"

namespace mote {

namespace {

Tensor by_squaring(const Tensor& x, uint64_t exponent) {
  Tensor result, square = x;
  for (uint64_t e = exponent; e; e >>= 1) {
    if (e & 1) result = result.defined() ? result * square : square;
    if (e > 1) square = square * square;
  }
  if (result.defined()) return result;
  return make_value(prim::flat_in(node_of(x), node_of(x.ones_like())), x);
}

// Each bit of the exponent multiplies by its square or by 1. Negative exponents: only 1 and -1
// have whole inverses.
Tensor integer_power(const Tensor& x, const Tensor& y) {
  Tensor result = x.ones_like(), square = x;
  int bits = 8 * size_of(y.dtype()) - (is_signed(y.dtype()) ? 1 : 0);
  for (int i = 0; i < bits; ++i) {
    Tensor taken = ((y >> i) & 1).ne(0);
    result = result * where(taken, square, x.ones_like());
    if (i + 1 < bits) square = square * square;
  }
  if (!is_signed(y.dtype())) return result;
  Tensor minus = where((y & 1).ne(0), x, x.ones_like());
  Tensor inverse = where(x.eq(1), x, where(x.eq(-1), minus, x.zeros_like()));
  return where(y < 0, inverse, result);
}

// |x|^y = 2^(y log2|x|) with the sign of an odd whole power; NaN for other powers of x < 0.
Tensor real_power(const Tensor& x, const Tensor& y) {
  Tensor zero = x.eq(0), one = x.eq(1) | y.eq(0) | (x.eq(-1) & y.isinf());
  Tensor size = x.abs();
  Tensor logarithm = where(zero | one, 1, size).log2();
  Tensor power = (where(one, 0, y) * logarithm).exp2();
  Tensor half = y * 0.5, whole = y.trunc().eq(y), odd = whole & half.trunc().ne(half);
  power = where(zero, where(y < 0, x.full_like(INFINITY), where(y.isnan(), y, 0)), power);
  power = where(x.signbit() & odd, -power, power);
  Tensor undefined = (x < 0) & !whole & size.isfinite() & !y.isnan();
  return where(one, x.ones_like(), where(undefined, x.full_like(NAN), power));
}

Tensor number_power(const Tensor& x, const Number& n) {
  if (!is_float(x.dtype()) && n.kind != Number::Float) {
    expect(n.f >= 0, "an integer has no integer power of ", n.i, "; cast to a float first");
    return by_squaring(x, static_cast<uint64_t>(n.i));
  }
  Tensor f = x.to(float_dtype(x.dtype()));
  if (n.f == 0.5) return f.sqrt();
  if (n.f == -0.5) return f.rsqrt();
  if (n.f == std::trunc(n.f) && std::abs(n.f) <= 16) {
    Tensor wide = f.to(accumulator(f.dtype()));
    Tensor power = by_squaring(wide, static_cast<uint64_t>(std::abs(n.f)));
    if (n.f < 0) power = given(Given::Pow, 1.0 / power, {wide, wide.full_like(n)});
    return power.to(f.dtype());
  }
  return {};
}

}  // namespace

Tensor pow(Operand a, Operand b, Loc w) {
  Call call("pow", w);
  if (Recast as{call}) {
    Tensor base, exponent;
    return pow(as(a, base), as(b, exponent), w);
  }
  expect(a.tensor || b.tensor, "needs a tensor");
  Operand both[] = {a, b};
  DType d = result_dtype(both);
  if (d == DType::boolean && b.tensor) d = DType::i64;
  const Tensor& like = a.tensor ? *a.tensor : *b.tensor;
  Tensor x = to_tensor(a, like, d);
  if (!b.tensor)
    if (Tensor t = number_power(x, b.number); t.defined()) return t;
  Tensor y = to_tensor(b, like, d);
  if (!is_float(d)) return integer_power(x, y);
  Tensor base = x.to(DType::f64), exponent = y.to(DType::f64), power = real_power(base, exponent);
  auto fitted = [&](const Tensor& t) { return broadcast_tensor(t, dims_of(power)); };
  return given(Given::Pow, power, {fitted(base), fitted(exponent)}).to(d);
}

}  // namespace mote
