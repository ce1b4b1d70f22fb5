#include <mote/optim.h>

#include <cmath>

#include "nn/module_call.h"

namespace mote::optim {

LossScaler::LossScaler(const LossScalerOptions& o, const std::string& device, Loc where)
    : options_(o) {
  OuterCall call("LossScaler", where);
  expect(o.init_scale > 0 && std::isfinite(o.init_scale), "needs a finite scale > 0, got ",
         o.init_scale);
  expect(o.growth_interval > 0, "needs an interval > 0, got ", o.growth_interval);
  expect(o.growth_factor > 1, "needs a growth factor > 1, got ", o.growth_factor);
  expect(o.backoff_factor > 0 && o.backoff_factor < 1,
         "needs a backoff factor between 0 and 1, got ", o.backoff_factor);
  factor = tensor(o.init_scale, {DType::f32, device});
  growth_tracker = tensor(0.0, {DType::f32, device});
}

Tensor LossScaler::scale(const Tensor& loss, Loc where) const {
  OuterCall call("scale", where);
  return loss * factor;
}

void LossScaler::unscale(Optimizer& opt, Loc where) {
  OuterCall call("unscale", where);
  opt.unscale_gradients(factor);
}

std::vector<Tensor> LossScaler::step(Optimizer& opt, Loc where) {
  return step(std::vector{&opt}, where);
}

std::vector<Tensor> LossScaler::step(const std::vector<Optimizer*>& opts, Loc where) {
  OuterCall call("step", where);
  expect(!opts.empty(), "needs at least one optimizer");
  Tensor finite = opts[0]->unscale_gradients(factor);
  for (size_t i = 1; i < opts.size(); ++i) finite = finite & opts[i]->unscale_gradients(factor);
  std::vector<Tensor> written;
  for (Optimizer* opt : opts)
    for (Tensor& t : opt->step_if(finite, where)) written.push_back(std::move(t));
  Tensor good = growth_tracker + 1;
  Tensor grows = good.ge(static_cast<double>(options_.growth_interval));
  Tensor more = factor * options_.growth_factor;
  Tensor grown = more.where(grows & more.isfinite(), factor);
  Tensor next = grown.where(finite, factor * options_.backoff_factor);
  Tensor tracked = good.where(finite & grows.logical_not(), 0.0);
  written.push_back(factor.assign(next));
  written.push_back(growth_tracker.assign(tracked));
  return written;
}

}  // namespace mote::optim
