// The formulas of mote/optimizers.h, as PyTorch has them.
#include <mote/optimizers.h>

#include <cmath>

#include "nn/module_call.h"

namespace mote::optim {

namespace {

Tensor decayed(const Tensor& g, const Tensor& p, double weight_decay) {
  return weight_decay == 0 ? g : g + p * weight_decay;
}

Tensor averaged(const Tensor& before, const Tensor& x, double keep) {
  return before * keep + x * (1 - keep);
}

// What depends on the number of steps loses digits in f32: powers near 1, and their differences.
Tensor wide(const Tensor& steps) { return steps.to(DType::f64); }
Tensor narrow(const Tensor& x) { return x.to(DType::f32); }

// 1 - beta^t
Tensor correction(double beta, const Tensor& t) { return -(t * std::log(beta)).expm1(); }

void expect_betas(double beta1, double beta2, double eps, double weight_decay) {
  nn::expect_below_1(beta1, "beta1");
  nn::expect_below_1(beta2, "beta2");
  nn::expect_at_least_0(eps, "eps");
  nn::expect_at_least_0(weight_decay, "weight decay");
}

}  // namespace

RMSprop::RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("RMSprop", where);
  nn::expect_at_least_0(o.alpha, "alpha");
  nn::expect_at_least_0(o.eps, "eps");
  nn::expect_at_least_0(o.momentum, "momentum");
  nn::expect_at_least_0(o.weight_decay, "weight decay");
  add_state("square_avg");
  if (o.momentum != 0) add_state("momentum_buffer");
  if (o.centered) add_state("grad_avg");
}

Tensor RMSprop::update(size_t i, const Tensor& p, const Tensor& gradient) {
  Tensor g = decayed(gradient, p, options_.weight_decay);
  Tensor& square = state["square_avg"][i];
  Tensor v = averaged(square, g * g, options_.alpha), spread = v;
  put(square, v);
  if (options_.centered) {
    Tensor& mean = state["grad_avg"][i];
    Tensor m = averaged(mean, g, options_.alpha);
    put(mean, m);
    spread = v - m * m;
  }
  Tensor step = g / (spread.sqrt() + options_.eps);
  if (options_.momentum != 0) {
    Tensor& buffer = state["momentum_buffer"][i];
    step = buffer * options_.momentum + step;
    put(buffer, step);
  }
  return p - step * lr;
}

Adagrad::Adagrad(std::vector<Tensor> parameters, const AdagradOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("Adagrad", where);
  nn::expect_at_least_0(o.lr_decay, "decay of the rate");
  nn::expect_at_least_0(o.eps, "eps");
  nn::expect_at_least_0(o.weight_decay, "weight decay");
  nn::expect_at_least_0(o.initial_accumulator_value, "initial accumulator");
  add_state("sum", o.initial_accumulator_value);
  count_steps();
}

void Adagrad::begin_step() { rate_ = lr / (1 + steps * options_.lr_decay); }

Tensor Adagrad::update(size_t i, const Tensor& p, const Tensor& gradient) {
  Tensor g = decayed(gradient, p, options_.weight_decay);
  Tensor& sum = state["sum"][i];
  Tensor next = sum + g * g;
  put(sum, next);
  return p - g / (next.sqrt() + options_.eps) * rate_;
}

Adadelta::Adadelta(std::vector<Tensor> parameters, const AdadeltaOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("Adadelta", where);
  nn::expect_below_1(o.rho, "rho");
  nn::expect_at_least_0(o.eps, "eps");
  nn::expect_at_least_0(o.weight_decay, "weight decay");
  add_state("square_avg");
  add_state("acc_delta");
}

Tensor Adadelta::update(size_t i, const Tensor& p, const Tensor& gradient) {
  Tensor g = decayed(gradient, p, options_.weight_decay);
  Tensor &square = state["square_avg"][i], &moved = state["acc_delta"][i];
  Tensor v = averaged(square, g * g, options_.rho);
  Tensor delta = (moved + options_.eps).sqrt() / (v + options_.eps).sqrt() * g;
  put(square, v);
  put(moved, averaged(moved, delta * delta, options_.rho));
  return p - delta * lr;
}

Adamax::Adamax(std::vector<Tensor> parameters, const AdamaxOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("Adamax", where);
  expect_betas(o.beta1, o.beta2, o.eps, o.weight_decay);
  add_state("exp_avg");
  add_state("exp_inf");
  count_steps();
}

void Adamax::begin_step() { rate_ = lr / narrow(correction(options_.beta1, wide(steps) + 1)); }

Tensor Adamax::update(size_t i, const Tensor& p, const Tensor& gradient) {
  Tensor g = decayed(gradient, p, options_.weight_decay);
  Tensor &mean = state["exp_avg"][i], &largest = state["exp_inf"][i];
  Tensor m = averaged(mean, g, options_.beta1);
  Tensor u = (largest * options_.beta2).maximum(g.abs() + options_.eps);
  put(mean, m);
  put(largest, u);
  return p - m / u * rate_;
}

