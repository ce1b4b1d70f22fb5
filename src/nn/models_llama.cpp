// Llama: RMS norm, rotary positions, grouped key and value heads, gated feed-forward, KV cache.
#include <cmath>

#include <mote/models.h>

#include "nn/module_call.h"
#include "runtime/device.h"

namespace mote::models {

LlamaConfig llama3_8b() { return {}; }

LlamaConfig llama3_405b() {
  LlamaConfig c;
  c.features = 16384;
  c.layers = 126;
  c.heads = 128;
  c.hidden = 53248;
  return c;
}

// In memory of its own: computed once, by the first realization that reads it.
RotaryTable::RotaryTable(int64_t context, int64_t head_features, double theta, const Options& o) {
  int64_t half = head_features / 2;
  Options table{DType::f32, o.device};
  cos = nn::unset({context, half}, table);
  sin = nn::unset({context, half}, table);
  if (!mote::device(device_from(o.device)).holds_data()) return;
  Tensor power = arange(half, table) * (-std::log(theta) / static_cast<double>(half));
  Tensor angle = arange(context, table).unsqueeze(1) * power.exp();
  cos.assign(angle.cos());
  sin.assign(angle.sin());
}

// Pairs of neighbouring features turn by the angle of their position.
Tensor RotaryTable::rotate(const Tensor& x, const Size& position) const {
  int64_t length = x.size(1);
  Tensor c = cos.narrow(0, position, length).unsqueeze(1);
  Tensor s = sin.narrow(0, position, length).unsqueeze(1);
  Tensor pairs = x.to(DType::f32).unflatten(-1, {-1, 2});
  Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  return stack({a * c - b * s, a * s + b * c}, -1).flatten(-2).to(x.dtype());
}

LlamaBlock::Attention::Projected LlamaBlock::Attention::project(const Tensor& x) const {
  auto split = [](const Tensor& y, int64_t n) { return y.unflatten(-1, {n, -1}); };
  return {split(wq(x), heads), split(wk(x), kv_heads), split(wv(x), kv_heads)};
}

Tensor LlamaBlock::Attention::operator()(const Tensor& x, const RotaryTable& table) const {
  ModuleScope module("Attention");
  Projected p = project(x);
  Tensor q = table.rotate(p.q, 0), k = table.rotate(p.k, 0), v = p.v;
  Tensor mixed = q.transpose(1, 2).scaled_dot_product_attention(
      k.transpose(1, 2), v.transpose(1, 2), {.is_causal = true, .enable_gqa = heads != kv_heads});
  return wo(mixed.transpose(1, 2).flatten(2));
}

Tensor LlamaBlock::Attention::operator()(const Tensor& x, const RotaryTable& table, KvCache& cache,
                                         const Size& position) const {
  ModuleScope module("Attention");
  int64_t length = x.size(1);
  Projected p = project(x);
  Tensor q = table.rotate(p.q, position);
  cache.keys.narrow(1, position, length).assign(table.rotate(p.k, position));
  cache.values.narrow(1, position, length).assign(p.v);
  Size so_far = position + Size(length);
  Tensor keys = cache.keys.narrow(1, 0, so_far).transpose(1, 2);
  Tensor values = cache.values.narrow(1, 0, so_far).transpose(1, 2);
  AttentionOptions options{.enable_gqa = heads != kv_heads};
  if (length > 1) {  // row i sees the keys up to position + i
    expect(!position.is_symbolic(), "several tokens need a position that is a number");
    int64_t first = position.value();
    Tensor mask = ones({length, first + length}, {DType::boolean, x.device()});
    options.attn_mask = mask.tril(first);
  }
  Tensor mixed = q.transpose(1, 2).scaled_dot_product_attention(keys, values, options);
  return wo(mixed.transpose(1, 2).flatten(2));
}

Tensor LlamaBlock::FeedForward::operator()(const Tensor& x) const {
  ModuleScope module("FeedForward");
  return w2(w1(x).silu() * w3(x));
}

Llama::Llama(const LlamaConfig& c) : config(c) {
  const Options& o = c.options;
  expect(c.heads > 0 && c.features % c.heads == 0 && c.heads % c.kv_heads == 0, c.features,
         " features, ", c.heads, " heads and ", c.kv_heads, " key heads do not divide");
  int64_t head = c.features / c.heads, kv = head * c.kv_heads;
  auto linear = [&](int64_t in, int64_t out) { return nn::Linear(in, out, false, o); };
  auto make_norm = [&] { return nn::RMSNorm(c.features, c.norm_eps, o); };
  tok_embeddings = nn::Embedding(c.vocabulary, c.features, o);
  for (int64_t i = 0; i < c.layers; ++i) {
    LlamaBlock::Attention a;
    a.heads = c.heads, a.kv_heads = c.kv_heads;
    a.wq = linear(c.features, c.features), a.wo = linear(c.features, c.features);
    a.wk = linear(c.features, kv), a.wv = linear(c.features, kv);
    layers.push_back({a,
                      {linear(c.features, c.hidden), linear(c.hidden, c.features),
                       linear(c.features, c.hidden)},
                      make_norm(),
                      make_norm()});
  }
  norm = make_norm();
  output = linear(c.features, c.vocabulary);
  rotary = RotaryTable(c.context, head, c.rope_theta, o);
}

Tensor Llama::operator()(const Tensor& tokens, Loc where) const {
  nn::ModuleCall call("Llama", where);
  Tensor x = tok_embeddings(tokens);
  for (const LlamaBlock& l : layers) {
    x = x + l.attention(l.attention_norm(x), rotary);
    x = x + l.feed_forward(l.ffn_norm(x));
  }
  return output(norm(x));
}

Tensor Llama::decode(const Tensor& tokens, std::vector<KvCache>& cache, const Size& position,
                     Loc where) const {
  nn::ModuleCall call("Llama", where);
  Tensor x = tok_embeddings(tokens);
  for (size_t i = 0; i < layers.size(); ++i) {
    const LlamaBlock& l = layers[i];
    x = x + l.attention(l.attention_norm(x), rotary, cache.at(i), position);
    x = x + l.feed_forward(l.ffn_norm(x));
  }
  return output(norm(x.select(1, tokens.size(1) - 1)));
}

std::vector<KvCache> Llama::make_cache(int64_t batch) const {
  int64_t head = config.features / config.heads;
  Sizes shape = {batch, config.context, config.kv_heads, head};
  std::vector<KvCache> out(layers.size());
  for (KvCache& c : out)
    c = {nn::full_buffer(shape, 0, config.options), nn::full_buffer(shape, 0, config.options)};
  return out;
}

}  // namespace mote::models
