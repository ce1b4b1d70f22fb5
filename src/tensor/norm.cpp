// Normalisation and attention.
#include <cmath>
#include <limits>

#include "tensor/autocast.h"
#include "tensor/recorded.h"

namespace mote {

namespace {

void expect_float(const Tensor& t) {
  expect(t.is_floating_point(), "needs a float tensor, got ", t.dtype());
}

// (x - mean) / sqrt(var + eps) over the axes, in f32 or wider.
Tensor standardised(const Tensor& x, const Axes& axes, double eps) {
  Tensor centred = x - x.mean(axes, true);
  return centred * ((centred * centred).mean(axes, true) + eps).rsqrt();
}

Tensor scaled(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Tensor y = weight.defined() ? x * weight.to(x.dtype()) : x;
  return bias.defined() ? y + bias.to(x.dtype()) : y;
}

// A vector per channel, shaped to stand on axis 1 of t.
Tensor per_channel(const Tensor& v, const Tensor& t, const char* what) {
  if (!v.defined()) return v;
  expect(v.dim() == 1 && dims_of(v)[0] == dims_of(t)[1], what, " of shape ", v,
         " does not fit the channels of an input of shape ", t);
  std::vector<int64_t> shape(static_cast<size_t>(t.dim()), 1);
  shape[1] = v.size(0);
  return v.reshape(shape);
}

Axes last_axes(const Tensor& t, const Ints& shape, const Tensor& weight, const Tensor& bias) {
  expect_float(t);
  auto n = static_cast<int64_t>(shape.list.size());
  expect(n > 0 && n <= t.dim(), "cannot normalise ", n, " axes of shape ", t);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < n; ++i) {
    axes.push_back(t.dim() - n + i);
    expect(dims_of(t)[static_cast<size_t>(axes.back())] == Dim(shape.list[static_cast<size_t>(i)]),
           "normalized_shape ", shape.list, " does not match the end of shape ", t);
  }
  for (const Tensor* v : {&weight, &bias})
    expect(!v->defined() || v->shape() == shape.list, "weight or bias of shape ",
           v->defined() ? v->shape() : shape.list, " does not match normalized_shape ", shape.list);
  return axes;
}

Axes all_but_channels(const Tensor& t) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < t.dim(); ++i)
    if (i != 1) axes.push_back(i);
  return axes;
}

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  expect_defined(k, "the key");
  expect_defined(v, "the value");
  expect(q.dim() >= 2 && k.dim() == q.dim() && v.dim() == q.dim(),
         "needs query, key and value with ", "the same number of axes, at least two; got shapes ",
         q, ", ", k, " and ", v);
  expect(dims_of(q).back() == dims_of(k).back(), "query of shape ", q, " and key of shape ", k,
         " differ on the last axis");
  auto length = static_cast<size_t>(k.dim() - 2);
  expect(dims_of(k)[length] == dims_of(v)[length], "key of shape ", k, " and value of shape ", v,
         " differ in length");
  expect(q.dtype() == k.dtype() && k.dtype() == v.dtype(), "dtypes ", q.dtype(), ", ", k.dtype(),
         " and ", v.dtype(), " differ");
  expect_float(q);
}

// (query length, key length): a query sees keys up to its own position.
Tensor causal_mask(const Tensor& q, const Tensor& k) {
  const Dim &rows = dims_of(q)[static_cast<size_t>(q.dim() - 2)],
            &columns = dims_of(k)[static_cast<size_t>(k.dim() - 2)];
  Dim dims[] = {rows, columns}, column[] = {rows, 1};
  Ref at = prim::expand(prim::reshape(prim::iota(rows), column), dims);
  Ref future = prim::alu(Op::Lt, {at, expand_to(prim::iota(columns), dims)});
  return make_value(prim::logical_not(future), q);
}

// Key and value heads repeated so that each query head has one.
Tensor repeat_heads(const Tensor& t, const Tensor& q) {
  int64_t have = t.size(-3), wanted = q.size(-3);
  expect(have > 0 && wanted % have == 0, wanted, " query heads cannot share ", have, " key heads");
  return t.repeat_interleave(wanted / have, -3);
}

}  // namespace

Tensor Tensor::layer_norm(const Ints& normalized_shape, const Tensor& weight, const Tensor& bias,
                          double eps, Loc where) const {
  Call call("layer_norm", where);
  if (Recast as{call}) return as(*this).layer_norm(normalized_shape, weight, bias, eps, where);
  Axes axes = last_axes(*this, normalized_shape, weight, bias);
  Tensor y = standardised(to(accumulator(dtype())), axes, eps);
  y = scaled(y, weight, bias).to(dtype());
  return recorded(
      "layer_norm", y, {this, &weight, &bias},
      [&] { return std::vector<int64_t>{static_cast<int64_t>(axes.list.size())}; }, eps);
}

Tensor Tensor::rms_norm(const Ints& normalized_shape, const Tensor& weight, double eps,
                        Loc where) const {
  Call call("rms_norm", where);
  Axes axes = last_axes(*this, normalized_shape, weight, {});
  Tensor x = to(accumulator(dtype()));
  if (eps < 0)
    eps = x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                  : std::numeric_limits<float>::epsilon();
  return scaled(x * ((x * x).mean(axes, true) + eps).rsqrt(), weight, {}).to(dtype());
}

