#include <mote/optim.h>

#include <cmath>

#include "nn/module_call.h"

namespace mote::optim {

Optimizer::Optimizer(std::vector<Tensor> parameters, double learning_rate, Loc where)
    : params(std::move(parameters)) {
  Call call("optim", where);
  expect(!params.empty(), "needs at least one parameter");
  for (size_t i = 0; i < params.size(); ++i)
    expect(is_parameter(params[i]), "parameter ", i,
           " is not marked; call requires_grad_() on it first");
  lr = tensor(learning_rate, {DType::f32, params[0].device()});
}

std::vector<Tensor> Optimizer::step(Loc where) {
  Call call("step", where);
  std::vector<Tensor> written;
  begin_step(written);
  for (size_t i = 0; i < params.size(); ++i)
    if (Tensor g = params[i].grad(); g.defined()) update(i, g, written);
  return written;
}

void Optimizer::zero_grad() {
  for (Tensor& p : params) p.zero_grad();
}

void Optimizer::set_lr(double value) {
  lr.assign(tensor(value, {DType::f32, lr.device()}));
}

std::vector<Tensor> Optimizer::state() const {
  std::vector<Tensor> out;
  for (const Tensor& p : params)
    out.push_back(nn::full_buffer(p.sizes(), 0, {p.dtype(), p.device()}));
  return out;
}

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, where), options_(o) {
  Call call("SGD", where);
  expect(!o.nesterov || o.momentum > 0, "nesterov needs a momentum > 0, got ", o.momentum);
  if (o.momentum != 0) momentum_buffer = state();
}

void SGD::update(size_t i, const Tensor& gradient, std::vector<Tensor>& written) {
  Tensor &p = params[i], g = gradient;
  if (options_.weight_decay != 0) g = g + p * options_.weight_decay;
  if (options_.momentum != 0) {
    Tensor& buffer = momentum_buffer[i];
    Tensor moved = buffer * options_.momentum + g;
    g = options_.nesterov ? g + moved * options_.momentum : moved;
    written.push_back(buffer.assign(moved));
  }
  written.push_back(p.assign(p - g * lr));
}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& o, Loc where)
    : Optimizer(std::move(parameters), o.lr, where),
      exp_avg(state()),
      exp_avg_sq(state()),
      options_(o) {
  steps = tensor(0.0, {DType::f32, params[0].device()});
}

// 1 - beta^t as -expm1(t ln beta): the difference itself would lose most digits at first.
void Adam::begin_step(std::vector<Tensor>& written) {
  Tensor t = steps + 1;
  auto correction = [&](double beta) { return -(t * std::log(beta)).expm1(); };
  step_size_ = (lr / correction(options_.beta1)).contiguous();
  root_scale_ = correction(options_.beta2).rsqrt().contiguous();
  written.push_back(steps.assign(t));
}

void Adam::update(size_t i, const Tensor& gradient, std::vector<Tensor>& written) {
  Tensor &p = params[i], g = decayed_gradient(p, gradient);
  Tensor m = exp_avg[i] + (g - exp_avg[i]) * (1 - options_.beta1);
  Tensor v = exp_avg_sq[i] * options_.beta2 + g * g * (1 - options_.beta2);
  Tensor change = m / (v.sqrt() * root_scale_ + options_.eps);
  written.push_back(p.assign(decayed_parameter(p) - change * step_size_));
  written.push_back(exp_avg[i].assign(m));
  written.push_back(exp_avg_sq[i].assign(v));
}

Tensor Adam::decayed_gradient(const Tensor& p, const Tensor& g) const {
  return options_.weight_decay == 0 ? g : g + p * options_.weight_decay;
}

Tensor AdamW::decayed_parameter(const Tensor& p) const {
  return p * (1 - lr * options_.weight_decay);
}

}  // namespace mote::optim
