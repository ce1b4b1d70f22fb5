// Losses by margins, distances and distributions.
#include <cmath>
#include <numbers>

#include "tensor/gather.h"
#include "tensor/given.h"
#include "tensor/operators.h"

namespace mote {

namespace {

Tensor reduced(const Tensor& t, Reduction r) {
  return r == Reduction::none ? t : r == Reduction::sum ? t.sum() : t.mean();
}

void expect_floats(const Tensor& x) {
  expect_defined(x, "the input");
  expect(x.is_floating_point(), "needs a float input, got ", x.dtype());
}
void expect_alike(const Tensor& x, const Tensor& target) {
  expect_floats(x);
  expect_defined(target, "the target");
  expect(dims_of(x) == dims_of(target), "input of shape ", x, " and target of shape ", target,
         " differ");
  common_device({&x, &target});
}

// What is above 0; slope 1 at 0.
Tensor excess(const Tensor& x) { return x.clamp_min(0); }

// (N, classes) of a row or of rows.
Tensor as_rows(const Tensor& x) {
  expect_floats(x);
  expect((x.dim() == 1 || x.dim() == 2) && x.size(-1) > 0,
         "needs an input (N, classes) or (classes), got shape ", x);
  return x.dim() == 1 ? x.unsqueeze(0) : x;
}

Tensor distance_of(const Tensor& x, const Tensor& y, double p, double eps) {
  return pairwise_distance(x, y, p, eps);
}

Tensor triplet(const Tensor& to_positive, const Tensor& to_negative, double margin,
               Reduction reduction) {
  return reduced(excess(to_positive - to_negative + margin), reduction);
}

}  // namespace

// Stirling's approximation of log(target!) where it is above 1.
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input, bool full,
                        double eps, Reduction reduction, Loc where) {
  Call call("poisson_nll_loss", where);
  expect_floats(x);
  expect_defined(target, "the target");
  Tensor losses = log_input ? x.exp() - target * x : x - target * (x + eps).log();
  if (full) {
    Tensor many = target > 1, t = mote::where(many, target, 1);
    Tensor stirling = t * t.log() - t + 0.5 * (t * (2 * std::numbers::pi)).log();
    losses = losses + mote::where(many, stirling, 0);
  }
  return reduced(losses, reduction);
}

// As in PyTorch the variance's bound does not count for its derivative.
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var, bool full,
                         double eps, Reduction reduction, Loc where) {
  Call call("gaussian_nll_loss", where);
  expect_floats(x);
  expect_defined(target, "the target");
  expect_defined(var, "the variance");
  expect(can_expand(dims_of(var), dims_of(x)) || var.dim() == x.dim() - 1, "a variance of shape ",
         var, " does not fit an input of shape ", x);
  Tensor given = can_expand(dims_of(var), dims_of(x)) ? var : var.unsqueeze(-1);
  Tensor raised = given + (given.clamp_min(eps) - given).detach();
  Tensor losses = 0.5 * (raised.log() + (x - target).square() / raised);
  if (full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(losses, reduction);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin,
                            Reduction reduction, Loc where) {
  Call call("hinge_embedding_loss", where);
  expect_floats(x);
  expect_defined(target, "the target");
  Tensor apart = mote::where(target.ne(1), excess(margin - x), 0);
  return reduced(apart + mote::where(target.ne(-1), x, 0), reduction);
}

Tensor margin_ranking_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                           Reduction reduction, Loc where) {
  Call call("margin_ranking_loss", where);
  expect_alike(x, y);
  expect_defined(target, "the target");
  return reduced(excess(-target * (x - y) + margin), reduction);
}

