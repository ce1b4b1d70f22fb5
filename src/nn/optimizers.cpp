// The optimizers' formulas.
#include <mote/optim.h>

#include <cmath>

#include "nn/module_call.h"

namespace mote::optim {

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("SGD", where);
  nn::expect_at_least_0(o.momentum, "momentum");
  nn::expect_at_least_0(o.weight_decay, "weight decay");
  expect(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
         "nesterov needs a momentum > 0 and no dampening, got ", o.momentum, " and ", o.dampening);
  if (o.momentum != 0) add_state("momentum_buffer");
  if (o.momentum != 0 && o.dampening != 0) count_steps();
}

Tensor SGD::update(size_t i, const Tensor& p, const Tensor& gradient) {
  Tensor g = gradient;
  if (options_.weight_decay != 0) g = g + p * options_.weight_decay;
  if (options_.momentum != 0) {
    Tensor& buffer = state["momentum_buffer"][i];
    // The first gradient is taken whole.
    Tensor fresh =
        options_.dampening == 0 ? g : g * (1 - options_.dampening * steps.gt(0).to(DType::f32));
    Tensor moved = buffer * options_.momentum + fresh;
    put(buffer, moved);
    g = options_.nesterov ? g + moved * options_.momentum : moved;
  }
  return p - g * lr;
}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("Adam", where);
  nn::expect_below_1(o.beta1, "beta1");
  nn::expect_below_1(o.beta2, "beta2");
  nn::expect_at_least_0(o.eps, "eps");
  nn::expect_at_least_0(o.weight_decay, "weight decay");
  add_state("exp_avg");
  add_state("exp_avg_sq");
  if (o.amsgrad) add_state("max_exp_avg_sq");
  count_steps();
}

// 1 - beta^t as -expm1(t ln beta): the difference itself would lose most digits at first.
void Adam::begin_step() {
  Tensor t = steps + 1;
  auto correction = [&](double beta) { return -(t * std::log(beta)).expm1(); };
  mean_scale_ = correction(options_.beta1).reciprocal();
  root_scale_ = correction(options_.beta2).rsqrt();
}

Tensor Adam::direction(size_t i, const Tensor& g) {
  Tensor &mean = state["exp_avg"][i], &square = state["exp_avg_sq"][i];
  Tensor m = mean + (g - mean) * (1 - options_.beta1);
  Tensor v = square * options_.beta2 + g * g * (1 - options_.beta2);
  put(mean, m);
  put(square, v);
  if (options_.amsgrad) {
    Tensor& largest = state["max_exp_avg_sq"][i];
    v = largest.maximum(v);
    put(largest, v);
  }
  return m * mean_scale_ / (v.sqrt() * root_scale_ + options_.eps);
}

Tensor Adam::update(size_t i, const Tensor& p, const Tensor& g) {
  double decay = options_.weight_decay;
  return p - direction(i, decay == 0 ? g : g + p * decay) * lr;
}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& o, Loc where)
    : Adam(std::move(parameters),
           {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.flat, o.master_weights, o.amsgrad,
            o.maximize},
           where) {}

Tensor AdamW::update(size_t i, const Tensor& p, const Tensor& g) {
  return p * (1 - lr * options_.weight_decay) - direction(i, g) * lr;
}

namespace {

// 1 where a norm is 0: there is nothing to compare.
Tensor where_both(const Tensor& a, const Tensor& b, const Tensor& ratio) {
  return ratio.where(a.gt(0) & b.gt(0), 1.0);
}

}  // namespace

LAMB::LAMB(std::vector<Tensor> parameters, const LAMBOptions& o, Loc where)
    : Adam(std::move(parameters),
           {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, false, o.master_weights}, where) {}

Tensor LAMB::update(size_t i, const Tensor& p, const Tensor& g) {
  Tensor r = direction(i, g) + p * options_.weight_decay;
  Tensor size = p.norm(), change = r.norm();
  return p - r * (where_both(size, change, size / change) * lr);
}

LARS::LARS(std::vector<Tensor> parameters, const LARSOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {false, o.master_weights}, where), options_(o) {
  OuterCall call("LARS", where);
  nn::expect_at_least_0(o.momentum, "momentum");
  nn::expect_at_least_0(o.weight_decay, "weight decay");
  add_state("momentum_buffer");
}

Tensor LARS::update(size_t i, const Tensor& p, const Tensor& g) {
  Tensor& buffer = state["momentum_buffer"][i];
  Tensor size = p.norm(), slope = g.norm();
  Tensor trust = options_.trust_coefficient * size / (slope + options_.weight_decay * size);
  Tensor rate = where_both(size, slope, trust) * lr;
  Tensor moved = buffer * options_.momentum + (g + p * options_.weight_decay) * rate;
  put(buffer, moved);
  return p - moved;
}

namespace {

// Newton-Schulz with a polynomial that draws singular values towards 1 (Jordan et al., 2024).
Tensor orthogonalise(const Tensor& g, const MuonOptions& o) {
  bool tall = g.size(0) > g.size(1);
  Tensor x = g.to(o.iterate_in);
  if (tall) x = x.t();
  x = x / x.norm().clamp_min(o.eps);
  for (int i = 0; i < o.iterations; ++i) {
    Tensor gram = x.matmul(x.t());
    x = x * 3.4445 + (gram * -4.7750 + (gram * 2.0315).matmul(gram)).matmul(x);
  }
  return tall ? x.t() : x;
}

double rate_factor(const Tensor& p, bool match_rms_adamw) {
  auto rows = static_cast<double>(p.size(0)), columns = static_cast<double>(p.size(1));
  return match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                         : std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace

Muon::Muon(std::vector<Tensor> parameters, const MuonOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {false, o.master_weights}, where), options_(o) {
  OuterCall call("Muon", where);
  nn::expect_at_least_0(o.momentum, "momentum");
  nn::expect_at_least_0(o.weight_decay, "weight decay");
  for (size_t i = 0; i < params.size(); ++i)
    expect(params[i].dim() == 2, "needs matrices, but parameter ", i, " has shape ", params[i]);
  add_state("momentum_buffer");
}

Tensor Muon::update(size_t i, const Tensor& p, const Tensor& g) {
  Tensor& buffer = state["momentum_buffer"][i];
  Tensor moved = buffer + (g - buffer) * (1 - options_.momentum);
  put(buffer, moved);
  Tensor x = options_.nesterov ? g + (moved - g) * options_.momentum : moved;
  Tensor change = orthogonalise(x, options_).to(p.dtype());
  return p * (1 - lr * options_.weight_decay) -
         change * (lr * rate_factor(p, options_.match_rms_adamw));
}

}  // namespace mote::optim