// The running variance moves towards the unbiased one; the batch is normalised by the biased one.
Tensor Tensor::batch_norm(const Tensor& running_mean, const Tensor& running_var,
                          const Tensor& weight, const Tensor& bias, const BatchNormOptions& o,
                          Loc where) const {
  Call call("batch_norm", where);
  expect_float(*this);
  expect(dim() >= 2, "needs an input (N, C, ...), got shape ", *this);
  bool running = running_mean.defined() && running_var.defined();
  expect(running_mean.defined() == running_var.defined(), "needs both running statistics or none");
  expect(o.training || running, "needs running statistics when not training");
  Tensor x = to(accumulator(dtype())), mean, var;
  if (o.training) {
    Axes axes = all_but_channels(*this);
    int64_t count = 1;
    for (int64_t axis : axes.list) count *= size(axis);
    expect(count > 1, "needs more than one value per channel when training, got shape ", *this);
    mean = x.mean(axes, true);
    var = ((x - mean) * (x - mean)).mean(axes, true);
    if (running) {
      per_channel(running_mean, *this, "running mean");
      per_channel(running_var, *this, "running variance");
      auto move = [&](Tensor statistic, const Tensor& now) {
        Tensor fresh = now.detach().flatten().to(statistic.dtype());
        statistic.assign(statistic * (1 - o.momentum) + fresh * o.momentum);
      };
      move(running_mean, mean);
      move(running_var, var * (static_cast<double>(count) / static_cast<double>(count - 1)));
    }
  } else {
    mean = per_channel(running_mean, *this, "running mean").to(x.dtype());
    var = per_channel(running_var, *this, "running variance").to(x.dtype());
  }
  // One factor per channel: the gradients of both its parts are made of one sum.
  Tensor factor = scaled((var + o.eps).rsqrt(), per_channel(weight, *this, "weight"), {});
  const Tensor y = scaled(x - mean, factor, per_channel(bias, *this, "bias")).to(dtype());
  if (o.training) return y;
  return recorded(
      "batch_norm", y, {this, &running_mean, &running_var, &weight, &bias},
      [] { return std::vector<int64_t>(); }, o.eps);
}

Tensor Tensor::group_norm(int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps,
                          Loc where) const {
  Call call("group_norm", where);
  if (Recast as{call}) return as(*this).group_norm(num_groups, weight, bias, eps, where);
  expect_float(*this);
  expect(dim() >= 2, "needs an input (N, C, ...), got shape ", *this);
  expect(num_groups > 0 && size(1) % num_groups == 0, size(1), " channels cannot be divided into ",
         num_groups, " groups");
  std::span<const Dim> dims = dims_of(*this);
  Dim grouped[] = {dims[0], num_groups, product(dims.subspan(2)) * Dim(size(1) / num_groups)};
  Tensor x = reshaped(to(accumulator(dtype())), grouped);
  Tensor y = reshaped(standardised(x, -1, eps), dims_of(*this));
  return scaled(y, per_channel(weight, *this, "weight"), per_channel(bias, *this, "bias"))
      .to(dtype());
}

Tensor Tensor::instance_norm(const Tensor& weight, const Tensor& bias, double eps,
                             Loc where) const {
  Call call("instance_norm", where);
  expect(dim() >= 3, "needs an input (N, C, spatial...), got shape ", *this);
  return group_norm(size(1), weight, bias, eps);
}

Tensor Tensor::scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                            const AttentionOptions& o, Loc where) const {
  Call call("scaled_dot_product_attention", where);
  if (Recast as{call}) return as(*this).scaled_dot_product_attention(as(key), as(value), o, where);
  check_attention(*this, key, value);
  expect(!o.is_causal || !o.attn_mask.defined(), "takes attn_mask or is_causal, not both");
  Tensor k = o.enable_gqa ? repeat_heads(key, *this) : key;
  Tensor v = o.enable_gqa ? repeat_heads(value, *this) : value;
  double scale =
      o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(numeric(dims_of(*this).back())));
  DType wide = accumulator(dtype());
  Tensor scores = to(wide).matmul(k.to(wide).transpose(-2, -1)) * scale;
  Tensor mask = o.is_causal ? causal_mask(*this, k) : o.attn_mask;
  if (mask.defined() && mask.dtype() == DType::boolean) {
    double never = -std::numeric_limits<double>::infinity();
    scores = mote::where(mask, scores, scores.full_like(never));
  } else if (mask.defined()) {
    expect_float(mask);
    scores = scores + mask.to(wide);
  }
  Tensor weights = scores.softmax(-1);
  if (o.dropout_p > 0) weights = weights.dropout(o.dropout_p);
  return weights.matmul(v.to(wide)).to(dtype());
}
Tensor Tensor::scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                            Loc where) const {
  return scaled_dot_product_attention(key, value, {}, where);
}

}  // namespace mote
