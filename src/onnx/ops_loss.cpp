// Losses.
#include "onnx/ops.h"

namespace mote::onnx {

namespace {

// The loss of each element (classes along axis 1), weighted, and folded as asked.
Tensor negative_log_likelihood(Call& c, const Tensor& x, size_t weight_at) {
  const Tensor target = c.x(1).cast(DType::i64);
  const int64_t classes = x.size(1);
  // A target that is left out may lie outside.
  const Tensor inside = target.clamp(0, classes - 1);
  Tensor loss = -x.gather(1, inside.unsqueeze(1)).squeeze({1});
  Tensor weight;
  if (c.has(weight_at))
    weight = c.x(weight_at).index_select(0, inside.reshape({-1})).reshape(target.shape());
  if (c.has("ignore_index")) {
    const Tensor left_out = target.eq(c.i("ignore_index", 0));
    weight = (weight.defined() ? weight : loss.ones_like()).masked_fill(left_out, 0);
    loss = loss.masked_fill(left_out, 0);
  }
  if (weight.defined()) loss = loss * weight;
  const std::string reduction = c.s("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction == "sum") return loss.sum();
  return weight.defined() ? loss.sum() / weight.sum() : loss.mean();
}

Outputs nll_loss(Call& c) { return {negative_log_likelihood(c, c.x(0), 2)}; }

Outputs softmax_cross_entropy(Call& c) {
  const Tensor log = c.x(0).log_softmax(1);
  return {negative_log_likelihood(c, log, 2), log};
}

constexpr OpRow rows[] = {
    {"NegativeLogLikelihoodLoss", 12, nll_loss             },
    {"SoftmaxCrossEntropyLoss",   12, softmax_cross_entropy},
};

}  // namespace

OpTable loss_ops() { return rows; }

}  // namespace mote::onnx