// log(1 + e^(-target x)) without overflow.
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction, Loc where) {
  Call call("soft_margin_loss", where);
  expect_alike(x, target);
  return reduced(-(target * x).logsigmoid(), reduction);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, int64_t p, double margin,
                         const Tensor& weight, Reduction reduction, Loc where) {
  Call call("multi_margin_loss", where);
  Tensor rows = as_rows(x);
  expect_defined(target, "the target");
  expect(p == 1 || p == 2, "p is 1 or 2, got ", p);
  expect(target.numel() == rows.size(0) && target.dim() <= 1, "input of shape ", x,
         " needs one class for each row, got shape ", target);
  expect_index(target);
  const int64_t classes = rows.size(1);
  expect(!weight.defined() || (weight.dim() == 1 && weight.size(0) == classes), "needs ", classes,
         " class weights");
  Tensor at = checked(target.reshape({rows.size(0), 1}), {Must::Class, dims_of(rows)[1]});
  Tensor part = (margin - gather_at(rows, 1, at) + rows).relu();
  if (p == 2) part = part.square();
  if (weight.defined())
    part = part * select_at(weight.to(rows.dtype()), 0, at.squeeze(1)).unsqueeze(1);
  Tensor own = arange(Number(classes), {DType::i64, x.device()}).eq(at);
  Tensor losses = mote::where(own, 0, part).sum(1) / classes;
  return reduced(x.dim() == 1 ? losses.squeeze(0) : losses, reduction);
}

// A row's targets end at the first -1. Each is held against every class that is none of them.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction,
                              Loc where) {
  Call call("multilabel_margin_loss", where);
  expect_alike(x, target);
  Tensor rows = as_rows(x),
         classes = as_rows(x).dim() == target.dim() ? target : target.unsqueeze(0);
  expect_index(classes);
  const int64_t count = rows.size(1);
  Tensor counts = (classes < 0).to_long().cumsum(1).eq(0);
  Tensor at = mote::where(counts, classes, 0);
  const Condition known = {Must::Class, dims_of(rows)[1], -1};
  if (!is_settled(classes, known))
    at = with_check(at, mote::where(classes.eq(-1), 0, classes), known);
  Tensor one_of =
      (arange(Number(count), {DType::i64, x.device()}).eq(at.unsqueeze(-1)) & counts.unsqueeze(-1));
  Tensor is_target = one_of.any(1);
  Tensor gap = (1 - gather_at(rows, 1, at).unsqueeze(-1) + rows.unsqueeze(1)).relu();
  Tensor taken = counts.unsqueeze(-1) & is_target.logical_not().unsqueeze(1);
  Tensor losses = mote::where(taken, gap, 0).sum(Axes{1, 2}) / count;
  return reduced(x.dim() == 1 ? losses.squeeze(0) : losses, reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   Reduction reduction, Loc where) {
  Call call("multilabel_soft_margin_loss", where);
  expect_alike(x, target);
  expect(x.dim() >= 1, "needs an input with a class axis");
  Tensor losses = -(target * x.logsigmoid() + (1 - target) * (-x).logsigmoid());
  if (weight.defined()) losses = losses * weight;
  return reduced(losses.mean(-1), reduction);
}

// As in PyTorch a little is added to the squared lengths.
Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target, double margin,
                             Reduction reduction, Loc where) {
  Call call("cosine_embedding_loss", where);
  expect_alike(x, y);
  expect_defined(target, "the target");
  expect((x.dim() == 2 && target.dim() == 1) || (x.dim() == 1 && target.dim() == 0),
         "needs inputs (N, D) and a target (N), or (D) and one number, got shapes ", x, " and ",
         target);
  constexpr double kLeast = 1e-12;
  Tensor lengths = (x.square().sum(-1) + kLeast) * (y.square().sum(-1) + kLeast);
  Tensor cosine = (x * y).sum(-1) / lengths.sqrt();
  Tensor alike = mote::where(target.eq(1), 1 - cosine, 0);
  return reduced(alike + mote::where(target.eq(-1), excess(cosine - margin), 0), reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, Reduction reduction,
                           Loc where) {
  Call call("triplet_margin_loss", where);
  expect_floats(anchor);
  Tensor near = distance_of(anchor, positive, p, eps), far = distance_of(anchor, negative, p, eps);
  if (swap) far = mote::minimum(far, distance_of(positive, negative, p, eps));
  return triplet(near, far, margin, reduction);
}
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative, Distance distance, double margin,
                                         bool swap, Reduction reduction, Loc where) {
  Call call("triplet_margin_with_distance_loss", where);
  expect(distance != nullptr, "needs a distance");
  Tensor near = distance(anchor, positive), far = distance(anchor, negative);
  if (swap) far = mote::minimum(far, distance(positive, negative));
  return triplet(near, far, margin, reduction);
}