NAdam::NAdam(std::vector<Tensor> parameters, const NAdamOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("NAdam", where);
  expect_betas(o.beta1, o.beta2, o.eps, o.weight_decay);
  nn::expect_at_least_0(o.momentum_decay, "momentum decay");
  add_state("exp_avg");
  add_state("exp_avg_sq");
  state["mu_product"].push_back(tensor(1.0, {DType::f64, params[0].device()}));
  count_steps();
}

void NAdam::begin_step() {
  Tensor t = wide(steps) + 1, &product = state["mu_product"][0];
  auto momentum = [&](const Tensor& at) {
    return (1 - (at * (options_.momentum_decay * std::log(0.96))).exp() * 0.5) * options_.beta1;
  };
  Tensor mu = momentum(t), next = momentum(t + 1), so_far = product * mu;
  put(product, so_far);
  gradient_rate_ = lr * narrow((1 - mu) / (1 - so_far));
  mean_rate_ = lr * narrow(next / (1 - so_far * next));
  root_scale_ = narrow(correction(options_.beta2, t).rsqrt());
}

Tensor NAdam::update(size_t i, const Tensor& p, const Tensor& gradient) {
  Tensor g = decayed(gradient, p, options_.weight_decay);
  Tensor &mean = state["exp_avg"][i], &square = state["exp_avg_sq"][i];
  Tensor m = averaged(mean, g, options_.beta1), v = averaged(square, g * g, options_.beta2);
  put(mean, m);
  put(square, v);
  return p - (g * gradient_rate_ + m * mean_rate_) / (v.sqrt() * root_scale_ + options_.eps);
}

RAdam::RAdam(std::vector<Tensor> parameters, const RAdamOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("RAdam", where);
  expect_betas(o.beta1, o.beta2, o.eps, o.weight_decay);
  add_state("exp_avg");
  add_state("exp_avg_sq");
  count_steps();
}

void RAdam::begin_step() {
  Tensor t = wide(steps) + 1, corrected = correction(options_.beta2, t);
  const double most = 2 / (1 - options_.beta2) - 1;
  Tensor length = most - t * 2 * (t * std::log(options_.beta2)).exp() / corrected;
  Tensor ratio = (length - 4) * (length - 2) / length * (most / ((most - 4) * (most - 2)));
  is_rectified_ = length > 5.0;
  rectified_ = narrow((corrected * ratio.clamp_min(0)).sqrt());
  mean_scale_ = lr / narrow(correction(options_.beta1, t));
}

Tensor RAdam::update(size_t i, const Tensor& p, const Tensor& gradient) {
  Tensor g = decayed(gradient, p, options_.weight_decay);
  Tensor &mean = state["exp_avg"][i], &square = state["exp_avg_sq"][i];
  Tensor m = averaged(mean, g, options_.beta1), v = averaged(square, g * g, options_.beta2);
  put(mean, m);
  put(square, v);
  Tensor scale = (rectified_ / (v.sqrt() + options_.eps)).where(is_rectified_, 1.0);
  return p - m * mean_scale_ * scale;
}

ASGD::ASGD(std::vector<Tensor> parameters, const ASGDOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("ASGD", where);
  nn::expect_at_least_0(o.weight_decay, "weight decay");
  add_state("ax");
  count_steps();
}

void ASGD::begin_step() {
  Tensor slower = 1 + lr * steps * options_.lambd;
  rate_ = lr / slower.pow(options_.alpha);
  share_ = (steps - options_.t0).clamp_min(1).reciprocal();
}

Tensor ASGD::update(size_t i, const Tensor& p, const Tensor& gradient) {
  Tensor g = decayed(gradient, p, options_.weight_decay);
  Tensor& mean = state["ax"][i];
  Tensor next = p * (1 - rate_ * options_.lambd) - g * rate_;
  put(mean, next.where(share_.eq(1), mean + (next - mean) * share_));
  return next;
}

Rprop::Rprop(std::vector<Tensor> parameters, const RpropOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, {o.flat, o.master_weights, o.maximize}, where),
      options_(o) {
  OuterCall call("Rprop", where);
  expect(o.eta_minus > 0 && o.eta_minus < 1 && o.eta_plus > 1,
         "needs 0 < eta_minus < 1 < eta_plus, got ", o.eta_minus, " and ", o.eta_plus);
  add_state("prev");
  add_state("step_size", o.lr);
}

Tensor Rprop::update(size_t i, const Tensor& p, const Tensor& g) {
  Tensor &before = state["prev"][i], &size = state["step_size"][i];
  Tensor agrees = g * before, turned = agrees < 0.0;
  Tensor factor = where(agrees > 0.0, options_.eta_plus, where(turned, options_.eta_minus, 1.0));
  Tensor next = (size * factor).clamp(options_.step_size_min, options_.step_size_max);
  Tensor used = where(turned, 0.0, g);
  put(size, next);
  put(before, used);
  return p - used.sign() * next;
}

}  // namespace mote::optim
