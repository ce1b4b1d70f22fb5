// Recurrent cells and attention.
#include <cmath>

#include "nn/module_call.h"

namespace mote::nn {

namespace {

template <class Cell>
void draw(Cell& cell, int64_t gates, int64_t input, int64_t hidden, bool with_bias,
          const Options& o) {
  expect_sizes({input, hidden});
  double bound = hidden ? 1 / std::sqrt(static_cast<double>(hidden)) : 0;
  cell.weight_ih = uniform_parameter({gates * hidden, input}, bound, o);
  cell.weight_hh = uniform_parameter({gates * hidden, hidden}, bound, o);
  if (!with_bias) return;
  cell.bias_ih = uniform_parameter(gates * hidden, bound, o);
  cell.bias_hh = uniform_parameter(gates * hidden, bound, o);
}

Tensor zero_state(const Tensor& x, const Tensor& weight_hh) {
  const Sizes sizes = x.sizes();
  std::vector<Size> shape(sizes.begin(), sizes.end());
  shape.back() = weight_hh.size(1);
  return zeros(Sizes(shape), {x.dtype(), x.device()});
}

void expect_sequences(const Tensor& x, const char* what) {
  expect_defined(x, what);
  expect(x.dim() == 2 || x.dim() == 3,
         "needs (batch, length, features) or (length, features), got ", what, " of shape ", x);
}

}  // namespace

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, bool with_bias, const Options& o,
                   Loc where) {
  ModuleCall call("LSTMCell", where);
  draw(*this, 4, input_size, hidden_size, with_bias, o);
}
LSTMCell::State LSTMCell::operator()(const Tensor& x, const State& before, Loc where) const {
  ModuleCall call("LSTMCell", where);
  Tensor h = before.h.defined() ? before.h : zero_state(x, weight_hh);
  Tensor c = before.c.defined() ? before.c : zero_state(x, weight_hh);
  std::vector<Tensor> gate =
      (x.linear(weight_ih, bias_ih) + h.linear(weight_hh, bias_hh)).chunk(4, -1);
  Tensor next = gate[1].sigmoid() * c + gate[0].sigmoid() * gate[2].tanh();
  return {gate[3].sigmoid() * next.tanh(), next};
}

GRUCell::GRUCell(int64_t input_size, int64_t hidden_size, bool with_bias, const Options& o,
                 Loc where) {
  ModuleCall call("GRUCell", where);
  draw(*this, 3, input_size, hidden_size, with_bias, o);
}
Tensor GRUCell::operator()(const Tensor& x, const Tensor& before, Loc where) const {
  ModuleCall call("GRUCell", where);
  Tensor h = before.defined() ? before : zero_state(x, weight_hh);
  std::vector<Tensor> in = x.linear(weight_ih, bias_ih).chunk(3, -1),
                      at = h.linear(weight_hh, bias_hh).chunk(3, -1);
  Tensor reset = (in[0] + at[0]).sigmoid(), update = (in[1] + at[1]).sigmoid();
  Tensor fresh = (in[2] + reset * at[2]).tanh();
  return fresh + update * (h - fresh);
}

MultiheadAttention::MultiheadAttention(int64_t features, int64_t num_heads, bool with_bias,
                                       const Options& o, Loc where)
    : heads(num_heads) {
  ModuleCall call("MultiheadAttention", where);
  expect_sizes({features});
  expect(num_heads > 0 && features % num_heads == 0, features, " features cannot be divided into ",
         num_heads, " heads");
  // xavier_uniform over the joint (3 features, features) matrix
  double bound = std::sqrt(6.0 / static_cast<double>(4 * features));
  in_proj_weight = uniform_parameter({3 * features, features}, bound, o);
  out_proj = Linear(features, features, with_bias, o);
  if (!with_bias) return;
  in_proj_bias = full_parameter(3 * features, 0, o);
  out_proj.bias = full_parameter(features, 0, o);
}

Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      AttentionOptions options, Loc where) const {
  ModuleCall call("MultiheadAttention", where);
  expect_sequences(query, "the query"), expect_sequences(key, "the key");
  expect_sequences(value, "the value");
  int64_t features = in_proj_weight.size(1);
  auto project = [&](const Tensor& x, int64_t part) {
    auto rows = [&](const Tensor& t) {
      return t.defined() ? t.narrow(0, part * features, features) : Tensor();
    };
    Tensor w = rows(in_proj_weight), b = rows(in_proj_bias);
    return x.linear(w, b).unflatten(-1, {heads, -1}).transpose(-3, -2);
  };
  if (training && dropout > 0) options.dropout_p = dropout;
  Tensor mixed =
      project(query, 0).scaled_dot_product_attention(project(key, 1), project(value, 2), options);
  return out_proj(mixed.transpose(-3, -2).flatten(-2));
}

}  // namespace mote::nn
