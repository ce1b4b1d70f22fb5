// Windows, norms, attention, losses, dtypes, and programs with a symbolic size.
#include "ops_table.h"

namespace mote::test {

namespace {

ConvOptions conv_options(const Call& c) {
  ConvOptions o;
  if (c.has("stride")) o.stride = c.ints("stride");
  if (c.has("dilation")) o.dilation = c.ints("dilation");
  o.groups = c.integer("groups", 1);
  if (!c.has("padding")) return o;
  bool named = std::holds_alternative<std::string>(c.golden.attrs.at("padding"));
  if (named) o.same = std::string_view(c.text("padding")) == "same";
  else o.padding = c.ints("padding");
  return o;
}

ConvTransposeOptions transpose_options(const Call& c) {
  ConvTransposeOptions o;
  if (c.has("stride")) o.stride = c.ints("stride");
  if (c.has("padding")) o.padding = c.ints("padding");
  if (c.has("output_padding")) o.output_padding = c.ints("output_padding");
  if (c.has("dilation")) o.dilation = c.ints("dilation");
  o.groups = c.integer("groups", 1);
  return o;
}

MaxPoolOptions max_options(const Call& c) {
  MaxPoolOptions o;
  if (c.has("stride")) o.stride = c.ints("stride");
  if (c.has("padding")) o.padding = c.ints("padding");
  if (c.has("dilation")) o.dilation = c.ints("dilation");
  o.ceil_mode = c.flag("ceil_mode");
  return o;
}

AvgPoolOptions avg_options(const Call& c) {
  AvgPoolOptions o;
  if (c.has("stride")) o.stride = c.ints("stride");
  if (c.has("padding")) o.padding = c.ints("padding");
  o.ceil_mode = c.flag("ceil_mode");
  o.count_include_pad = c.flag("count_include_pad", true);
  o.divisor_override = c.integer("divisor_override", 0);
  return o;
}

InterpolateOptions interpolate_options(const Call& c) {
  InterpolateOptions o;
  o.size = c.ints("size");
  o.scale_factor = c.reals("scale_factor");
  o.mode = c.text("mode");
  o.align_corners = c.flag("align_corners");
  return o;
}

Outputs run_batch_norm(const Call& c) {
  Tensor mean = c.role("running_mean"), var = c.role("running_var");
  BatchNormOptions o{c.flag("training"), c.real("momentum", 0.1), c.real("eps", 1e-5)};
  if (!o.training || !mean.defined())
    return {c.x().batch_norm(mean, var, c.role("weight"), c.role("bias"), o)};
  mean = mean.clone();
  var = var.clone();
  Tensor out = c.x().batch_norm(mean, var, c.role("weight"), c.role("bias"), o);
  return {out, mean, var};
}

Outputs run_attention(const Call& c) {
  AttentionOptions o;
  o.attn_mask = c.role("attn_mask");
  o.is_causal = c.flag("is_causal");
  o.scale = c.real("scale", 0);
  o.enable_gqa = c.flag("enable_gqa");
  return {c.x(0).scaled_dot_product_attention(c.x(1), c.x(2), o)};
}

CrossEntropyOptions loss_options(const Call& c) {
  CrossEntropyOptions o;
  o.weight = c.role("weight");
  o.ignore_index = c.integer("ignore_index", -100);
  o.reduction = c.reduction();
  o.label_smoothing = c.real("label_smoothing", 0);
  return o;
}

Outputs run_kl_div(const Call& c) {
  bool batch_mean = std::string_view(c.text("reduction")) == "batchmean";
  return {c.x(0).kl_div(c.x(1), c.reduction(), c.flag("log_target"), batch_mean)};
}

// x and y cut to their first n rows, n a variable; each program's result has known sizes.
Outputs run_symbolic(const Call& c) {
  const Tensor &x = c.x(0), &y = c.x(1);
  int64_t rows = x.size(0), columns = x.size(1);
  Sym n = Variable("n", 1, rows).bind(c.integer("n"));
  Tensor a = x.shrink({0, 0}, {n, columns}), b = y.shrink({0, 0}, {n, columns});
  std::string_view what = c.text("what");
  if (what == "sum") return {a.sum()};
  if (what == "mean") return {a.mean(0)};
  if (what == "max") return {a.amax(0)};
  if (what == "prod") return {a.prod(0)};
  if (what == "product") return {a.t().matmul(b)};
  if (what == "softmax") return {a.softmax(0).square().sum(0)};
  if (what == "chain") return {((a * 2 + b).exp() - 1).sum(0)};
  if (what == "attention") return {y.matmul(a.t()).softmax(-1).matmul(a)};
  if (what == "row") return {x.select(0, Size(n) - 1) + y.select(0, Size(n) - 1)};
  if (what == "window") return {x.narrow(0, Size(n) - 1, 2) * 2};
  if (what == "arange") return {arange(n, Options{DType::none, c.device}).sum() + 0 * x.sum()};
  if (what == "number") return {x * scalar(n).to(c.device)};
  if (what == "cat") return {cat({a, y}).sum(0)};
  if (what == "where") {
    Tensor row = arange(rows, Options{DType::none, c.device}).unsqueeze(1);
    return {where(row < scalar(n).to(c.device), x, y)};
  }
  if (what == "reshape") return {a.reshape({Size(n) * columns}).square().sum()};
  return {};
}

#define CONV(name) MOTE_ROW(#name, c.x().name(c.role("weight"), c.role("bias"), conv_options(c)))
#define CONV_TRANSPOSE(name) \
  MOTE_ROW(#name, c.x().name(c.role("weight"), c.role("bias"), transpose_options(c)))
#define AVG_POOL(name) MOTE_ROW(#name, c.x().name(c.ints("kernel_size"), avg_options(c)))
#define MAX_POOL(name) {#name, [](const Call& c) -> Outputs { \
    if (!c.flag("return_indices")) return {c.x().name(c.ints("kernel_size"), max_options(c))}; \
    ValuesIndices r = c.x().name##_with_indices(c.ints("kernel_size"), max_options(c)); \
    return {r.values, r.indices}; }}
#define ADAPTIVE(name) MOTE_ROW(#name, c.x().name(c.ints("output_size")))
#define LOSS(name) MOTE_ROW(#name, c.x(0).name(c.x(1), c.reduction()))

const TestedOp rows[] = {
    CONV(conv1d), CONV(conv2d), CONV(conv3d), CONV_TRANSPOSE(conv_transpose1d),
    CONV_TRANSPOSE(conv_transpose2d), CONV_TRANSPOSE(conv_transpose3d),
    AVG_POOL(avg_pool1d), AVG_POOL(avg_pool2d), AVG_POOL(avg_pool3d),
    MAX_POOL(max_pool1d), MAX_POOL(max_pool2d), MAX_POOL(max_pool3d),
    ADAPTIVE(adaptive_avg_pool1d), ADAPTIVE(adaptive_avg_pool2d), ADAPTIVE(adaptive_avg_pool3d),
    ADAPTIVE(adaptive_max_pool1d), ADAPTIVE(adaptive_max_pool2d),
    MOTE_ROW("interpolate", c.x().interpolate(interpolate_options(c))),
    MOTE_ROW("pixel_shuffle", c.x().pixel_shuffle(c.integer("upscale_factor"))),
    MOTE_ROW("pixel_unshuffle", c.x().pixel_unshuffle(c.integer("downscale_factor"))),
    // Normalisation, dropout, attention, embedding.
    MOTE_ROW("layer_norm", c.x().layer_norm(c.ints("normalized_shape"), c.role("weight"),
                                            c.role("bias"), c.real("eps", 1e-5))),
    MOTE_ROW("rms_norm", c.x().rms_norm(c.ints("normalized_shape"), c.role("weight"),
                                        c.real("eps", -1))),
    {"batch_norm", run_batch_norm},
    MOTE_ROW("group_norm", c.x().group_norm(c.integer("num_groups"), c.role("weight"),
                                            c.role("bias"), c.real("eps", 1e-5))),
    MOTE_ROW("instance_norm",
             c.x().instance_norm(c.role("weight"), c.role("bias"), c.real("eps", 1e-5))),
    MOTE_ROW("dropout", c.x().dropout(c.real("p"), c.flag("training"))),
    {"scaled_dot_product_attention", run_attention},
    MOTE_ROW("one_hot", c.x().one_hot(c.integer("num_classes", -1))),
    MOTE_ROW("embedding", c.x().embedding(c.role("weight"), c.integer("padding_idx", -1))),
    // Losses.
    MOTE_ROW("cross_entropy", c.x(0).cross_entropy(c.x(1), loss_options(c))),
    MOTE_ROW("nll_loss", c.x(0).nll_loss(c.x(1), loss_options(c))),
    MOTE_ROW("binary_cross_entropy",
             c.x(0).binary_cross_entropy(c.x(1), c.role("weight"), c.reduction())),
    MOTE_ROW("binary_cross_entropy_with_logits",
             c.x(0).binary_cross_entropy_with_logits(c.x(1), c.role("weight"),
                                                     c.role("pos_weight"), c.reduction())),
    LOSS(mse_loss), LOSS(l1_loss),
    MOTE_ROW("smooth_l1_loss", c.x(0).smooth_l1_loss(c.x(1), c.real("beta", 1), c.reduction())),
    MOTE_ROW("huber_loss", c.x(0).huber_loss(c.x(1), c.real("delta", 1), c.reduction())),
    {"kl_div", run_kl_div},
    // dtypes.
    MOTE_ROW("cast", c.x().cast(c.dtype("to"))),
    MOTE_ROW("bitcast", c.x().bitcast(c.dtype("to"))),
    {"symbolic", run_symbolic},
};

}  // namespace

std::span<const TestedOp> network_rows() { return rows; }

}  // namespace mote::test
