// BERT and GPT.
#include <cmath>

#include <mote/models.h>

#include "nn/module_call.h"

namespace mote::models {

namespace {

// BERT and GPT draw every weight from a normal distribution and start biases at 0.
constexpr double kSpread = 0.02;

nn::Linear linear(int64_t in, int64_t out, bool with_bias, const Options& o,
                  double spread = kSpread) {
  nn::Linear l;
  l.weight = nn::normal_parameter({out, in}, spread, o);
  if (with_bias) l.bias = nn::full_parameter(out, 0, o);
  return l;
}

nn::Embedding embedding(int64_t rows, int64_t features, const Options& o) {
  nn::Embedding e;
  e.weight = nn::normal_parameter({rows, features}, kSpread, o);
  return e;
}

// (batch, length, features) to (batch, heads, length, features / heads), and back.
Tensor split_heads(const Tensor& x, int64_t heads) {
  return x.unflatten(-1, {heads, -1}).transpose(1, 2);
}
Tensor join_heads(const Tensor& x) { return x.transpose(1, 2).flatten(2); }

BertLayer make_bert_layer(const BertConfig& c) {
  const Options& o = c.options;
  auto square = [&] { return linear(c.features, c.features, true, o); };
  auto norm = [&] { return nn::LayerNorm(c.features, 1e-12, true, o); };
  BertLayer l;
  l.heads = c.heads;
  l.attention.self = {square(), square(), square()};
  l.attention.output = {square(), norm(), {c.dropout}};
  l.intermediate = {linear(c.features, c.hidden, true, o)};
  l.output = {linear(c.hidden, c.features, true, o), norm(), {c.dropout}};
  return l;
}

}  // namespace

Tensor BertLayer::Output::operator()(const Tensor& x, const Tensor& residual) const {
  return LayerNorm(dropout(dense(x)) + residual);
}

Tensor BertLayer::operator()(const Tensor& x, const Tensor& mask, Loc where) const {
  nn::ModuleCall call("BertLayer", where);
  Tensor q = split_heads(attention.self.query(x), heads);
  Tensor k = split_heads(attention.self.key(x), heads);
  Tensor v = split_heads(attention.self.value(x), heads);
  const nn::Dropout& drop = attention.output.dropout;
  Tensor mixed = q.scaled_dot_product_attention(
      k, v, {.attn_mask = mask, .dropout_p = drop.training ? drop.p : 0});
  Tensor attended = attention.output(join_heads(mixed), x);
  return output(intermediate.dense(attended).gelu(), attended);
}

Bert::Bert(const BertConfig& c) {
  const Options& o = c.options;
  bert.embeddings = {embedding(c.vocabulary, c.features, o), embedding(c.positions, c.features, o),
                     embedding(c.types, c.features, o), nn::LayerNorm(c.features, 1e-12, true, o),
                     {c.dropout}};
  for (int64_t i = 0; i < c.layers; ++i) bert.encoder.layer.push_back(make_bert_layer(c));
  bert.pooler = {linear(c.features, c.features, true, o)};
  cls.predictions.bias = nn::full_parameter(c.vocabulary, 0, o);
  cls.predictions.transform = {linear(c.features, c.features, true, o),
                               nn::LayerNorm(c.features, 1e-12, true, o)};
  cls.seq_relationship = linear(c.features, 2, true, o);
}

Tensor Bert::encode(const Batch& batch, Loc where) const {
  nn::ModuleCall call("Bert", where);
  const Embeddings& e = bert.embeddings;
  Tensor positions = e.position_embeddings.weight.narrow(0, 0, batch.input_ids.size(1));
  Tensor x = e.word_embeddings(batch.input_ids) + positions +
             e.token_type_embeddings(batch.token_type_ids);
  x = e.dropout(e.LayerNorm(x));
  Tensor mask = batch.attention_mask.ne(0).unsqueeze(1).unsqueeze(1);
  for (const BertLayer& layer : bert.encoder.layer) x = layer(x, mask);
  return x;
}

Tensor Bert::loss(const Batch& batch, Loc where) const {
  Tensor x = encode(batch, where);
  nn::ModuleCall call("Bert", where);
  Tensor at = batch.masked_positions.unsqueeze(-1);
  Tensor masked = x.take_along_dim(at.expand({-1, -1, x.size(2)}), 1);
  const Transform& t = cls.predictions.transform;
  Tensor words = t.LayerNorm(t.dense(masked).gelu())
                     .linear(bert.embeddings.word_embeddings.weight, cls.predictions.bias);
  Tensor pooled = bert.pooler.dense(x.select(1, 0)).tanh();
  return words.flatten(0, 1).cross_entropy(batch.masked_ids.flatten()) +
         cls.seq_relationship(pooled).cross_entropy(batch.next_sentence);
}

Tensor GptBlock::Attention::operator()(const Tensor& x) const {
  ModuleScope module("Attention");
  std::vector<Tensor> qkv = c_attn(x).chunk(3, -1);
  Tensor mixed = split_heads(qkv[0], heads).scaled_dot_product_attention(
      split_heads(qkv[1], heads), split_heads(qkv[2], heads),
      {.dropout_p = dropout.training ? dropout.p : 0, .is_causal = true});
  return dropout(c_proj(join_heads(mixed)));
}

Tensor GptBlock::Mlp::operator()(const Tensor& x) const {
  ModuleScope module("Mlp");
  return dropout(c_proj(c_fc(x).gelu(tanh_gelu ? "tanh" : "none")));
}

Tensor GptBlock::operator()(const Tensor& x) const {
  ModuleScope module("GptBlock");
  Tensor y = x + attn(ln_1(x));
  return y + mlp(ln_2(y));
}

Gpt::Gpt(const GptConfig& c) {
  const Options& o = c.options;
  auto norm = [&] { return nn::LayerNorm(c.features, 1e-5, true, o); };
  // What adds to the residual is drawn smaller, so that its sum over the layers keeps its size.
  double narrow = kSpread / std::sqrt(2.0 * static_cast<double>(c.layers));
  transformer.wte = embedding(c.vocabulary, c.features, o);
  transformer.wpe = embedding(c.context, c.features, o);
  transformer.drop.p = c.dropout;
  for (int64_t i = 0; i < c.layers; ++i)
    transformer.h.push_back({norm(),
                             {linear(c.features, 3 * c.features, c.bias, o),
                              linear(c.features, c.features, c.bias, o, narrow),
                              {c.dropout},
                              c.heads},
                             norm(),
                             {linear(c.features, 4 * c.features, c.bias, o),
                              linear(4 * c.features, c.features, c.bias, o, narrow),
                              {c.dropout},
                              c.tanh_gelu}});
  transformer.ln_f = norm();
  lm_head.weight = transformer.wte.weight;
}

Tensor Gpt::operator()(const Tensor& tokens, Loc where) const {
  nn::ModuleCall call("Gpt", where);
  Tensor positions = transformer.wpe.weight.narrow(0, 0, tokens.sizes()[1]);
  Tensor x = transformer.drop(transformer.wte(tokens) + positions);
  for (const GptBlock& block : transformer.h) x = block(x);
  return lm_head(transformer.ln_f(x));
}

}  // namespace mote::models
