// Functions of the parts of floats: neighbours, exponents, powers of two; and whether tensors are
// close or equal.
#include <cmath>

#include "tensor/given.h"
#include "tensor/operators.h"

namespace mote {

namespace {

DType bits_of(DType d) {
  const int size = size_of(d);
  return size == 1 ? DType::i8 : size == 2 ? DType::i16 : size == 4 ? DType::i32 : DType::i64;
}

// x * 2^n in two steps, as 2^n alone may be out of range.
Tensor scaled(const Tensor& x, const Tensor& n) {
  Tensor half = n.floor_divide(2), rest = n - half;
  return x * half.to(DType::f64).exp2().to(x.dtype()) * rest.to(DType::f64).exp2().to(x.dtype());
}

}  // namespace

Tensor float_power(Operand a, Operand b, Loc w) {
  Call call("float_power", w);
  expect(a.tensor || b.tensor, "needs a tensor");
  const Tensor& like = a.tensor ? *a.tensor : *b.tensor;
  Tensor x = to_tensor(a, like, DType::f64);
  return b.tensor ? pow(x, b.tensor->to(DType::f64)) : pow(x, real(b.number));
}

Tensor ldexp(Operand a, Operand b, Loc w) {
  Call call("ldexp", w);
  expect(a.tensor || b.tensor, "needs a tensor");
  const Tensor& like = a.tensor ? *a.tensor : *b.tensor;
  const DType d = float_dtype(result_type(a, b));
  Tensor x = to_tensor(a, like, DType::f64), n = to_tensor(b, like, DType::f64);
  return (x * n.exp2()).to(d);
}

// The bits of floats of one sign count up with their size.
Tensor nextafter(Operand a, Operand b, Loc w) {
  Call call("nextafter", w);
  expect(a.tensor || b.tensor, "needs a tensor");
  const Tensor& like = a.tensor ? *a.tensor : *b.tensor;
  const DType d = result_type(a, b);
  expect(is_float(d), "needs floats, got ", d);
  Tensor x = to_tensor(a, like, d).detach(), y = to_tensor(b, like, d).detach();
  Tensor bits = x.bitcast(bits_of(d)), away = (y > x).eq(x > 0);
  Tensor next = (bits + where(away, 1, -1).to(bits.dtype())).bitcast(d);
  Tensor least = bits.ones_like().bitcast(d);
  next = where(x.eq(0), where(y > 0, least, -least), next);
  return where(x.isnan() | y.isnan(), NAN, where(x.eq(y), y, next)).to(d);
}

// The exponent's bits, of what is too small for them after a multiplication.
std::pair<Tensor, Tensor> frexp(const Tensor& x, Loc w) {
  Call call("frexp", w);
  expect_defined(x);
  expect(x.is_floating_point(), "needs a float tensor, got ", x.dtype());
  Tensor wide = x.to(DType::f64), fixed = wide.detach(), small = fixed.abs() < 0x1p-1000;
  Tensor bits = where(small, fixed * 0x1p100, fixed).bitcast(DType::i64);
  Tensor exponent = ((bits >> 52) & 0x7ff) - 1022 - where(small, 100, 0);
  Tensor plain = fixed.eq(0) | fixed.isfinite().logical_not();
  exponent = where(plain, 0, exponent);
  return {scaled(wide, -exponent).to(x.dtype()), exponent.to(DType::i32)};
}

bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan, Loc w) const {
  Call call("allclose", w);
  return isclose(other, rtol, atol, equal_nan).all().item<bool>();
}

bool Tensor::equal(const Tensor& other, Loc w) const {
  Call call("equal", w);
  expect_defined(other, "the other tensor");
  common_device({this, &other});
  return dims_of(*this) == dims_of(other) && eq(other).all().item<bool>();
}

}  // namespace mote
