// Activations, softmax and their like.
#include "onnx/ops.h"

namespace mote::onnx {

namespace {

Outputs elu(Call& c) { return {c.x(0).elu(c.f("alpha", 1))}; }
Outputs leaky_relu(Call& c) { return {c.x(0).leaky_relu(c.f("alpha", 0.01))}; }

Outputs celu(Call& c) {
  const Tensor x = c.x(0);
  const double alpha = c.f("alpha", 1);
  return {x.maximum(0) + ((x.minimum(0) / alpha).expm1() * alpha)};
}

Outputs selu(Call& c) {
  const Tensor x = c.x(0);
  const double alpha = c.f("alpha", 1.67326319217681884765625),
               gamma = c.f("gamma", 1.05070102214813232421875);
  return {(x.maximum(0) + x.minimum(0).expm1() * alpha) * gamma};
}

Outputs thresholded_relu(Call& c) {
  const Tensor x = c.x(0);
  return {x.masked_fill(x <= c.f("alpha", 1), 0)};
}

Outputs hard_sigmoid(Call& c) {
  return {(c.x(0) * c.f("alpha", 0.2) + c.f("beta", 0.5)).clamp(0, 1)};
}

Outputs hard_swish(Call& c) {
  const Tensor x = c.x(0);
  return {x * (x / 6 + 0.5).clamp(0, 1)};
}

Outputs shrink(Call& c) {
  const Tensor x = c.x(0);
  const double lambd = c.f("lambd", 0.5), bias = c.f("bias", 0);
  const Tensor zero = x.zeros_like();
  return {
      mote::where(x < -lambd, x + bias, mote::where(x > lambd, x - bias, zero)).cast(x.dtype())};
}

// Before opset 7 one slope, or one per channel; since then broadcast from the last axis.
Outputs prelu(Call& c) {
  const Tensor x = c.x(0);
  Tensor slope = c.x(1);
  if (c.opset() < 7 && slope.numel() > 1 && x.dim() > 1) {
    std::vector<int64_t> shape(static_cast<size_t>(x.dim() - 1), 1);
    shape[0] = slope.numel();
    slope = slope.reshape(shape);
  }
  return {mote::where(x < 0, x * slope, x)};
}

Outputs gelu(Call& c) { return {c.x(0).gelu(c.s("approximate", "none").c_str())}; }

Outputs swish(Call& c) {
  const Tensor x = c.x(0);
  return {x * (x * c.f("alpha", 1)).sigmoid()};
}

Outputs swiglu(Call& c) {
  const Tensor a = c.x(0);
  return {a * (a * c.f("alpha", 1)).sigmoid() * c.x(1)};
}

// Before opset 13 all axes from `axis` on were one.
template <class F>
Outputs along_axis(Call& c, F f) {
  const Tensor x = c.x(0);
  const bool joins = c.opset() < 13;
  const int64_t axis = axis_of(c.i("axis", joins ? 1 : -1), std::max<int64_t>(x.dim(), 1));
  if (x.dim() == 0) return {f(x.reshape({1}), 0).reshape({})};
  if (!joins) return {f(x, axis)};
  const std::vector<int64_t> shape = x.shape();
  const int64_t rows = product(std::span(shape).first(static_cast<size_t>(axis)));
  const int64_t columns = product(std::span(shape).subspan(static_cast<size_t>(axis)));
  return {f(x.reshape({rows, columns}), 1).reshape(shape)};
}

Outputs softmax(Call& c) {
  return along_axis(c, [](const Tensor& x, int64_t axis) { return x.softmax(axis); });
}
Outputs log_softmax(Call& c) {
  return along_axis(c, [](const Tensor& x, int64_t axis) { return x.log_softmax(axis); });
}
Outputs hardmax(Call& c) {
  return along_axis(c, [](const Tensor& x, int64_t axis) {
    const Tensor first = x.argmax(axis, true);
    std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
    shape[static_cast<size_t>(axis)] = x.size(axis);
    const Tensor places = arange(x.size(axis), {.device = x.device()}).reshape(shape);
    return places.eq(first).cast(x.dtype());
  });
}

constexpr OpRow rows[] = {
    {"Relu", 1, unary<&Tensor::relu>, "", false, false, true},
    {"Sigmoid", 1, unary<&Tensor::sigmoid>},
    {"Softsign", 1, unary<&Tensor::softsign>},
    {"Softplus", 1, [](Call& c) -> Outputs {return {c.x(0).logaddexp(c.x(0).zeros_like())};}},
    {"Mish", 18, unary<&Tensor::mish>},
    {"Elu", 1, elu},
    {"Celu", 12, celu},
    {"Selu", 1, selu},
    {"LeakyRelu", 1, leaky_relu, "", false, false, true},
    {"ThresholdedRelu", 1, thresholded_relu},
    {"HardSigmoid", 1, hard_sigmoid},
    {"HardSwish", 14, hard_swish},
    {"Shrink", 9, shrink},
    {"PRelu", 1, prelu},
    {"Gelu", 20, gelu},
    {"Swish", 24, swish},
    {"SwiGLU", 1, swiglu},
    {"Softmax", 1, softmax},
    {"LogSoftmax", 1, log_softmax},
    {"Hardmax", 1, hardmax},
};

}  // namespace

OpTable activation_ops() { return rows; }

}  // namespace mote::onnx
