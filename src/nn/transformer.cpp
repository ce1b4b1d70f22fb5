// Transformer layers, embedding bags, weights in other forms.
#include <mote/modules.h>

#include <cmath>
#include <string_view>

#include "nn/module_call.h"

namespace mote::nn {

namespace {

MultiheadAttention attention(int64_t d_model, int64_t nhead, const TransformerOptions& t,
                             const Options& o, const Loc& where) {
  const MultiheadOptions m{.dropout = t.dropout, .bias = t.bias, .batch_first = t.batch_first};
  return MultiheadAttention(d_model, nhead, m, o, where);
}

LayerNorm norm_of(int64_t d_model, const TransformerOptions& t, const Options& o) {
  return LayerNorm(d_model, t.layer_norm_eps, true, o, t.bias);
}

const char* known_activation(const char* name) {
  const std::string given = word(name, "the activation");
  expect(given == "relu" || given == "gelu", "the activation is relu or gelu, got ", given);
  return name;
}

Tensor activated(const Tensor& x, std::string_view activation) {
  return activation == "relu" ? x.relu() : x.gelu();
}

// The feed-forward part of both kinds of layer.
template <class Layer>
Tensor fed_forward(const Layer& m, const Tensor& x) {
  return m.linear2(m.dropout(activated(m.linear1(x), m.activation)));
}

Tensor attended(const MultiheadAttention& m, const Tensor& x, const Tensor& memory,
                const TransformerMasks& masks) {
  return m
      .attend(x, memory, memory,
              {.attn_mask = masks.mask,
               .key_padding_mask = masks.key_padding_mask,
               .is_causal = masks.is_causal,
               .need_weights = false})
      .output;
}

// A layer is a chain of these: x + dropout(f(norm(x))), or norm(x + dropout(f(x))).
template <class F>
Tensor residual(const Tensor& x, bool norm_first, const LayerNorm& norm, const Dropout& dropout,
                F f) {
  return norm_first ? x + dropout(f(norm(x))) : norm(x + dropout(f(x)));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerOptions& t, const Options& o,
                                                 Loc where) {
  ModuleCall call("TransformerEncoderLayer", where);
  self_attn = attention(d_model, nhead, t, o, where);
  linear1 = Linear(d_model, t.dim_feedforward, t.bias, o);
  linear2 = Linear(t.dim_feedforward, d_model, t.bias, o);
  for (LayerNorm* n : {&norm1, &norm2}) *n = norm_of(d_model, t, o);
  for (Dropout* d : {&dropout, &dropout1, &dropout2}) d->p = t.dropout;
  activation = known_activation(t.activation), norm_first = t.norm_first;
}
Tensor TransformerEncoderLayer::operator()(const Tensor& src, const TransformerMasks& masks,
                                           Loc where) const {
  ModuleCall call("TransformerEncoderLayer", where);
  Tensor x = residual(src, norm_first, norm1, dropout1,
                      [&](const Tensor& y) { return attended(self_attn, y, y, masks); });
  return residual(x, norm_first, norm2, dropout2,
                  [&](const Tensor& y) { return fed_forward(*this, y); });
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead,
                                                 const TransformerOptions& t, const Options& o,
                                                 Loc where) {
  ModuleCall call("TransformerDecoderLayer", where);
  self_attn = attention(d_model, nhead, t, o, where);
  multihead_attn = attention(d_model, nhead, t, o, where);
  linear1 = Linear(d_model, t.dim_feedforward, t.bias, o);
  linear2 = Linear(t.dim_feedforward, d_model, t.bias, o);
  for (LayerNorm* n : {&norm1, &norm2, &norm3}) *n = norm_of(d_model, t, o);
  for (Dropout* d : {&dropout, &dropout1, &dropout2, &dropout3}) d->p = t.dropout;
  activation = known_activation(t.activation), norm_first = t.norm_first;
}
Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory,
                                           const TransformerMasks& tgt_masks,
                                           const TransformerMasks& memory_masks, Loc where) const {
  ModuleCall call("TransformerDecoderLayer", where);
  Tensor x = residual(tgt, norm_first, norm1, dropout1,
                      [&](const Tensor& y) { return attended(self_attn, y, y, tgt_masks); });
  x = residual(x, norm_first, norm2, dropout2,
               [&](const Tensor& y) { return attended(multihead_attn, y, memory, memory_masks); });
  return residual(x, norm_first, norm3, dropout3,
                  [&](const Tensor& y) { return fed_forward(*this, y); });
}

TransformerEncoder::TransformerEncoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                                       const TransformerOptions& t, bool final_norm,
                                       const Options& o, Loc where)
    : has_norm(final_norm) {
  ModuleCall call("TransformerEncoder", where);
  for (int64_t i = 0; i < num_layers; ++i) layers.emplace_back(d_model, nhead, t, o, where);
  if (final_norm) norm = norm_of(d_model, t, o);
}
Tensor TransformerEncoder::operator()(const Tensor& src, const TransformerMasks& masks,
                                      Loc where) const {
  ModuleCall call("TransformerEncoder", where);
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, masks);
  return has_norm ? norm(x) : x;
}

