#include <mote/optim.h>

#include <limits>

#include "nn/module_call.h"

namespace mote::optim {

LossScaler::LossScaler(const LossScalerOptions& o, const std::string& device, Loc where)
    : options_(o) {
  OuterCall call("LossScaler", where);
  expect(o.init_scale > 0 && o.growth_interval > 0, "needs a scale and an interval > 0, got ",
         o.init_scale, " and ", o.growth_interval);
  factor = tensor(o.init_scale, {DType::f32, device});
  growth_tracker = tensor(0.0, {DType::f32, device});
}

Tensor LossScaler::scale(const Tensor& loss, Loc where) const {
  OuterCall call("scale", where);
  return loss * factor;
}

void LossScaler::unscale(Optimizer& opt, Loc where) {
  OuterCall call("unscale", where);
  if (finite_.defined()) return;
  opt.scale_gradients(factor.reciprocal());
  finite_ = opt.gradients_are_finite();
}

std::vector<Tensor> LossScaler::step(Optimizer& opt, Loc where) {
  OuterCall call("step", where);
  unscale(opt, where);
  std::vector<Tensor> written = opt.step_if(finite_, where);
  Tensor good = growth_tracker + 1;
  Tensor grows = good.ge(static_cast<double>(options_.growth_interval));
  Tensor more = factor * options_.growth_factor;
  Tensor grown = more.where(grows & more.isfinite(), factor);
  Tensor next = grown.where(finite_, factor * options_.backoff_factor);
  Tensor tracked = good.where(finite_ & grows.logical_not(), 0.0);
  written.push_back(factor.assign(next));
  written.push_back(growth_tracker.assign(tracked));
  finite_ = {};
  return written;
}

}  // namespace mote::optim
