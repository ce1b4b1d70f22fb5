// RNN, LSTM, GRU: one walk over time for all three; a cell says what a step does.
#include <functional>

#include "onnx/ops.h"

namespace mote::onnx {

namespace {

using Activation = std::function<Tensor(const Tensor&)>;

struct ActivationRow {
  std::string_view name;
  double alpha, beta;  // where the node gives none
  Tensor (*run)(const Tensor& x, double alpha, double beta);
};

constexpr ActivationRow activations[] = {
    {"relu",            0,    0,   [](const Tensor& x, double,   double) { return x.relu(); }                 },
    {"tanh",            0,    0,   [](const Tensor& x, double,   double) { return x.tanh(); }                 },
    {"sigmoid",         0,    0,   [](const Tensor& x, double,   double) { return x.sigmoid(); }              },
    {"affine",          1,    0,   [](const Tensor& x, double a, double b) { return x * a + b; }              },
    {"leakyrelu",       0.01, 0,   [](const Tensor& x, double a, double) { return x.leaky_relu(a); }          },
    {"thresholdedrelu", 1,    0,
     [](const Tensor& x,                               double a, double) { return x.masked_fill(x < a, 0); }  },
    {"scaledtanh",      1,    1,   [](const Tensor& x, double a, double b) { return (x * b).tanh() * a; }     },
    {"hardsigmoid",     0.2,  0.5,
     [](const Tensor& x,                               double a, double b) { return (x * a + b).clamp(0, 1); }},
    {"elu",             1,    0,   [](const Tensor& x, double a, double) { return x.elu(a); }                 },
    {"softsign",        0,    0,   [](const Tensor& x, double,   double) { return x.softsign(); }             },
    {"softplus",        0,    0,   [](const Tensor& x, double,   double) { return x.softplus(); }             },
};

// The activations of all directions, one after another.
std::vector<Activation> activations_of(Call& c, std::vector<std::string> names) {
  if (c.has("activations")) names = c.ss("activations");
  const std::vector<double> alphas = c.fs("activation_alpha"), betas = c.fs("activation_beta");
  const double clip = c.f("clip", 0);
  std::vector<Activation> out;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string lower;
    for (const char ch : names[i])
      lower += static_cast<char>(ch >= 'A' && ch <= 'Z' ? ch - 'A' + 'a' : ch);
    const ActivationRow* found = nullptr;
    for (const ActivationRow& row : activations)
      if (row.name == lower) found = &row;
    expect(found, "the activation ", quoted(names[i]), " is not known");
    const double alpha = i < alphas.size() ? alphas[i] : found->alpha;
    const double beta = i < betas.size() ? betas[i] : found->beta;
    out.push_back([=, run = found->run](const Tensor& x) {
      return run(clip > 0 ? x.clamp(-clip, clip) : x, alpha, beta);
    });
  }
  return out;
}

struct State {
  Tensor h, c;  // c of an LSTM
};

// One direction's weights, without the axis of directions.
struct Cell {
  Tensor w, r, bias_w, bias_r, peephole;
  std::vector<Activation> f;
  int64_t hidden = 0;
  bool linear_before_reset = false, couples = false;
};

// `x` is the input's share of the gates: x W^T + its bias.
using Step = State (*)(const Cell& cell, const Tensor& x, const State& before);

Tensor gate(const Cell& cell, const Tensor& all, int64_t i) {
  return all.narrow(-1, i * cell.hidden, cell.hidden);
}

State rnn_step(const Cell& cell, const Tensor& x, const State& s) {
  return {cell.f[0](x + s.h.matmul(cell.r.t()) + cell.bias_r), {}};
}

State lstm_step(const Cell& cell, const Tensor& x, const State& s) {
  const Tensor all = x + s.h.matmul(cell.r.t()) + cell.bias_r;
  auto peep = [&](int64_t i, const Tensor& c) {
    return cell.peephole.defined() ? cell.peephole.narrow(0, i * cell.hidden, cell.hidden) * c
                                   : c.zeros_like();
  };
  const Tensor in = cell.f[0](gate(cell, all, 0) + peep(0, s.c));
  const Tensor forget = cell.couples ? 1 - in : cell.f[0](gate(cell, all, 2) + peep(2, s.c));
  const Tensor c = forget * s.c + in * cell.f[1](gate(cell, all, 3));
  const Tensor out = cell.f[0](gate(cell, all, 1) + peep(1, c));
  return {out * cell.f[2](c), c};
}

State gru_step(const Cell& cell, const Tensor& x, const State& s) {
  const int64_t n = cell.hidden;
  const Tensor r_gates = cell.r.narrow(0, 0, 2 * n), r_new = cell.r.narrow(0, 2 * n, n);
  const Tensor gates =
      cell.f[0](x.narrow(-1, 0, 2 * n) + s.h.matmul(r_gates.t()) + cell.bias_r.narrow(0, 0, 2 * n));
  const Tensor update = gate(cell, gates, 0), reset = gate(cell, gates, 1);
  const Tensor bias = gate(cell, cell.bias_r, 2);
  const Tensor recurrent = cell.linear_before_reset ? reset * (s.h.matmul(r_new.t()) + bias)
                                                    : (reset * s.h).matmul(r_new.t()) + bias;
  const Tensor fresh = cell.f[1](gate(cell, x, 2) + recurrent);
  return {(1 - update) * fresh + update * s.h, {}};
}

struct Kind {
  Step step;
  int64_t gates;
  size_t peepholes, initial_h, initial_c;  // inputs; 0: none
  std::vector<std::string> activations;    // of one direction
};

// Each sequence from its own end; the same again undoes it.
Tensor reversed(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return x.flip({0});
  const Tensor t = arange(x.size(0), Options{DType::i64, x.device()}).reshape({-1, 1, 1});
  const Tensor length = lengths.cast(DType::i64).reshape({1, -1, 1});
  return x.gather(0, mote::where(t < length, length - 1 - t, t).expand(x.shape()));
}

struct Walk {
  Tensor y;  // (time, batch, hidden)
  State last;
};

Walk walk(const Cell& cell, Step step, const Tensor& x, State state, const Tensor& lengths) {
  const Tensor share = x.matmul(cell.w.t()) + cell.bias_w;
  std::vector<Tensor> all;
  for (int64_t t = 0; t < x.size(0); ++t) {
    State next = step(cell, share.select(0, t), state);
    if (lengths.defined()) {
      const Tensor runs = lengths.reshape({-1, 1}) > t;
      all.push_back(mote::where(runs, next.h, next.h.zeros_like()));
      next.h = mote::where(runs, next.h, state.h);
      if (next.c.defined()) next.c = mote::where(runs, next.c, state.c);
    } else {
      all.push_back(next.h);
    }
    state = next;
  }
  expect(!all.empty(), "the sequence has no steps");
  return {stack(all), state};
}

Cell cell_of(Call& c, const Kind& kind, int64_t d, const std::vector<Activation>& all) {
  Cell cell{.w = c.x(1).select(0, d), .r = c.x(2).select(0, d), .hidden = c.x(2).size(2)};
  const int64_t rows = kind.gates * cell.hidden;
  const Tensor none = zeros({rows}, c.options(cell.w.dtype()));
  cell.bias_w = c.has(3) ? c.x(3).select(0, d).narrow(0, 0, rows) : none;
  cell.bias_r = c.has(3) ? c.x(3).select(0, d).narrow(0, rows, rows) : none;
  if (kind.peepholes && c.has(kind.peepholes)) cell.peephole = c.x(kind.peepholes).select(0, d);
  const auto each = static_cast<int64_t>(kind.activations.size());
  expect(static_cast<int64_t>(all.size()) >= (d + 1) * each, "there are ", all.size(),
         " activations");
  cell.f.assign(all.begin() + d * each, all.begin() + (d + 1) * each);
  cell.linear_before_reset = c.i("linear_before_reset", 0) != 0;
  cell.couples = c.i("input_forget", 0) != 0;
  return cell;
}

Outputs recurrent(Call& c, const Kind& kind) {
  const bool batch_first = c.i("layout", 0) != 0;
  const Tensor x = batch_first ? c.x(0).transpose(0, 1) : c.x(0);
  const std::string direction = c.s("direction", "forward");
  expect(direction == "forward" || direction == "reverse" || direction == "bidirectional",
         "the direction ", quoted(direction), " is not known");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  std::vector<std::string> names;
  for (int64_t d = 0; d < directions; ++d)
    names.insert(names.end(), kind.activations.begin(), kind.activations.end());
  const std::vector<Activation> all = activations_of(c, names);
  const Tensor lengths = c.maybe(4);
  auto initial = [&](size_t i, int64_t d, int64_t hidden) {
    if (!i || !c.has(i)) return zeros({x.size(1), hidden}, c.options(x.dtype()));
    return c.x(i).select(batch_first ? 1 : 0, d);
  };
  std::vector<Tensor> ys, hs, cs;
  for (int64_t d = 0; d < directions; ++d) {
    const bool backward = d == 1 || direction == "reverse";
    const Cell cell = cell_of(c, kind, d, all);
    State start{initial(kind.initial_h, d, cell.hidden), {}};
    if (kind.initial_c) start.c = initial(kind.initial_c, d, cell.hidden);
    Walk w = walk(cell, kind.step, backward ? reversed(x, lengths) : x, start, lengths);
    ys.push_back(backward ? reversed(w.y, lengths) : w.y);
    hs.push_back(w.last.h);
    if (kind.initial_c) cs.push_back(w.last.c);
  }
  // (time, directions, batch, hidden), or the batch first.
  Outputs out = {stack(ys, 1), stack(hs)};
  if (kind.initial_c) out.push_back(stack(cs));
  if (!batch_first) return out;
  out[0] = Value(out[0].tensor.permute({2, 0, 1, 3}));
  for (size_t i = 1; i < out.size(); ++i) out[i] = Value(out[i].tensor.transpose(0, 1));
  return out;
}

Outputs rnn(Call& c) { return recurrent(c, {rnn_step, 1, 0, 5, 0, {"Tanh"}}); }
Outputs gru(Call& c) {
  return recurrent(c, {
                          gru_step, 3, 0, 5, 0, {"Sigmoid", "Tanh"}
  });
}
Outputs lstm(Call& c) {
  return recurrent(c, {
                          lstm_step, 4, 7, 5, 6, {"Sigmoid", "Tanh", "Tanh"}
  });
}

constexpr OpRow rows[] = {
    {"RNN",  1, rnn },
    {"GRU",  1, gru },
    {"LSTM", 1, lstm},
};

}  // namespace

OpTable recurrent_ops() { return rows; }

}  // namespace mote::onnx