TransformerDecoder::TransformerDecoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                                       const TransformerOptions& t, bool final_norm,
                                       const Options& o, Loc where)
    : has_norm(final_norm) {
  ModuleCall call("TransformerDecoder", where);
  for (int64_t i = 0; i < num_layers; ++i) layers.emplace_back(d_model, nhead, t, o, where);
  if (final_norm) norm = norm_of(d_model, t, o);
}
Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory,
                                      const TransformerMasks& tgt_masks,
                                      const TransformerMasks& memory_masks, Loc where) const {
  ModuleCall call("TransformerDecoder", where);
  Tensor x = tgt;
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, tgt_masks, memory_masks);
  return has_norm ? norm(x) : x;
}

// ---- embedding bags

EmbeddingBag::EmbeddingBag(int64_t rows, int64_t features, const EmbeddingBagOptions& e,
                           const Options& o, Loc where)
    : options(e) {
  ModuleCall call("EmbeddingBag", where);
  expect_sizes({rows, features});
  const std::string_view mode = e.mode;
  expect(mode == "mean" || mode == "sum" || mode == "max", "the mode is mean, sum or max, got ",
         std::string(mode));
  weight = normal_parameter({rows, features}, 1, o);
}

namespace {

// (bags, all): whether an index at a position belongs to a bag.
Tensor membership(const Tensor& indices, const Tensor& offsets, bool include_last) {
  const int64_t count = indices.size(0), bags = offsets.size(0) - (include_last ? 1 : 0);
  Tensor at = arange(count, {offsets.dtype(), indices.device()}).unsqueeze(0);
  Tensor begin = offsets.narrow(0, 0, bags).unsqueeze(1);
  Tensor end = include_last ? offsets.narrow(0, 1, bags)
                            : cat({offsets.narrow(0, 1, bags - 1),
                                   full({1}, count, {offsets.dtype(), offsets.device()})});
  return at.ge(begin) & at.lt(end.unsqueeze(1));
}

}  // namespace

Tensor EmbeddingBag::operator()(const Tensor& indices, const Tensor& offsets,
                                const Tensor& per_sample_weights, Loc where) const {
  ModuleCall call("EmbeddingBag", where);
  expect_defined(indices, "the indices");
  const bool flat = indices.dim() == 1;
  expect(flat == offsets.defined(), "needs offsets with 1 axis of indices and none with 2, got ",
         indices);
  const std::string_view mode = options.mode;
  expect(!per_sample_weights.defined() || mode == "sum", "per_sample_weights need mode \"sum\"");
  // Everything is (bags, places, features) from here on; of flat indices each bag looks at all.
  Tensor rows = indices.embedding(weight, options.padding_idx);
  Tensor counts = flat ? membership(indices, offsets, options.include_last_offset) : indices.ge(0);
  Tensor real = indices.ne(options.padding_idx);
  counts = counts & (flat ? real.unsqueeze(0) : real);
  if (per_sample_weights.defined()) rows = rows * per_sample_weights.unsqueeze(-1);
  if (mode == "max") {
    Tensor all = flat ? rows.unsqueeze(0) : rows, some = counts.any(1, true);
    Tensor top = mote::where(counts.unsqueeze(-1), all, -INFINITY).amax(1);
    return mote::where(some, top, 0.0);
  }
  Tensor share = counts.to(rows.dtype());
  if (mode == "mean") share = share / share.sum(1, true).clamp_min(1);
  if (flat) return share.matmul(rows);
  return (rows * share.unsqueeze(-1)).sum(1);
}

// ---- weights in other forms

Tensor padded(const Tensor& x, const Ints& padding, int rank, const char* mode, double value,
              Loc where) {
  ModuleCall call("Pad", where);
  const auto sides = static_cast<size_t>(2 * rank);
  expect(padding.list.size() == 1 || padding.list.size() == sides, "needs 1 or ", sides,
         " amounts, got ", padding.list.size());
  const Ints all =
      padding.list.size() == 1 ? std::vector<int64_t>(sides, padding.list[0]) : padding.list;
  return x.pad(all, mode, value);
}

Tensor norm_but(const Tensor& weight, int64_t dim) {
  Axes others;
  for (int64_t i = 0; i < weight.dim(); ++i)
    if (i != dim) others.list.push_back(i);
  return weight.norm(2, others, true);
}

namespace {

// dim first, the other axes as one.
Tensor matrix_of(const Tensor& weight, int64_t dim) { return weight.movedim(dim, 0).flatten(1); }

}  // namespace

SpectralState spectral_start(const Tensor& weight, int64_t dim, double eps) {
  ModuleCall call("SpectralNorm", Loc::current());
  expect_defined(weight, "the module's weight");
  const Tensor matrix = matrix_of(weight.detach(), dim);
  auto direction = [&](int64_t n) {
    return randn({n}, {weight.dtype(), weight.device()}).normalize(2, 0, eps);
  };
  return {weight, direction(matrix.size(0)).clone(), direction(matrix.size(1)).clone()};
}

Tensor spectral_weight(const SpectralState& s, int64_t dim, double eps, bool training) {
  const Tensor matrix = matrix_of(s.weight_orig, dim);
  Tensor u = s.weight_u, v = s.weight_v;
  if (training) {
    const Tensor fixed = matrix.detach();
    Tensor right = fixed.t().mv(u).normalize(2, 0, eps);
    Tensor left = fixed.mv(right).normalize(2, 0, eps);
    v.assign(right), u.assign(left);
    u = left, v = right;
  }
  return s.weight_orig / u.detach().dot(matrix.mv(v.detach()));
}

}  // namespace mote::nn
