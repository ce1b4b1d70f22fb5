// Normalisation.
#include "onnx/ops.h"

namespace mote::onnx {

namespace {

// One number per channel, along the axis behind the batch.
Tensor per_channel(const Tensor& p, int64_t rank) {
  std::vector<int64_t> shape(static_cast<size_t>(std::max<int64_t>(rank, 2)), 1);
  shape[1] = p.numel();
  return p.reshape(shape);
}

Outputs batch_normalization(Call& c) {
  const Tensor x = c.x(0), scale = c.x(1), bias = c.x(2);
  Tensor mean = c.x(3), variance = c.x(4);
  const int64_t rank = x.dim();
  const bool by_channel = c.i("spatial", 1) != 0;
  auto spread = [&](const Tensor& p) { return by_channel ? per_channel(p, rank) : p.unsqueeze(0); };
  Outputs out(1);
  if (c.opset() >= 14 && c.i("training_mode", 0)) {
    std::vector<int64_t> axes = iota(rank);
    axes.erase(axes.begin() + 1);
    const double keep = c.f("momentum", 0.9);
    const Tensor now = x.mean(axes), spread_now = x.var(axes, 0);
    out.push_back(mean * keep + now.cast(mean.dtype()) * (1 - keep));
    out.push_back(variance * keep + spread_now.cast(variance.dtype()) * (1 - keep));
    mean = now, variance = spread_now;
  }
  const Tensor factor = scale / (variance + c.f("epsilon", 1e-5)).sqrt();
  out[0] = ((x - spread(mean)) * spread(factor) + spread(bias)).cast(x.dtype());
  return out;
}

Outputs instance_normalization(Call& c) {
  const Tensor x = c.x(0);
  const std::vector<int64_t> axes = iota(x.dim() - 2, 2);
  const Tensor centred = x - x.mean(axes, true);
  const Tensor deviation = (centred.square().mean(axes, true) + c.f("epsilon", 1e-5)).sqrt();
  return {centred / deviation * per_channel(c.x(1), x.dim()) + per_channel(c.x(2), x.dim())};
}

DType stash(Call& c, const Tensor& x) {
  const int type = static_cast<int>(c.i("stash_type", kFloat));
  const DType dtype = element_of(type).held;
  return x.dtype() == DType::f64 ? DType::f64 : dtype;
}

std::vector<int64_t> axes_from(Call& c, const Tensor& x) {
  const int64_t axis = axis_of(c.i("axis", -1), x.dim());
  return iota(x.dim() - axis, axis);
}

Outputs layer_normalization(Call& c) {
  const Tensor x = c.x(0), wide = x.cast(stash(c, x));
  const std::vector<int64_t> axes = axes_from(c, x);
  const Tensor mean = wide.mean(axes, true), centred = wide - mean;
  const Tensor inverse = (centred.square().mean(axes, true) + c.f("epsilon", 1e-5)).rsqrt();
  Tensor y = (centred * inverse).cast(x.dtype()) * c.x(1);
  if (c.has(2)) y = y + c.x(2);
  return {y, mean, inverse};
}

Outputs rms_normalization(Call& c) {
  const Tensor x = c.x(0), wide = x.cast(stash(c, x));
  const Tensor square = wide.square().mean(axes_from(c, x), true);
  const Tensor inverse = (square + c.f("epsilon", 1e-5)).rsqrt();
  return {(wide * inverse).cast(x.dtype()) * c.x(1), inverse};
}

// Since opset 21 there is a scale for each channel, before for each group.
Outputs group_normalization(Call& c) {
  const Tensor x = c.x(0), wide = x.cast(stash(c, x));
  const int64_t groups = c.i("num_groups", 1), n = x.size(0), channels = x.size(1);
  const Tensor rows = wide.reshape({n, groups, -1});
  const Tensor centred = rows - rows.mean({2}, true);
  Tensor y = centred / (centred.square().mean({2}, true) + c.f("epsilon", 1e-5)).sqrt();
  y = y.cast(x.dtype());
  if (c.opset() < 21)
    return {
        (y * c.x(1).reshape({1, groups, 1}) + c.x(2).reshape({1, groups, 1})).reshape(x.shape())};
  y = y.reshape({n, channels, -1}) * c.x(1).reshape({1, channels, 1});
  return {(y + c.x(2).reshape({1, channels, 1})).reshape(x.shape())};
}

Outputs lrn(Call& c) {
  const Tensor x = c.x(0);
  const int64_t size = c.i("size", 1), before = (size - 1) / 2;
  std::vector<int64_t> amounts(2 * static_cast<size_t>(x.dim() - 1));
  amounts[amounts.size() - 2] = before, amounts[amounts.size() - 1] = size - 1 - before;
  const Tensor sum = x.square().pad(amounts).unfold(1, size, 1).sum({-1});
  const double alpha = c.f("alpha", 1e-4) / static_cast<double>(size);
  return {x / (sum * alpha + c.f("bias", 1)).pow(c.f("beta", 0.75))};
}

Outputs lp_normalization(Call& c) {
  const Tensor x = c.x(0);
  const int64_t axis = axis_of(c.i("axis", -1), x.dim());
  const Tensor size =
      c.i("p", 2) == 1 ? x.abs().sum({axis}, true) : x.square().sum({axis}, true).sqrt();
  return {mote::where(size.eq(0), x.zeros_like(), x / size)};
}

Tensor joined(Call& c, std::initializer_list<size_t> inputs) {
  Tensor sum;
  for (const size_t i : inputs)
    if (c.has(i)) sum = sum.defined() ? sum + c.x(i) : c.x(i);
  return sum;
}

Tensor row_norm(const Tensor& x, double epsilon, bool simplified) {
  const Tensor wide = x.cast(x.dtype() == DType::f64 ? DType::f64 : DType::f32);
  const Tensor centred = simplified ? wide : wide - wide.mean({-1}, true);
  const Tensor square = centred.square().mean({-1}, true);
  return (centred * (square + epsilon).rsqrt()).cast(x.dtype());
}

// Microsoft's: a residual is added first. Outputs 1 and 2, for training, are left out.
Outputs skip_layer_norm(Call& c) {
  const Tensor sum = joined(c, {0, 1, 4});
  Tensor y = row_norm(sum, c.f("epsilon", 1e-12), false) * c.x(2);
  if (c.has(3)) y = y + c.x(3);
  return {y, {}, {}, sum};
}
Outputs skip_rms_norm(Call& c) {
  const Tensor sum = joined(c, {0, 1, 3});
  return {row_norm(sum, c.f("epsilon", 1e-12), true) * c.x(2), {}, {}, sum};
}

Outputs embed_layer_norm(Call& c) {
  const Tensor ids = c.x(0);
  const int64_t length = ids.size(1);
  Tensor sum = ids.cast(DType::i64).embedding(c.x(2));
  sum = sum + (c.has(8) ? c.x(8).cast(DType::i64).embedding(c.x(3))
                        : c.x(3).narrow(0, 0, length).unsqueeze(0));
  if (c.has(1) && c.has(4)) sum = sum + c.x(1).cast(DType::i64).embedding(c.x(4));
  const Tensor y = row_norm(sum, c.f("epsilon", 1e-12), false) * c.x(5) + c.x(6);
  const Tensor count =
      c.has(7) ? c.x(7).sum({1}).cast(DType::i32) : zeros({ids.size(0)}, c.options(DType::i32));
  return {y, count, sum};
}

constexpr const char* microsoft = "com.microsoft";
// clang-format off
constexpr OpRow rows[] = {
    {"BatchNormalization", 1, batch_normalization},
    {"InstanceNormalization", 1, instance_normalization},
    {"LayerNormalization", 1, layer_normalization},
    {"LayerNormalization", 1, layer_normalization, microsoft},
    {"RMSNormalization", 23, rms_normalization},
    {"SimplifiedLayerNormalization", 1, rms_normalization},
    {"SimplifiedLayerNormalization", 1, rms_normalization, microsoft},
    {"GroupNormalization", 18, group_normalization},
    {"LRN", 1, lrn},
    {"LpNormalization", 1, lp_normalization},
    {"SkipLayerNormalization", 1, skip_layer_norm, microsoft},
    {"SkipSimplifiedLayerNormalization", 1, skip_rms_norm, microsoft},
    {"EmbedLayerNormalization", 1, embed_layer_norm, microsoft},
};
// clang-format on

}  // namespace

OpTable norm_ops() { return rows; }

}  // namespace mote::onnx
