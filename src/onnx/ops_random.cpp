// Random numbers, by mote's own generators. A seed in the model is not used: manual_seed sets one.
#include "onnx/ops.h"

namespace mote::onnx {

namespace {

const Element& wanted(Call& c, int otherwise) {
  return element_of(static_cast<int>(c.i("dtype", otherwise)));
}

Outputs normal_of(Call& c, const Sizes& shape, int otherwise) {
  const Tensor t = normal(shape, c.f("mean", 0), c.f("scale", 1), c.options(DType::f32));
  return {t.cast(wanted(c, otherwise).held)};
}
Outputs uniform_of(Call& c, const Sizes& shape, int otherwise) {
  const Tensor t = uniform(shape, c.f("low", 0), c.f("high", 1), c.options(DType::f32));
  return {t.cast(wanted(c, otherwise).held)};
}
Outputs random_normal(Call& c) { return normal_of(c, c.is("shape"), kFloat); }
Outputs random_uniform(Call& c) { return uniform_of(c, c.is("shape"), kFloat); }
Outputs random_normal_like(Call& c) { return normal_of(c, c.x(0).shape(), c.type(0)); }
Outputs random_uniform_like(Call& c) { return uniform_of(c, c.x(0).shape(), c.type(0)); }

Outputs bernoulli(Call& c) {
  const Tensor x = c.x(0);
  return {x.cast(DType::f32).bernoulli().cast(wanted(c, c.type(0)).held)};
}

Outputs multinomial(Call& c) {
  const Tensor drawn = c.x(0).cast(DType::f32).softmax(-1).multinomial(c.i("sample_size", 1), true);
  return {drawn.cast(wanted(c, kInt32).held)};
}

// Since opset 12 the ratio is an input, and an input says whether this is training.
Outputs dropout(Call& c) {
  const Tensor x = c.x(0);
  const DType mask_dtype = c.opset() < 10 ? x.dtype() : DType::boolean;
  const bool trains = c.opset() >= 12 && c.has(2) && c.integer(2) != 0;
  const double ratio = c.opset() < 12 ? c.f("ratio", 0.5) : c.has(1) ? c.real(1) : 0.5;
  if (!trains || ratio == 0) return {x, x.ones_like(mask_dtype)};
  const Tensor kept = x.rand_like(DType::f32) >= ratio;
  return {mote::where(kept, x / (1 - ratio), x.zeros_like()).cast(x.dtype()), kept};
}

constexpr OpRow rows[] = {
    {"RandomNormal",      1,  random_normal,       "", true},
    {"RandomUniform",     1,  random_uniform,      "", true},
    {"RandomNormalLike",  1,  random_normal_like,  "", true},
    {"RandomUniformLike", 1,  random_uniform_like, "", true},
    {"Bernoulli",         15, bernoulli,           "", true},
    {"Multinomial",       7,  multinomial,         "", true},
    {"Dropout",           1,  dropout,             "", true},
};

}  // namespace

OpTable random_ops() { return rows; }

}  // namespace mote::onnx
