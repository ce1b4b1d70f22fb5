// Attention with all of PyTorch's arguments.
#include <cmath>

#include "nn/module_call.h"

namespace mote::nn {

namespace {

// Projected queries, keys and values: (batch, heads, length, features of a head).
struct Heads {
  Tensor q, k, v;
};

Tensor rows(const Tensor& t, int64_t part, int64_t features) {
  return t.defined() ? t.narrow(0, part * features, features) : Tensor();
}

// What is added to the scores: -inf where a bool is true. Undefined stays undefined.
Tensor as_addend(const Tensor& mask, const Tensor& like) {
  if (!mask.defined()) return mask;
  if (is_float(mask.dtype())) return mask.to(like.dtype());
  expect(mask.dtype() == DType::boolean, "a mask must be bool or floating-point, got ",
         mask.dtype());
  return where(mask, -INFINITY, zeros(mask.sizes(), {like.dtype(), like.device()}));
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : a + b;
}

// One mask of everything, over `extra` more keys than the call's, which all may look at.
Tensor joined_mask(const MultiheadCall& c, const Heads& h, int64_t extra) {
  const Sizes q = h.q.sizes();
  const Size queries = q[2], keys = h.k.sizes()[2] - Size(extra);
  Tensor mask = as_addend(c.attn_mask, h.q);
  if (mask.defined() && mask.dim() == 3) mask = mask.unflatten(0, {q[0], q[1]});
  if (c.is_causal)
    mask =
        sum_of(mask, as_addend(ones({queries, keys}, {DType::boolean, h.q.device()}).triu(1), h.q));
  Tensor padding = as_addend(c.key_padding_mask, h.q);
  if (padding.defined()) {
    expect(padding.dim() == 2, "key_padding_mask needs shape (batch, key), got ",
           c.key_padding_mask);
    mask = sum_of(mask, padding.unsqueeze(1).unsqueeze(1));
  }
  return mask.defined() && extra ? mask.pad({0, extra}) : mask;
}

// Behind the keys and values: the learned ones, then zeros. How many that are is returned.
int64_t append_keys(const MultiheadAttention& m, Heads& h) {
  int64_t extra = 0;
  const Sizes q = h.q.sizes();
  auto append = [&](Tensor& to, const Tensor& one) {
    to = cat({to, one.expand({q[0], q[1], 1, q[3]})}, 2);
  };
  auto learned = [&](const Tensor& bias) { return bias.reshape({1, q[1], 1, q[3]}); };
  if (m.bias_k.defined()) {
    append(h.k, learned(m.bias_k));
    append(h.v, learned(m.bias_v));
    ++extra;
  }
  if (m.add_zero_attn) {
    const Tensor none = zeros({1, 1, 1, 1}, {h.k.dtype(), h.k.device()});
    append(h.k, none);
    append(h.v, none);
    ++extra;
  }
  return extra;
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t features, int64_t num_heads,
                                       const MultiheadOptions& m, const Options& o, Loc where)
    : MultiheadAttention(features, num_heads, m.bias, o, where) {
  ModuleCall call("MultiheadAttention", where);
  dropout = m.dropout, batch_first = m.batch_first, add_zero_attn = m.add_zero_attn;
  const int64_t kdim = m.kdim ? m.kdim : features, vdim = m.vdim ? m.vdim : features;
  expect_sizes({kdim, vdim});
  if (kdim != features || vdim != features) {
    in_proj_weight = {};
    auto projection = [&](int64_t from) {
      return uniform_parameter({features, from},
                               std::sqrt(6.0 / static_cast<double>(features + from)), o);
    };
    q_proj_weight = projection(features);
    k_proj_weight = projection(kdim);
    v_proj_weight = projection(vdim);
  }
  if (!m.add_bias_kv) return;
  bias_k =
      normal_parameter({1, 1, features}, std::sqrt(2.0 / static_cast<double>(features + 1)), o);
  bias_v =
      normal_parameter({1, 1, features}, std::sqrt(2.0 / static_cast<double>(features + 1)), o);
}

MultiheadResult MultiheadAttention::attend(const Tensor& query, const Tensor& key,
                                           const Tensor& value, const MultiheadCall& c,
                                           Loc where) const {
  ModuleCall call("MultiheadAttention", where);
  expect_defined(query, "the query"), expect_defined(key, "the key");
  expect_defined(value, "the value");
  const bool batched = query.dim() == 3;
  expect(batched || query.dim() == 2, "needs queries with 2 or 3 axes, got ", query);
  const int64_t features = out_proj.weight.size(0);
  auto project = [&](const Tensor& x, const Tensor& own, int64_t part) {
    Tensor batch = !batched ? x.unsqueeze(0) : batch_first ? x : x.transpose(0, 1);
    Tensor w = own.defined() ? own : rows(in_proj_weight, part, features);
    return batch.linear(w, rows(in_proj_bias, part, features))
        .unflatten(-1, {heads, -1})
        .transpose(1, 2);
  };
  Heads h{project(query, q_proj_weight, 0), project(key, k_proj_weight, 1),
          project(value, v_proj_weight, 2)};
  MultiheadCall with = c;
  if (!batched && c.key_padding_mask.defined())
    with.key_padding_mask = c.key_padding_mask.unsqueeze(0);
  const int64_t extra = append_keys(*this, h);
  const Tensor mask = joined_mask(with, h, extra);
  const double drop = training ? dropout : 0;
  MultiheadResult out;
  Tensor mixed;
  if (c.need_weights) {
    Tensor scores = h.q.matmul(h.k.transpose(-2, -1)) / std::sqrt(static_cast<double>(h.q.size(3)));
    Tensor weights = sum_of(scores, mask).softmax(-1).dropout(drop, drop > 0);
    mixed = weights.matmul(h.v);
    out.weights = c.average_attn_weights ? weights.mean(1) : weights;
    if (!batched) out.weights = out.weights.squeeze(0);
  } else {
    mixed = h.q.scaled_dot_product_attention(h.k, h.v, {.attn_mask = mask, .dropout_p = drop});
  }
  Tensor y = out_proj(mixed.transpose(1, 2).flatten(2));
  out.output = !batched ? y.squeeze(0) : batch_first ? y : y.transpose(0, 1);
  return out;
}

}  // namespace mote::nn
