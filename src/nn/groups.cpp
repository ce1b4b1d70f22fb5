// Several optimizers as one, and averages of weights.
#include <mote/optimizers.h>

#include "engine/realize.h"
#include "nn/module_call.h"

namespace mote::optim {

Groups::~Groups() {
  for (Group& g : groups_) delete g.optimizer;
}

Groups& Groups::add_owned(std::string name, Optimizer* optimizer, const Loc& where) {
  groups_.push_back({std::move(name), optimizer, 1});  // which deletes it
  OuterCall call("add", where);
  const double first = groups_[0].optimizer->lr.item<double>();
  if (first != 0) groups_.back().ratio = optimizer->lr.item<double>() / first;
  for (size_t i = 0; i + 1 < groups_.size(); ++i)
    for (const Tensor& p : groups_[i].optimizer->params)
      for (const Tensor& q : optimizer->params)
        expect(p.impl() != q.impl(), "a parameter of shape ", p, " is in two groups, '",
               groups_[i].name, "' and '", groups_.back().name, "'");
  return *this;
}

std::vector<Optimizer*> Groups::optimizers() const {
  std::vector<Optimizer*> out;
  for (const Group& g : groups_) out.push_back(g.optimizer);
  return out;
}

Optimizer& Groups::operator[](std::string_view name) {
  for (Group& g : groups_)
    if (g.name == name) return *g.optimizer;
  OuterCall call("Groups", Loc());
  fail_call("there is no group '", std::string(name), "'");
}

std::vector<Tensor> Groups::step(Loc where) {
  std::vector<Tensor> written;
  for (Group& g : groups_)
    for (Tensor& t : g.optimizer->step(where)) written.push_back(std::move(t));
  return written;
}

void Groups::zero_grad(bool set_to_none) {
  for (Group& g : groups_) g.optimizer->zero_grad(set_to_none);
}

std::vector<Tensor> Groups::gradients(Loc where) {
  std::vector<Tensor> out;
  for (Group& g : groups_)
    for (Tensor& t : g.optimizer->gradients(where)) out.push_back(std::move(t));
  return out;
}

void Groups::scale_gradients(const Tensor& factor, Loc where) {
  for (Group& g : groups_) g.optimizer->scale_gradients(factor, where);
}

Tensor Groups::clip_grad_norm(double max_norm, double norm_type, Loc where) {
  return optim::clip_grad_norm(optimizers(), max_norm, norm_type, where);
}

void Groups::clip_grad_value(double limit, Loc where) {
  for (Group& g : groups_) g.optimizer->clip_grad_value(limit, where);
}

void Groups::set_lr(double value, Loc where) {
  for (Group& g : groups_) g.optimizer->set_lr(value * g.ratio, where);
}

WeightAverage::WeightAverage(std::vector<Tensor> parameters, const AverageOptions& o, Loc where)
    : params(std::move(parameters)), options_(o) {
  OuterCall call("WeightAverage", where);
  expect(!params.empty(), "needs at least one parameter");
  nn::expect_below_1(o.decay, "decay");
  realize(params);
  for (const Tensor& p : params) averages.push_back(p.detach().clone());
  realize(averages);
  updates = tensor(0.0, {DType::f32, params[0].device()});
}

// The first update takes the weights as they are.
std::vector<Tensor> WeightAverage::update(Loc where) {
  OuterCall call("update", where);
  Tensor share = options_.decay == 0 ? (updates + 1).reciprocal()
                                     : full({}, 1 - options_.decay, {DType::f32, updates.device()});
  std::vector<Tensor> written;
  for (size_t i = 0; i < params.size(); ++i) {
    Tensor& mean = averages[i];
    const Tensor now = params[i].detach();
    Tensor moved = mean + (now - mean) * share.to(mean.dtype());
    written.push_back(mean.assign(mote::where(updates.eq(0), now, moved)));
  }
  written.push_back(updates.assign(updates + 1));
  return written;
}

void WeightAverage::swap(Loc where) {
  OuterCall call("swap", where);
  std::vector<Tensor> now = params;
  for (Tensor& t : now) t = t.detach().clone();
  realize(now);
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].assign(averages[i]);
    averages[i].assign(now[i]);
  }
  realize(params);
  realize(averages);
}

}  // namespace mote::optim
