// Distributions made of uniform and normal numbers, and activations that draw.
#include <cmath>
#include <numbers>

#include "tensor/impl.h"
#include "tensor/operators.h"

namespace mote {

namespace {

void expect_probability(double p) {
  expect(p >= 0 && p <= 1, "needs a probability between 0 and 1, got ", p);
}
void expect_float(const Tensor& t) {
  expect(t.is_floating_point(), "needs a float tensor, got ", t.dtype());
}

// Of the exponential distribution: from numbers above 0, whose logarithm is finite.
Tensor waiting_like(const Tensor& t, DType d) { return -(1 - t.rand_like(d)).log(); }

// One number for each channel of (N, C, ...).
Tensor per_channel(const Tensor& x) {
  expect(x.dim() >= 2, "needs an input (N, C, ...), got shape ", x);
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[0] = x.size(0), shape[1] = x.size(1);
  return rand(shape, {DType::f32, x.device()});
}

Tensor drop_channels(const Tensor& x, double p, bool training, int64_t rank, bool batchless) {
  expect_probability(p);
  expect(x.dim() == rank || (batchless && x.dim() == rank - 1), "needs an input of ", rank,
         " axes, got shape ", x);
  if (!training || p == 0) return unchanged(x);
  expect_float(x);
  if (p == 1) return x * 0;
  Tensor batched = x.dim() == rank ? x : x.unsqueeze(0);
  Tensor out = where(per_channel(batched) >= p, batched * (1 / (1 - p)), 0);
  return x.dim() == rank ? out : out.squeeze(0);
}

// What selu gives far below 0 stands in for what is dropped; mean and variance stay.
Tensor drop_to_alpha(const Tensor& x, double p, bool training, bool channels) {
  expect_probability(p);
  if (!training || p == 0) return unchanged(x);
  expect_float(x);
  if (p == 1) return x * 0;
  constexpr double alpha = -1.7580993408473766;
  const double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p)), b = -a * alpha * p;
  Tensor u = channels ? per_channel(x) : x.rand_like(DType::f32);
  return where(u >= p, x, alpha) * a + b;
}

}  // namespace

Tensor& Tensor::bernoulli_(double p, Loc where) {
  Call call("bernoulli_", where);
  expect_probability(p);
  return assign(rand_like(DType::f64) < p);
}
Tensor& Tensor::exponential_(double rate, Loc where) {
  Call call("exponential_", where);
  expect_float(*this);
  expect(rate > 0, "needs a rate > 0, got ", rate);
  return assign(waiting_like(*this, DType::f64) / rate);
}
Tensor& Tensor::geometric_(double p, Loc where) {
  Call call("geometric_", where);
  expect(p > 0 && p < 1, "needs a probability between 0 and 1, got ", p);
  return assign((waiting_like(*this, DType::f64) / -std::log1p(-p)).ceil().clamp_min(1));
}
Tensor& Tensor::cauchy_(double median, double sigma, Loc where) {
  Call call("cauchy_", where);
  expect_float(*this);
  expect(sigma > 0, "needs sigma > 0, got ", sigma);
  Tensor angle = (rand_like(DType::f64) - 0.5) * std::numbers::pi;
  return assign(angle.tan() * sigma + median);
}
Tensor& Tensor::log_normal_(double mean, double std, Loc where) {
  Call call("log_normal_", where);
  expect_float(*this);
  expect(std > 0, "needs std > 0, got ", std);
  return assign((randn_like(DType::f64) * std + mean).exp());
}
Tensor& Tensor::random_(int64_t from, int64_t to, Loc where) {
  Call call("random_", where);
  return assign(randint(from, to, sizes(), {DType::i64, device()}));
}

Tensor randint_like(const Tensor& x, int64_t low, int64_t high, Loc where) {
  Call call("randint_like", where);
  expect_defined(x);
  return randint(low, high, x.sizes(), {x.dtype(), x.device()});
}
Tensor normal(const Tensor& mean, const Tensor& std, Loc where) {
  Call call("normal", where);
  expect_defined(mean, "the mean");
  expect_defined(std, "the deviation");
  expect_float(mean);
  Tensor all = broadcast_tensor(mean, broadcast_dims(dims_of(mean), dims_of(std)));
  return all + all.randn_like() * std;
}

// How many of a process with this rate come before 1: waiting times, as many as the largest of the
// rates needs with all but certainty, summed.
Tensor poisson(const Tensor& rate, Loc where) {
  Call call("poisson", where);
  expect_defined(rate, "the rate");
  expect_float(rate);
  if (rate.numel() == 0) return rate.clone();
  const double most = rate.max().item<double>();
  expect(rate.min().item<double>() >= 0 && most <= 1e6, "needs rates between 0 and 1e6, got ",
         most);
  const auto draws = static_cast<int64_t>(most + 12 * std::sqrt(most) + 40);
  std::vector<int64_t> shape = rate.shape();
  shape.push_back(draws);
  Tensor waits = waiting_like(zeros(shape, {DType::f64, rate.device()}), DType::f64);
  return (waits.cumsum(-1) < rate.unsqueeze(-1)).sum(-1).to(rate.dtype());
}

Tensor rrelu(const Tensor& x, double lower, double upper, bool training, Loc where) {
  Call call("rrelu", where);
  expect_defined(x);
  expect_float(x);
  expect(lower <= upper, "needs lower <= upper, got ", lower, " and ", upper);
  if (!training) return x.leaky_relu((lower + upper) / 2);
  return mote::where(x >= 0, x, x * (x.rand_like() * (upper - lower) + lower));
}

// The hard one has the derivatives of the soft one.
Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, int64_t dim, Loc where) {
  Call call("gumbel_softmax", where);
  expect_defined(logits, "the logits");
  expect_float(logits);
  expect(tau > 0, "needs a temperature > 0, got ", tau);
  Tensor wide = logits.to(accumulator(logits.dtype()));
  Tensor noise = -waiting_like(wide, wide.dtype()).clamp_min(1e-30).log();
  Tensor soft = ((wide + noise) / tau).softmax(dim);
  if (!hard) return soft.to(logits.dtype());
  const int64_t axis = to_axis(dim, soft.dim());
  Tensor best = soft.detach().argmax(axis).one_hot(soft.size(axis)).movedim(-1, axis);
  return (best.to(soft.dtype()) - soft.detach() + soft).to(logits.dtype());
}

Tensor alpha_dropout(const Tensor& x, double p, bool training, Loc where) {
  Call call("alpha_dropout", where);
  return drop_to_alpha(x, p, training, false);
}
Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, Loc where) {
  Call call("feature_alpha_dropout", where);
  return drop_to_alpha(x, p, training, true);
}
Tensor dropout1d(const Tensor& x, double p, bool training, Loc where) {
  Call call("dropout1d", where);
  return drop_channels(x, p, training, 3, true);
}
// Three axes are (N, C, L), as in PyTorch.
Tensor dropout2d(const Tensor& x, double p, bool training, Loc where) {
  Call call("dropout2d", where);
  if (x.dim() == 3) return drop_channels(x, p, training, 3, false);
  return drop_channels(x, p, training, 4, false);
}
Tensor dropout3d(const Tensor& x, double p, bool training, Loc where) {
  Call call("dropout3d", where);
  return drop_channels(x, p, training, 5, true);
}

}  // namespace mote
