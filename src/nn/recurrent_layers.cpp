// RNN, GRU and LSTM over sequences: layers, directions, sequences of several lengths.
#include <mote/modules.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "nn/module_call.h"
#include "tensor/checks.h"

namespace mote::nn {

struct Recurrent::States {
  Tensor h, c;
};

namespace {

constexpr const char* names[] = {"RNN", "GRU", "LSTM"};
constexpr int64_t gates[] = {1, 3, 4};

// where(mask, a, b), or a without a mask.
Tensor masked(const Tensor& mask, const Tensor& a, const Tensor& b) {
  return mask.defined() ? where(mask, a, b) : a;
}

}  // namespace

Recurrent::Recurrent(Kind kind, int64_t input_size, int64_t hidden_size, const RecurrentOptions& r,
                     const Options& o, const Loc& where)
    : options(r), kind_(kind), hidden_(hidden_size) {
  ModuleCall call(names[static_cast<size_t>(kind)], where);
  expect_sizes({input_size, hidden_size, r.proj_size});
  expect(r.num_layers > 0, "needs at least one layer, got ", r.num_layers);
  expect_at_least_0(r.dropout, "dropout");
  expect(r.proj_size == 0 || kind == Kind::LSTM, "only LSTM has proj_size");
  expect(r.proj_size < hidden_size || r.proj_size == 0, "proj_size must be below hidden_size");
  const std::string_view curve = r.nonlinearity;
  expect(curve == "tanh" || curve == "relu", "the nonlinearity is tanh or relu, got ",
         std::string(curve));
  const int64_t directions = r.bidirectional ? 2 : 1, out = r.proj_size ? r.proj_size : hidden_size;
  const double bound = hidden_size ? 1 / std::sqrt(static_cast<double>(hidden_size)) : 0;
  const int64_t rows = gates[static_cast<size_t>(kind)] * hidden_size;
  for (int64_t i = 0; i < r.num_layers * directions; ++i) {
    Weights w;
    w.ih = uniform_parameter({rows, i < directions ? input_size : out * directions}, bound, o);
    w.hh = uniform_parameter({rows, out}, bound, o);
    if (r.bias) w.bias_ih = uniform_parameter(rows, bound, o);
    if (r.bias) w.bias_hh = uniform_parameter(rows, bound, o);
    if (r.proj_size) w.hr = uniform_parameter({out, hidden_size}, bound, o);
    weights.push_back(w);
  }
}

std::string Recurrent::weight_suffix(size_t i) const {
  const size_t directions = options.bidirectional ? 2 : 1;
  return "_l" + std::to_string(i / directions) + (i % directions ? "_reverse" : "");
}

// `in` is the input's part of the gates.
Recurrent::States Recurrent::step(const Weights& w, const Tensor& in, const States& before) const {
  const Tensor at = before.h.linear(w.hh, w.bias_hh);
  if (kind_ == Kind::RNN) {
    Tensor sum = in + at;
    return {std::string_view(options.nonlinearity) == "tanh" ? sum.tanh() : sum.relu(), {}};
  }
  if (kind_ == Kind::GRU) {
    const std::vector<Tensor> x = in.chunk(3, -1), y = at.chunk(3, -1);
    Tensor reset = (x[0] + y[0]).sigmoid(), update = (x[1] + y[1]).sigmoid();
    Tensor fresh = (x[2] + reset * y[2]).tanh();
    return {fresh + update * (before.h - fresh), {}};
  }
  const std::vector<Tensor> gate = (in + at).chunk(4, -1);
  Tensor c = gate[1].sigmoid() * before.c + gate[0].sigmoid() * gate[2].tanh();
  Tensor h = gate[3].sigmoid() * c.tanh();
  return {w.hr.defined() ? h.linear(w.hr) : h, c};
}

// x: (length, batch, features). The input's products are one for the whole sequence.
Tensor Recurrent::direction(size_t which, const Tensor& x, const Tensor& lengths,
                            States& state) const {
  const Weights& w = weights[which];
  const bool backwards = options.bidirectional && which % 2;
  const std::vector<Tensor> in = x.linear(w.ih, w.bias_ih).unbind(0);
  const auto length = static_cast<int64_t>(in.size());
  std::vector<Tensor> out(in.size());
  for (int64_t i = 0; i < length; ++i) {
    const int64_t t = backwards ? length - 1 - i : i;
    const auto at = static_cast<size_t>(t);
    const Tensor inside = lengths.defined() ? (lengths > t).unsqueeze(1) : Tensor();
    const States next = step(w, in[at], state);
    out[at] = masked(inside, next.h, next.h.zeros_like());
    state.h = masked(inside, next.h, state.h);
    if (next.c.defined()) state.c = masked(inside, next.c, state.c);
  }
  return stack(out);
}

Recurrent::Result Recurrent::run(const Tensor& x, const Tensor& h, const Tensor& c,
                                 const Tensor& lengths, const Loc& where) const {
  ModuleCall call(names[static_cast<size_t>(kind_)], where);
  expect_defined(x, "the input");
  expect(x.dim() == 2 || x.dim() == 3, "needs an input with 2 or 3 axes, got ", x);
  const bool batched = x.dim() == 3, swapped = batched && options.batch_first;
  expect(batched || !lengths.defined(), "lengths need a batch, got a single sequence");
  Tensor y = !batched ? x.unsqueeze(1) : swapped ? x.transpose(0, 1) : x;
  const auto directions = static_cast<size_t>(options.bidirectional ? 2 : 1);
  Tensor ends = lengths;
  if (lengths.defined()) {
    expect(is_int(lengths.dtype()) && dims_of(lengths) == std::vector<Dim>{dims_of(y)[1]},
           "needs an integer length for each of the sequences of ", x, ", got ", lengths.dtype(),
           " of shape ", lengths);
    ends = checked(lengths, {Must::Length, dims_of(y)[0]});
  }
  auto start = [&](const Tensor& given, size_t i, int64_t width) {
    if (given.defined()) {
      std::vector<Dim> wanted = {static_cast<int64_t>(weights.size()), width};
      if (batched) wanted.insert(wanted.begin() + 1, dims_of(y)[1]);
      expect(dims_of(given) == wanted, "an initial state has shape ", given, ", it needs ",
             weights.size(), " x ", batched ? text(said(dims_of(y)[1]), " x ") : "", width);
    }
    if (!given.defined()) return zeros({y.size(1), width}, {x.dtype(), x.device()});
    Tensor mine = given.select(0, static_cast<int64_t>(i));
    return batched ? mine : mine.unsqueeze(0);
  };
  std::vector<Tensor> hs, cs;
  for (size_t layer = 0; layer * directions < weights.size(); ++layer) {
    if (layer > 0 && options.dropout > 0) y = y.dropout(options.dropout, training);
    std::vector<Tensor> outputs;
    for (size_t d = 0; d < directions; ++d) {
      const size_t which = layer * directions + d;
      States state{start(h, which, weights[which].hh.size(1)), {}};
      if (kind_ == Kind::LSTM) state.c = start(c, which, hidden_);
      outputs.push_back(direction(which, y, ends, state));
      hs.push_back(state.h);
      if (state.c.defined()) cs.push_back(state.c);
    }
    y = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
  }
  Result out{!batched  ? y.squeeze(1)
             : swapped ? y.transpose(0, 1)
                       : y,
             stack(hs), cs.empty() ? Tensor() : stack(cs)};
  if (!batched) out.h = out.h.squeeze(1);
  if (!batched && out.c.defined()) out.c = out.c.squeeze(1);
  return out;
}

}  // namespace mote::nn
