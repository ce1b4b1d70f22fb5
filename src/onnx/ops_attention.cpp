// Attention in its forms.
#include <cmath>

#include "onnx/attend.h"

namespace mote::onnx {

namespace {

// The biases of Attention, all added: mask, causal or windowed, and padding of the cache.
struct Bias {
  Tensor sum;
  void add(const Tensor& t) { sum = sum.defined() ? sum + t : t; }
};

Tensor with_keys(const Tensor& mask, int64_t keys) {
  const int64_t missing = keys - mask.size(-1);
  if (missing <= 0) return mask;
  if (mask.dtype() == DType::boolean) return mask.pad({0, missing}, "constant", false);
  return mask.pad({0, missing}, "constant", -INFINITY);
}

Tensor attention_bias(Call& c, const Tensor& q, int64_t keys) {
  Bias bias;
  const DType dtype = q.dtype();
  const int64_t queries = q.size(2);
  if (c.has(3)) bias.add(as_bias(with_keys(c.x(3), keys), dtype));
  const int64_t left = c.i("left_window_size", -1);
  int64_t right = c.i("right_window_size", -1);
  expect(left >= -1 && right >= -1, "a window's size is below -1");
  if (c.i("is_causal", 0)) right = right < 0 ? 0 : std::min<int64_t>(right, 0);
  const Tensor filled = c.has(6) ? c.x(6).cast(DType::i64).reshape({-1, 1, 1, 1}) : Tensor();
  if (left >= 0 || right >= 0) {
    const int64_t past = c.has(4) ? c.x(4).size(2) : 0;
    const Tensor offset = filled.defined() && !c.has(4)
                              ? filled - queries
                              : full({1, 1, 1, 1}, past, c.options(DType::i64));
    bias.add(window_bias(offset, queries, keys, left, right, dtype));
  }
  if (filled.defined()) {
    const Tensor place = arange(keys, c.options(DType::i64)).reshape({1, 1, 1, keys});
    bias.add(as_bias(place < filled, dtype));
  }
  return bias.sum;
}

Outputs attention(Call& c) {
  Tensor q = c.x(0), k = c.x(1), v = c.x(2);
  const bool flat = q.dim() == 3;
  if (flat) {
    q = to_heads(q, c.i("q_num_heads", 0));
    k = to_heads(k, c.i("kv_num_heads", 0));
    v = to_heads(v, c.i("kv_num_heads", 0));
  }
  if (c.has(4)) k = cat({c.x(4), k}, 2);
  if (c.has(5)) v = cat({c.x(5), v}, 2);
  const Tensor present_key = k, present_value = v;
  const Tensor bias = attention_bias(c, q, k.size(2));
  k = repeat_heads(k, q.size(1)), v = repeat_heads(v, q.size(1));
  const double scale = c.f("scale", 1 / std::sqrt(static_cast<double>(q.size(3))));
  const double half = std::sqrt(scale), cap = c.f("softcap", 0);
  const Tensor raw = (q * half).matmul((k * half).mT());
  const Tensor capped = cap > 0 ? (raw / cap).tanh() * cap : raw;
  const Tensor scores = bias.defined() ? capped + bias : capped;
  const int precision = static_cast<int>(c.i("softmax_precision", 0));
  Tensor p = masked_softmax(precision ? scores.cast(element_of(precision).held) : scores);
  if (bias.defined()) p = p.masked_fill(bias.amax({-1}, true).isneginf(), 0);
  p = p.cast(q.dtype());
  const Tensor y = p.matmul(v.cast(q.dtype()));
  const Tensor modes[] = {raw, capped, scores, p};
  const int64_t mode = c.i("qk_matmul_output_mode", 0);
  expect(mode >= 0 && mode < 4, "qk_matmul_output_mode is ", mode);
  return {flat ? from_heads(y) : y, present_key, present_value, modes[mode]};
}

// Scores and probabilities pass through graphs of the model's own.
Outputs flex_attention(Call& c) {
  const Tensor q = c.x(0), v = repeat_heads(c.x(2), q.size(1));
  const Tensor k = repeat_heads(c.x(1), q.size(1));
  const double half = std::sqrt(c.f("scale", 1 / std::sqrt(static_cast<double>(q.size(3)))));
  const int precision = static_cast<int>(c.i("softmax_precision", 0));
  const DType dtype = precision                 ? element_of(precision).held
                      : q.dtype() == DType::f64 ? DType::f64
                                                : DType::f32;
  auto changed = [&](const char* graph, const Tensor& t) {
    if (!c.has(graph)) return t;
    const Outputs out = c.run(c.graph(graph), {t});
    expect(out.size() == 1 && out[0].kind == Value::Tensor, graph, " must give one tensor");
    return out[0].tensor.cast(dtype);
  };
  const Tensor scores = changed("score_mod", (q * half).matmul((k * half).mT()).cast(dtype));
  const Tensor p = changed("prob_mod", scores.softmax(-1));
  return {p.matmul(v.cast(dtype)).cast(v.dtype())};
}

Outputs rotary_embedding(Call& c) {
  const Tensor x = c.x(0);
  const bool flat = x.dim() == 3;
  const Tensor heads = flat ? x.unflatten(2, {c.i("num_heads", 0), -1}) : x.transpose(1, 2);
  Rotation r{.cos = c.x(1), .sin = c.x(2), .interleaved = c.i("interleaved", 0) != 0};
  if (c.has(3)) {
    const Tensor at = c.x(3).cast(DType::i64);
    r.cos = at.embedding(r.cos), r.sin = at.embedding(r.sin);
  }
  const Tensor out = rotated(heads, r);
  return {flat ? out.reshape(x.shape()) : out.transpose(1, 2)};
}

// A state of outer products that decays, step by step.
Outputs linear_attention(Call& c) {
  const int64_t heads = c.i("q_num_heads", 0), kv_heads = c.i("kv_num_heads", 0);
  const std::string rule = c.s("update_rule", "gated_delta");
  const bool gates = rule == "gated" || rule == "gated_delta";
  const bool corrects = rule == "delta" || rule == "gated_delta";
  expect(gates || corrects || rule == "linear", "update_rule ", quoted(rule), " is not known");
  const DType dtype = c.x(0).dtype();
  const Tensor q = to_heads(c.x(0), heads).cast(DType::f32);
  const Tensor k = to_heads(c.x(1), kv_heads).cast(DType::f32);
  const Tensor v = to_heads(c.x(2), kv_heads).cast(DType::f32);
  const int64_t batch = q.size(0), steps = q.size(2), size = q.size(3);
  const Tensor decay = gates ? to_heads(c.x(4), kv_heads).cast(DType::f32).exp() : Tensor();
  const Tensor beta = corrects ? to_heads(c.x(5), c.x(5).size(2)).cast(DType::f32) : Tensor();
  Tensor state = c.has(3) ? c.x(3).cast(DType::f32)
                          : zeros({batch, kv_heads, k.size(3), v.size(3)}, c.options(DType::f32));
  double scale = c.f("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size));
  std::vector<Tensor> out;
  for (int64_t t = 0; t < steps; ++t) {
    const Tensor kt = k.select(2, t).unsqueeze(3);  // (batch, heads, size, 1)
    Tensor vt = v.select(2, t).unsqueeze(2);        // (batch, heads, 1, size)
    if (gates) state = state * decay.select(2, t).unsqueeze(3);
    if (corrects) vt = beta.select(2, t).unsqueeze(2) * (vt - (state * kt).sum({2}, true));
    state = state + kt * vt;
    out.push_back(q.select(2, t).unsqueeze(2).matmul(repeat_heads(state, heads)) * scale);
  }
  expect(!out.empty(), "the sequence has no steps");
  const DType state_dtype = c.has(3) ? c.x(3).dtype() : dtype;
  return {from_heads(cat(out, 2)).cast(dtype), state.cast(state_dtype)};
}

constexpr OpRow rows[] = {
    {"Attention", 23, attention},
    {"FlexAttention", 1, flex_attention, "ai.onnx.preview", false, true},
    {"RotaryEmbedding", 23, rotary_embedding},
    {"LinearAttention", 1,linear_attention},
};

}  // namespace

OpTable attention_ops() { return rows; }

}  // namespace mote::onnx
