// Losses.
#include "tensor/autocast.h"
#include "tensor/gather.h"
#include "tensor/given.h"
#include "tensor/operators.h"

namespace mote {

namespace {

Tensor reduced(const Tensor& t, Reduction r) {
  return r == Reduction::none ? t : r == Reduction::sum ? t.sum() : t.mean();
}

// d^2 / 2 near 0, linear from |d| = bound on. The square of what is far is not taken.
Tensor squared_below(const Tensor& d, double bound) {
  Tensor size = d.abs(), near = size < bound, small = where(near, d, 0);
  return where(near, small * small * 0.5, bound * (size - 0.5 * bound));
}

void expect_alike(const Tensor& input, const Tensor& target) {
  expect_defined(target, "the target");
  expect(dims_of(input) == dims_of(target), "input of shape ", input, " and target of shape ",
         target, " differ");
  common_device({&input, &target});
}

void check_classes(const Tensor& input, const Tensor& target, const CrossEntropyOptions& o) {
  expect_defined(target, "the target");
  expect(input.is_floating_point(), "needs a float input, got ", input.dtype());
  expect(input.dim() >= 1, "needs an input (N, classes, ...) or (classes)");
  int64_t classes = input.size(input.dim() == 1 ? 0 : 1);
  expect(!o.weight.defined() || (o.weight.dim() == 1 && o.weight.size(0) == classes), "needs ",
         classes, " class weights, got shape ",
         o.weight.defined() ? o.weight.shape() : std::vector<int64_t>{});
  expect(o.label_smoothing >= 0 && o.label_smoothing <= 1,
         "label_smoothing must be between 0 and 1, got ", o.label_smoothing);
  common_device({&input, &target, &o.weight});
}

// Class indices: the shape of the input without its class axis.
void check_indices(const Tensor& input, const Tensor& target, int64_t axis) {
  expect(is_int(target.dtype()), "class indices must be integers, got ", target.dtype());
  std::vector<Dim> wanted = dims_of(input);
  wanted.erase(wanted.begin() + axis);
  expect(dims_of(target) == wanted, "input of shape ", input, " needs a target of shape ", wanted,
         ", got ", target);
}

// -weight * log probability of the target class, smoothed towards all classes.
Tensor by_index(const Tensor& logs, const Tensor& target, const CrossEntropyOptions& o) {
  int64_t axis = logs.dim() == 1 ? 0 : 1;
  check_indices(logs, target, axis);
  Tensor counts = target.ne(o.ignore_index), classes = where(counts, target, 0);
  const Condition known = {Must::Class, dims_of(logs)[static_cast<size_t>(axis)], o.ignore_index};
  if (!is_settled(target, known)) classes = with_check(classes, classes, known);
  Tensor at = classes.unsqueeze(axis), losses = -gather_at(logs, axis, at).squeeze(axis);
  Tensor weights = counts.to(logs.dtype()), smooth;
  std::vector<int64_t> shape(static_cast<size_t>(logs.dim()), 1);
  if (o.weight.defined()) {
    shape[static_cast<size_t>(axis)] = o.weight.size(0);
    Tensor w = o.weight.to(logs.dtype());
    weights = weights * pick_last(w, classes.unsqueeze(-1));
    smooth = -(logs * w.reshape(shape)).sum(axis);
  } else if (o.label_smoothing > 0) {
    smooth = -logs.sum(axis);
  }
  losses = where(counts, losses * weights, 0);
  if (o.label_smoothing > 0) {
    Tensor spread = where(counts, smooth, 0) / logs.size(axis);
    losses = losses * (1 - o.label_smoothing) + spread * o.label_smoothing;
  }
  if (o.reduction == Reduction::mean) return losses.sum() / weights.sum();
  return reduced(losses, o.reduction);
}

Tensor by_probability(const Tensor& logs, const Tensor& target, const CrossEntropyOptions& o) {
  int64_t axis = logs.dim() == 1 ? 0 : 1;
  Tensor p = target.to(logs.dtype());
  if (o.label_smoothing > 0)
    p = p * (1 - o.label_smoothing) + o.label_smoothing / static_cast<double>(logs.size(axis));
  if (o.weight.defined()) {
    std::vector<int64_t> shape(static_cast<size_t>(logs.dim()), 1);
    shape[static_cast<size_t>(axis)] = o.weight.size(0);
    p = p * o.weight.to(logs.dtype()).reshape(shape);
  }
  Tensor losses = -(logs * p).sum(axis);
  if (o.reduction == Reduction::mean) return losses.sum() / static_cast<double>(losses.numel());
  return reduced(losses, o.reduction);
}

}  // namespace

Tensor Tensor::cross_entropy(const Tensor& target, const CrossEntropyOptions& o, Loc where) const {
  Call call("cross_entropy", where);
  if (Recast as{call}) return as(*this).cross_entropy(as(target), o, where);
  check_classes(*this, target, o);
  Tensor logs = to(accumulator(dtype())).log_softmax(dim() == 1 ? 0 : 1);
  bool probabilities = target.is_floating_point();
  expect(!probabilities || dims_of(target) == dims_of(*this), "class probabilities of shape ",
         target, " do not fit an input of shape ", *this);
  return (probabilities ? by_probability(logs, target, o) : by_index(logs, target, o)).to(dtype());
}
Tensor Tensor::cross_entropy(const Tensor& target, Loc where) const {
  return cross_entropy(target, {}, where);
}

Tensor Tensor::nll_loss(const Tensor& target, const CrossEntropyOptions& o, Loc where) const {
  Call call("nll_loss", where);
  if (Recast as{call}) return as(*this).nll_loss(target, o, where);
  check_classes(*this, target, o);
  expect(o.label_smoothing == 0, "has no label_smoothing; use cross_entropy");
  return by_index(to(accumulator(dtype())), target, o).to(dtype());
}
Tensor Tensor::nll_loss(const Tensor& target, Loc where) const {
  return nll_loss(target, {}, where);
}

// Logarithms are cut off at -100, as PyTorch's, so that a certain miss costs 100.
Tensor Tensor::binary_cross_entropy(const Tensor& target, const Tensor& weight, Reduction reduction,
                                    Loc where) const {
  Call call("binary_cross_entropy", where);
  if (Recast as{call})
    return as(*this).binary_cross_entropy(as(target), as(weight), reduction, where);
  expect_alike(*this, target);
  expect(is_floating_point(), "needs float probabilities, got ", dtype());
  Tensor p = to(accumulator(dtype())), wanted = target.to(p.dtype());
  Tensor hit = p.log().clamp_min(-100), miss = (1 - p).log().clamp_min(-100);
  Tensor losses = -(wanted * hit + (1 - wanted) * miss);
  // PyTorch's bound on p (1 - p), raised where the dtype cannot hold what it is divided by.
  const double least = dtype() == DType::f16 ? 0x1p-12 : 1e-12;
  losses = given(Given::BinaryCrossEntropy, losses, {p, wanted, p.full_like(least)});
  return reduced(weight.defined() ? losses * weight : losses, reduction).to(dtype());
}

// (1 - y) x + (1 + (p - 1) y) log(1 + e^-x), which never takes the logarithm of a probability.
Tensor Tensor::binary_cross_entropy_with_logits(const Tensor& target, const Tensor& weight,
                                                const Tensor& pos_weight, Reduction reduction,
                                                Loc where) const {
  Call call("binary_cross_entropy_with_logits", where);
  if (Recast as{call})
    return as(*this).binary_cross_entropy_with_logits(as(target), as(weight), as(pos_weight),
                                                      reduction, where);
  expect_alike(*this, target);
  expect(is_floating_point(), "needs float logits, got ", dtype());
  Tensor tail = -logsigmoid();
  if (pos_weight.defined()) tail = tail * ((pos_weight - 1) * target + 1);
  Tensor losses = (1 - target) * *this + tail;
  return reduced(weight.defined() ? losses * weight : losses, reduction);
}

Tensor Tensor::mse_loss(const Tensor& target, Reduction reduction, Loc where) const {
  Call call("mse_loss", where);
  if (Recast as{call}) return as(*this).mse_loss(as(target), reduction, where);
  expect_alike(*this, target);
  return reduced((*this - target).square(), reduction);
}
Tensor Tensor::l1_loss(const Tensor& target, Reduction reduction, Loc where) const {
  Call call("l1_loss", where);
  if (Recast as{call}) return as(*this).l1_loss(as(target), reduction, where);
  expect_alike(*this, target);
  return reduced((*this - target).abs(), reduction);
}
Tensor Tensor::smooth_l1_loss(const Tensor& target, double beta, Reduction reduction,
                              Loc where) const {
  Call call("smooth_l1_loss", where);
  if (Recast as{call}) return as(*this).smooth_l1_loss(as(target), beta, reduction, where);
  expect_alike(*this, target);
  expect(beta >= 0, "needs beta >= 0, got ", beta);
  Tensor d = *this - target;
  if (beta == 0) return reduced(d.abs(), reduction);
  return reduced(squared_below(d, beta) / beta, reduction);
}
Tensor Tensor::huber_loss(const Tensor& target, double delta, Reduction reduction,
                          Loc where) const {
  Call call("huber_loss", where);
  if (Recast as{call}) return as(*this).huber_loss(as(target), delta, reduction, where);
  expect_alike(*this, target);
  expect(delta > 0, "needs delta > 0, got ", delta);
  return reduced(squared_below(*this - target, delta), reduction);
}

Tensor Tensor::kl_div(const Tensor& target, Reduction reduction, bool log_target, bool batch_mean,
                      Loc where) const {
  Call call("kl_div", where);
  if (Recast as{call})
    return as(*this).kl_div(as(target), reduction, log_target, batch_mean, where);
  expect_alike(*this, target);
  const DType d = result_type(*this, target), wide = accumulator(float_dtype(d));
  Tensor x = to(wide), t = target.to(wide);
  Tensor losses = (log_target ? t.exp() * (t - x) : t.xlogy(t) - t * x).to(float_dtype(d));
  if (batch_mean) return losses.sum() / (dim() ? size(0) : 1);
  return reduced(losses, reduction);
}

}  // namespace mote
