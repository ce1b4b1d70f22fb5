// Normalisation layers.
#include "nn/module_call.h"

namespace mote::nn {

BatchNorm::BatchNorm(int64_t channels, const Options& o, bool affine, bool track_running_stats,
                     Loc where) {
  ModuleCall call("BatchNorm", where);
  expect_sizes({channels});
  if (affine) {
    weight = full_parameter(channels, 1, o);
    bias = full_parameter(channels, 0, o);
  }
  if (!track_running_stats) return;
  running_mean = full_buffer(channels, 0, o);
  running_var = full_buffer(channels, 1, o);
  num_batches_tracked = full_buffer(Sizes{}, 0, {DType::i64, o.device});
}
Tensor BatchNorm::operator()(const Tensor& x, Loc where) const {
  ModuleCall call("BatchNorm", where);
  if (training && num_batches_tracked.defined()) Tensor(num_batches_tracked).add_(1);
  bool by_batch = training || !running_mean.defined();
  return x.batch_norm(running_mean, running_var, weight, bias,
                      {.training = by_batch, .momentum = momentum, .eps = eps});
}

LayerNorm::LayerNorm(const Ints& shape, double epsilon, bool affine, const Options& o,
                     bool with_bias, Loc where)
    : normalized_shape(shape), eps(epsilon) {
  ModuleCall call("LayerNorm", where);
  expect_sizes(shape.list);
  if (!affine) return;
  weight = full_parameter(shape.list, 1, o);
  if (with_bias) bias = full_parameter(shape.list, 0, o);
}
Tensor LayerNorm::operator()(const Tensor& x, Loc where) const {
  ModuleCall call("LayerNorm", where);
  return x.layer_norm(normalized_shape, weight, bias, eps);
}

RMSNorm::RMSNorm(const Ints& shape, double epsilon, const Options& o, bool affine, Loc where)
    : normalized_shape(shape), eps(epsilon) {
  ModuleCall call("RMSNorm", where);
  expect_sizes(shape.list);
  if (affine) weight = full_parameter(shape.list, 1, o);
}
Tensor RMSNorm::operator()(const Tensor& x, Loc where) const {
  ModuleCall call("RMSNorm", where);
  return x.rms_norm(normalized_shape, weight, eps);
}

GroupNorm::GroupNorm(int64_t num_groups, int64_t channels, double epsilon, bool affine,
                     const Options& o, Loc where)
    : groups(num_groups), eps(epsilon) {
  ModuleCall call("GroupNorm", where);
  expect_sizes({channels});
  expect(num_groups > 0 && channels % num_groups == 0, channels,
         " channels cannot be divided into ", num_groups, " groups");
  if (!affine) return;
  weight = full_parameter(channels, 1, o);
  bias = full_parameter(channels, 0, o);
}
Tensor GroupNorm::operator()(const Tensor& x, Loc where) const {
  ModuleCall call("GroupNorm", where);
  return x.group_norm(groups, weight, bias, eps);
}

InstanceNorm::InstanceNorm(int64_t channels, double epsilon, bool affine, const Options& o,
                           Loc where)
    : eps(epsilon) {
  ModuleCall call("InstanceNorm", where);
  expect_sizes({channels});
  if (!affine) return;
  weight = full_parameter(channels, 1, o);
  bias = full_parameter(channels, 0, o);
}
Tensor InstanceNorm::operator()(const Tensor& x, Loc where) const {
  ModuleCall call("InstanceNorm", where);
  return x.instance_norm(weight, bias, eps);
}

}  // namespace mote::nn
