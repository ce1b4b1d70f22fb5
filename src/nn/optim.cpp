#include <mote/optimizers.h>

#include <cmath>
#include <utility>

#include "engine/realize.h"
#include "nn/flat.h"
#include "nn/module_call.h"

namespace mote::optim {

namespace {

bool is_short(DType d) { return d == DType::f16 || d == DType::bf16; }

Tensor number(double value, const Tensor& like) {
  return tensor(value, {DType::f32, like.device()});
}

// join(join(of(g0), of(g1)), of(g2)) ... over the gradients there are.
template <class Of, class Join>
Tensor combined(const std::vector<Tensor>& gradients, Of of, Join join) {
  Tensor out;
  for (const Tensor& g : gradients)
    if (g.defined()) out = out.defined() ? join(out, of(g)) : of(g);
  expect(out.defined(), "no parameter has a gradient; call backward() first");
  return out;
}

}  // namespace

std::vector<Tensor>& State::operator[](std::string_view name) {
  for (Entry& e : entries_)
    if (e.name == name) return e.list;
  return entries_.emplace_back(Entry{std::string(name), {}}).list;
}

Optimizer::Optimizer(std::vector<Tensor> parameters, double learning_rate, const Keeping& keeping,
                     Loc where)
    : params(std::move(parameters)),
      master_weights_(keeping.master_weights),
      maximize_(keeping.maximize) {
  OuterCall call("optim", where);
  nn::expect_at_least_0(learning_rate, "learning rate");
  expect(!params.empty(), "needs at least one parameter");
  for (size_t i = 0; i < params.size(); ++i)
    expect(is_parameter(params[i]), "parameter ", i,
           " is not marked; call requires_grad_() on it first");
  realize(params);
  if (keeping.flat) joined_ = nn::join_parameters(params);
  lr = number(learning_rate, params[0]);
  if (keeping.master_weights) copy_short_parameters();
}

void Optimizer::copy_short_parameters() {
  std::vector<Tensor>& master = state["master"];
  std::vector<Tensor> copies;
  for (const Tensor& p : params) {
    master.push_back(is_short(p.dtype()) ? p.detach().to(DType::f32) : Tensor());
    if (!master.back().defined()) continue;
    give_storage(master.back());
    copies.push_back(master.back());
  }
  realize(copies);
}

// What is updated: the parameter, or its f32 copy.
Tensor& Optimizer::kept(size_t i) {
  if (!master_weights_) return params[i];
  Tensor& master = state["master"][i];
  return master.defined() ? master : params[i];
}

// The value of parameter i that the step begins with. Of a copy, elements of which the parameter is
// not the rounded value are out of date: the parameter was assigned to.
Tensor Optimizer::current(size_t i) {
  const Tensor &p = params[i], &master = kept(i);
  if (p.impl() == master.impl()) return p;
  return master.where(master.to(p.dtype()).eq(p), p.to(master.dtype()));
}

void Optimizer::add_state(const std::string& name, double start) {
  std::vector<Tensor>& list = state[name];
  for (size_t i = 0; i < params.size(); ++i) {
    list.push_back(
        nn::full_buffer(params[i].sizes(), start, {kept(i).dtype(), params[i].device()}));
    give_storage(list.back());
  }
  realize(list);
}

void Optimizer::count_steps() { steps = number(0, params[0]); }

std::vector<Tensor> Optimizer::step(Loc where) { return step_if({}, where); }

std::vector<Tensor> Optimizer::step_if(const Tensor& applies, Loc where) {
  OuterCall call("step", where);
  prepare();
  applies_ = applies;
  begin_step();
  for (size_t i = 0; i < params.size(); ++i) {
    if (!ready_[i].defined()) continue;
    Tensor& target = kept(i);
    Tensor next = update(i, current(i), maximize_ ? -ready_[i] : ready_[i]);
    put(target, next);
    if (target.impl() != params[i].impl()) put(params[i], next);
  }
  if (steps.defined()) put(steps, steps + 1);
  forget_gradients();
  applies_ = {};
  return std::exchange(written_, {});
}

void Optimizer::put(Tensor& target, const Tensor& value) {
  Tensor next = value.to(target.dtype());
  written_.push_back(target.assign(applies_.defined() ? next.where(applies_, target) : next));
}

void Optimizer::zero_grad(bool set_to_none) {
  forget_gradients();
  if (set_to_none)
    for (Tensor& p : params) p.zero_grad();
  else
    for (Tensor& g : gradients()) g.zero_();
}

void Optimizer::set_lr(double value, Loc where) {
  OuterCall call("set_lr", where);
  nn::expect_at_least_0(value, "learning rate");
  lr.assign(number(value, lr)).realize();
}

// ---- gradients

void Optimizer::gather() {
  for (const Tensor& p : joined_)
    if (p.grad().defined()) nn::gather_gradient(p);
}

void Optimizer::forget_gradients() {
  ready_.clear();
  finite_ = {};
}

std::vector<Tensor> Optimizer::gradients(Loc where) {
  OuterCall call("gradients", where);
  gather();
  std::vector<Tensor> out;
  for (const Tensor& p : params)
    if (Tensor g = p.grad(); g.defined()) {
      give_storage(g);  // so that the next backward adds in place
      out.push_back(g);
    }
  return out;
}

void Optimizer::prepare() {
  if (!ready_.empty()) return;
  gather();
  for (size_t i = 0; i < params.size(); ++i) {
    Tensor g = params[i].grad();
    ready_.push_back(g.defined() ? g.to(kept(i).dtype()) : g);
  }
}

void Optimizer::scale_gradients(const Tensor& factor, Loc where) {
  OuterCall call("scale_gradients", where);
  prepare();
  for (Tensor& g : ready_)
    if (g.defined()) g = g * factor;
}

void Optimizer::clip_grad_value(double limit, Loc where) {
  OuterCall call("clip_grad_value", where);
  prepare();
  for (Tensor& g : ready_)
    if (g.defined()) g = g.clamp(-limit, limit);
}

Tensor Optimizer::clip_grad_norm(double max_norm, double norm_type, Loc where) {
  return optim::clip_grad_norm({this}, max_norm, norm_type, where);
}

Tensor clip_grad_norm(const std::vector<Optimizer*>& all, double max_norm, double norm_type,
                      Loc where) {
  OuterCall call("clip_grad_norm", where);
  expect(!all.empty(), "needs at least one optimizer");
  std::vector<Tensor> gradients;
  for (Optimizer* o : all) {
    o->prepare();
    gradients.insert(gradients.end(), o->ready_.begin(), o->ready_.end());
  }
  bool largest = std::isinf(norm_type);
  auto of = [&](const Tensor& g) {
    Tensor norm = g.to(accumulator(g.dtype())).norm(norm_type);
    return largest ? norm : norm.pow(norm_type);
  };
  auto join = [&](const Tensor& a, const Tensor& b) { return largest ? a.maximum(b) : a + b; };
  Tensor total = combined(gradients, of, join);
  if (!largest) total = total.pow(1 / norm_type);
  const Tensor factor = (max_norm / (total + 1e-6)).clamp_max(1.0);
  for (Optimizer* o : all) o->scale_gradients(factor);
  return total;
}

Tensor Optimizer::gradients_are_finite(Loc where) {
  OuterCall call("gradients_are_finite", where);
  prepare();
  return combined(
      ready_, [](const Tensor& g) { return g.isfinite().all(); },
      [](const Tensor& a, const Tensor& b) { return a & b; });
}

// Unscaled in f32 or wider: what the scale kept within f16's range would leave it again.
Tensor Optimizer::unscale_gradients(const Tensor& scale, Loc where) {
  OuterCall call("unscale_gradients", where);
  if (finite_.defined()) return finite_;
  prepare();
  for (Tensor& g : ready_)
    if (g.defined()) g = g.to(accumulator(g.dtype()));
  scale_gradients(scale.reciprocal());
  return finite_ = gradients_are_finite();
}

}  // namespace mote::optim