// The forward variables of Graves: alpha[s] at time t is the logarithm of the probability that what
// was seen so far ends in place s of blank, c1, blank, c2, ..., blank.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, int64_t blank, Reduction reduction,
                bool zero_infinity, Loc where) {
  Call call("ctc_loss", where);
  expect_floats(log_probs);
  for (const Tensor* t : {&targets, &input_lengths, &target_lengths}) {
    expect_defined(*t, "an operand");
    expect_index(*t);
  }
  expect(log_probs.dim() == 3 && targets.dim() == 2 && targets.size(0) == log_probs.size(1),
         "needs log_probs (T, N, classes) and targets (N, S), got shapes ", log_probs, " and ",
         targets);
  const int64_t times = log_probs.size(0), count = log_probs.size(1), longest = targets.size(1);
  expect(input_lengths.numel() == count && target_lengths.numel() == count,
         "needs one length for each of ", count, " sequences");
  expect(blank >= 0 && blank < log_probs.size(2), "blank must be a class, got ", blank);
  expect(times > 0, "needs at least one time step");
  // Stands for log 0, and has derivatives.
  const double never = accumulator(log_probs.dtype()) == DType::f64 ? -1e305 : -1e37;
  const int64_t places = 2 * longest + 1;
  Tensor wide = log_probs.to(accumulator(log_probs.dtype()));
  Tensor lengths = target_lengths.reshape({count, 1});
  Tensor used = arange(Number(longest), {DType::i64, targets.device()}) < lengths;
  Tensor labels = checked(mote::where(used, targets, blank), {Must::Class, dims_of(log_probs)[2]});
  Tensor blanks = labels.full_like(blank);
  Tensor line = stack({blanks, labels}, -1).flatten(1).pad({0, 1}, "constant", blank);
  Tensor at = arange(Number(places), {DType::i64, targets.device()});
  // A label may follow another one directly, unless they are equal.
  Tensor skips = (at % 2).eq(1) & (at > 2) & line.ne(line.roll(2, 1));
  Tensor seen = gather_at(wide, 2, broadcast_tensor(line, std::vector<Dim>{times, count, places}));
  seen = seen.clamp_min(never);
  Tensor alpha = mote::where(at < mote::minimum(lengths * 2 + 1, 2), seen.select(0, 0), never);
  Tensor ends = input_lengths.reshape({count, 1});
  for (int64_t t = 1; t < times; ++t) {
    Tensor one = alpha.pad({1, -1}, "constant", never), two = alpha.pad({2, -2}, "constant", never);
    Tensor ways = stack({alpha, one, mote::where(skips, two, never)}, 0).logsumexp(0);
    alpha = mote::where(ends > t, (ways + seen.select(0, t)).clamp_min(never), alpha);
  }
  Tensor last = at.eq(lengths * 2) | at.eq(lengths * 2 - 1);
  Tensor total = mote::where(last, alpha, never).logsumexp(1);
  const double none = zero_infinity ? 0 : INFINITY;
  Tensor losses = mote::where(total < never / 2, none, -total);
  if (reduction == Reduction::mean)
    losses = losses / target_lengths.flatten().clamp_min(1).to(losses.dtype());
  return reduced(losses, reduction).to(log_probs.dtype());
}

}  // namespace mote
