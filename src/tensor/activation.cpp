// Activations and other shapes of one tensor with parameters.
#include <cmath>
#include <numbers>

#include "tensor/autocast.h"
#include "tensor/given.h"
#include "tensor/operators.h"
#include "tensor/recorded.h"

namespace mote {

namespace {

// f in f32 or wider, given in t's float dtype.
template <class F>
Tensor wide(const Tensor& t, F f) {
  DType d = float_dtype(t.dtype());
  return f(t.to(accumulator(d))).to(d);
}

void expect_float(const Tensor& t) {
  expect(t.is_floating_point(), "needs a float tensor, got ", t.dtype());
}

Tensor negative_expm1(const Tensor& x) {
  return given(Given::NegativeExpm1, where(x > 0, 0, x).expm1(), {x});
}

Tensor minus_magnitude(const Tensor& x) { return where(x < 0, x, -x); }

// log(1 + e^x) without overflow; slope 1/2 at 0.
Tensor soft_positive(const Tensor& x) {
  return where(x < 0, 0, x) + minus_magnitude(x).exp().log1p();
}

}  // namespace

// e^-|x| never overflows, and neither do derivatives of what it is divided by.
Tensor Tensor::sigmoid(Loc w) const {
  Call call("sigmoid", w);
  const Tensor y = wide(*this, [](const Tensor& x) {
    Tensor e = minus_magnitude(x).exp();
    return mote::where(x < 0, e, 1) / (e + 1);
  });
  return recorded("sigmoid", y, {this});
}
Tensor Tensor::logsigmoid(Loc w) const {
  Call call("logsigmoid", w);
  return wide(*this, [](const Tensor& x) {
    return mote::where(x < 0, x, 0) - minus_magnitude(x).exp().log1p();
  });
}
Tensor Tensor::softplus(double beta, double threshold, Loc w) const {
  Call call("softplus", w);
  if (Recast as{call}) return as(*this).softplus(beta, threshold, w);
  return wide(*this, [&](const Tensor& x) {
    Tensor y = x * beta;
    return mote::where(y > threshold, x, soft_positive(y) / beta);
  });
}

// Slope 0 at 0 and NaN kept, which max(x, 0) does not give both.
Tensor Tensor::relu(Loc w) const {
  Call call("relu", w);
  expect(dtype() != DType::boolean, "needs numbers, got bool");
  return recorded("relu", mote::where(*this <= 0, zeros_like(), *this), {this});
}
Tensor Tensor::relu6(Loc w) const {
  Call call("relu6", w);
  return hardtanh(0, 6);
}
// Slope 0 at both ends, as PyTorch's.
Tensor Tensor::hardtanh(double lo, double hi, Loc w) const {
  Call call("hardtanh", w);
  return mote::where(*this <= lo, full_like(lo), mote::where(*this >= hi, full_like(hi), *this));
}
Tensor Tensor::silu(Loc w) const {
  Call call("silu", w);
  return wide(*this, [](const Tensor& x) { return x * x.sigmoid(); });
}
Tensor Tensor::swish(Loc w) const {
  Call call("swish", w);
  return silu();
}
Tensor Tensor::mish(Loc w) const {
  Call call("mish", w);
  return wide(*this, [](const Tensor& x) { return x * soft_positive(x).tanh(); });
}
Tensor Tensor::selu(Loc w) const {
  Call call("selu", w);
  return wide(*this, [](const Tensor& x) {
    return x.elu(1.6732632423543772848170429916717) * 1.0507009873554804934193349852946;
  });
}
Tensor Tensor::hardsigmoid(Loc w) const {
  Call call("hardsigmoid", w);
  return (hardtanh(-3, 3) + 3) / 6;  // x + 3 may be 6 for x < 3
}
Tensor Tensor::hardswish(Loc w) const {
  Call call("hardswish", w);
  return wide(*this, [](const Tensor& x) { return x * (x.hardtanh(-3, 3) + 3) / 6; });
}
Tensor Tensor::softsign(Loc w) const {
  Call call("softsign", w);
  return wide(*this, [](const Tensor& x) {
    return given(Given::Softsign, x / (1 - minus_magnitude(x)), {x});
  });
}
Tensor Tensor::tanhshrink(Loc w) const {
  Call call("tanhshrink", w);
  return wide(*this, [](const Tensor& x) { return given(Given::Tanhshrink, x - x.tanh(), {x}); });
}

Tensor Tensor::gelu(const char* approximate, Loc w) const {
  Call call("gelu", w);
  expect_float(*this);
  std::string how = word(approximate, "approximate");
  bool with_tanh = how == "tanh";
  expect(with_tanh || how == "none", "approximate is none or tanh, got ", how);
  const Tensor y = wide(*this, [&](const Tensor& x) {
    if (!with_tanh) return 0.5 * x * (1 + (x * std::numbers::sqrt2 * 0.5).erf());
    Tensor inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return given(Given::GeluTanh, 0.5 * x * (1 + inner.tanh()), {x});
  });
  return recorded("gelu", y, {this}, [&] { return std::vector<int64_t>{with_tanh}; });
}
Tensor Tensor::elu(double alpha, Loc w) const {
  Call call("elu", w);
  return wide(*this,
              [&](const Tensor& x) { return mote::where(x > 0, x, alpha * negative_expm1(x)); });
}
Tensor Tensor::celu(double alpha, Loc w) const {
  Call call("celu", w);
  expect(alpha != 0, "alpha must not be 0");
  return wide(*this, [&](const Tensor& x) {
    return mote::where(x > 0, x, alpha * negative_expm1(x / alpha));
  });
}
Tensor Tensor::leaky_relu(double negative_slope, Loc w) const {
  Call call("leaky_relu", w);
  return mote::where(*this > 0, *this, *this * negative_slope);
}
Tensor Tensor::prelu(const Tensor& weight, Loc w) const {
  Call call("prelu", w);
  if (Recast as{call}) return as(*this).prelu(as(weight), w);
  expect_defined(weight, "the weight");
  expect(weight.dim() <= 1, "needs one weight or one per channel, got shape ", weight);
  Tensor slope = weight;
  if (weight.numel() != 1) {
    expect(dim() >= 2 && size(1) == weight.numel(), "needs ", dim() >= 2 ? size(1) : 1,
           " weights, got ", weight.numel());
    std::vector<int64_t> shape(static_cast<size_t>(dim()), 1);
    shape[1] = weight.numel();
    slope = weight.reshape(shape);
  }
  Tensor out = mote::where(*this > 0, *this, *this * slope);
  if (!out.is_floating_point()) return out;
  auto fitted = [&](const Tensor& t) { return broadcast_tensor(t.to(out.dtype()), dims_of(out)); };
  return given(Given::Prelu, out, {fitted(*this), fitted(slope)});
}
Tensor Tensor::hardshrink(double lambd, Loc w) const {
  Call call("hardshrink", w);
  return mote::where((*this >= -lambd) & (*this <= lambd), zeros_like(), *this);
}
Tensor Tensor::softshrink(double lambd, Loc w) const {
  Call call("softshrink", w);
  expect(lambd >= 0, "needs lambd >= 0, got ", lambd);
  Tensor middle = mote::where(isnan(), *this, zeros_like());
  return mote::where(*this > lambd, *this - lambd,
                     mote::where(*this < -lambd, *this + lambd, middle));
}
Tensor Tensor::threshold(double threshold, double value, Loc w) const {
  Call call("threshold", w);
  return mote::where(*this <= threshold, full_like(value), *this);
}
Tensor Tensor::glu(int64_t dim, Loc w) const {
  Call call("glu", w);
  expect(this->dim() > 0 && size(dim) % 2 == 0, "needs an axis of even size, got shape ", *this,
         " and axis ", dim);
  int64_t half = size(dim) / 2;
  return narrow(dim, 0, half) * narrow(dim, half, half).sigmoid();
}

// The maximum of integers has an interval, which tells that an index is in range.
static bool of_integers(const Tensor& t, const Operand& bound) {
  Operand both[] = {t, bound};
  return is_int(result_dtype(both));
}

// The bounds themselves keep slope 1.
Tensor Tensor::clamp(Operand lo, Operand hi, Loc w) const {
  Call call("clamp", w);
  return clamp_min(lo).clamp_max(hi);
}
Tensor Tensor::clip(Operand lo, Operand hi, Loc w) const {
  Call call("clip", w);
  return clamp(lo, hi);
}
Tensor Tensor::clamp_min(Operand lo, Loc w) const {
  Call call("clamp_min", w);
  if (of_integers(*this, lo)) return mote::maximum(*this, lo);
  return mote::where(lt(lo), lo, *this);
}
Tensor Tensor::clamp_max(Operand hi, Loc w) const {
  Call call("clamp_max", w);
  if (of_integers(*this, hi)) return mote::minimum(*this, hi);
  return mote::where(gt(hi), hi, *this);
}

// From the nearer end, so that weight 1 gives `end` exactly.
Tensor Tensor::lerp(const Tensor& end, Operand weight, Loc w) const {
  Call call("lerp", w);
  expect_float(*this);
  expect(dtype() == end.dtype(), "dtypes ", dtype(), " and ", end.dtype(), " differ");
  Tensor t = to_tensor(weight, *this, dtype()), step = end - *this;
  return mote::where(t < 0.5, *this + t * step, end - step * (1 - t));
}
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, Number value, Loc w) const {
  Call call("addcmul", w);
  if (Recast as{call, *this, a, b}) return as(*this).addcmul(as(a), as(b), value, w);
  return *this + a * b * value;
}
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, Number value, Loc w) const {
  Call call("addcdiv", w);
  if (Recast as{call, *this, a, b}) return as(*this).addcdiv(as(a), as(b), value, w);
  return *this + value * a / b;
}
Tensor Tensor::logit(double eps, Loc w) const {
  Call call("logit", w);
  return wide(*this, [&](const Tensor& x) {
    Tensor p = eps >= 0 ? x.clamp(eps, 1 - eps) : x;
    return given(Given::Logit, (p / (1 - p)).log(), {p});
  });
}

}  // namespace mote
