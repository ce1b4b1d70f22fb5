// Statistics, areas under curves, distances, and products that are sums of others.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tensor/given.h"
#include "tensor/operators.h"

namespace mote {

namespace {

// Differences of neighbours, and sums of them, along the last axis.
Tensor front(const Tensor& t) { return t.narrow(-1, 0, t.size(-1) - 1); }
Tensor back(const Tensor& t) { return t.narrow(-1, 1, t.size(-1) - 1); }

// The areas between neighbours of the last axis; dx is a number or as wide as they.
Tensor strips(const Tensor& y, const Operand& dx) { return mul(front(y) + back(y), dx) * 0.5; }

Tensor widths(const Tensor& x, const Tensor& y, int64_t axis) {
  expect_defined(x, "the positions");
  Tensor moved = x.dim() == 1 ? x : x.movedim(axis, -1);
  expect(moved.dim() <= y.dim() && x.size(-1) > 0 && moved.size(-1) == y.size(axis),
         "positions of shape ", x, " do not fit values of shape ", y);
  return back(moved) - front(moved);
}

template <class Strips>
Tensor area(const Tensor& y, int64_t dim, bool running, Strips strips_of) {
  const int64_t axis = to_axis(dim, y.dim());
  expect(y.dim() > 0, "needs a tensor with axes");
  Tensor rows = y.to(float_dtype(y.dtype())).movedim(axis, -1);
  if (rows.size(-1) < 2) return running ? y.narrow(axis, 0, 0).clone() : rows.sum(-1) * 0;
  Tensor parts = strips_of(rows, axis);
  return running ? parts.cumsum(-1).movedim(-1, axis).clone() : parts.sum(-1);
}

// Which products to take first: the fewest multiplications, by the size of every stretch.
struct Chain {
  std::vector<int64_t> sizes;
  std::map<std::pair<size_t, size_t>, std::pair<double, size_t>> best;

  std::pair<double, size_t> of(size_t first, size_t last) {
    if (first == last) return {0, first};
    if (auto it = best.find({first, last}); it != best.end()) return it->second;
    std::pair<double, size_t> least = {std::numeric_limits<double>::infinity(), first};
    for (size_t cut = first; cut < last; ++cut) {
      const double own = static_cast<double>(sizes[first]) * static_cast<double>(sizes[cut + 1]) *
                         static_cast<double>(sizes[last + 1]);
      const double cost = of(first, cut).first + of(cut + 1, last).first + own;
      if (cost < least.first) least = {cost, cut};
    }
    return best[{first, last}] = least;
  }
  Tensor product(const std::vector<Tensor>& m, size_t first, size_t last) {
    if (first == last) return m[first];
    const size_t cut = of(first, last).second;
    return product(m, first, cut).matmul(product(m, cut + 1, last));
  }
};

void expect_floats(const Tensor& x, const Tensor& y) {
  expect_defined(x, "the first operand");
  expect_defined(y, "the second operand");
  expect(x.is_floating_point() && y.is_floating_point(), "needs float tensors, got ", x.dtype(),
         " and ", y.dtype());
  common_device({&x, &y});
}

}  // namespace

std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Axes& axes, double correction,
                                   bool keepdim, Loc where) {
  Call call("var_mean", where);
  return {x.var(axes, correction, keepdim), x.mean(axes, keepdim)};
}
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Axes& axes, double correction,
                                   bool keepdim, Loc where) {
  Call call("std_mean", where);
  return {x.std(axes, correction, keepdim), x.mean(axes, keepdim)};
}

Tensor Tensor::nanmean(const Axes& axes, bool keepdim, Loc where) const {
  Call call("nanmean", where);
  expect(is_floating_point(), "needs a float tensor, got ", dtype());
  Tensor x = to(accumulator(dtype())), count = isnan().logical_not().to(x.dtype());
  return (x.nansum(axes, keepdim) / count.sum(axes, keepdim)).to(dtype());
}

Tensor Tensor::cov(double correction, Loc where) const {
  Call call("cov", where);
  expect(dim() <= 2, "needs at most two axes, got shape ", *this);
  Tensor x = to(accumulator(float_dtype(dtype())));
  if (dim() < 2) x = x.reshape({1, numel()});
  Tensor centred = x - x.mean(1, true);
  const double free = std::max(0.0, static_cast<double>(x.size(1)) - correction);
  Tensor out = (centred.matmul(centred.t()) / free).to(float_dtype(dtype()));
  return dim() < 2 ? out.reshape({}) : out;
}
Tensor Tensor::corrcoef(Loc where) const {
  Call call("corrcoef", where);
  Tensor c = cov();
  if (dim() < 2) return c / c;
  Tensor scale = c.diagonal().sqrt();
  return (c / scale.unsqueeze(1) / scale).clamp(-1, 1);
}

Tensor trapezoid(const Tensor& y, double dx, int64_t dim, Loc where) {
  Call call("trapezoid", where);
  return area(y, dim, false, [&](const Tensor& rows, int64_t) { return strips(rows, dx); });
}
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim, Loc where) {
  Call call("trapezoid", where);
  return area(y, dim, false,
              [&](const Tensor& rows, int64_t axis) { return strips(rows, widths(x, y, axis)); });
}
Tensor cumulative_trapezoid(const Tensor& y, double dx, int64_t dim, Loc where) {
  Call call("cumulative_trapezoid", where);
  return area(y, dim, true, [&](const Tensor& rows, int64_t) { return strips(rows, dx); });
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim, Loc where) {
  Call call("cumulative_trapezoid", where);
  return area(y, dim, true,
              [&](const Tensor& rows, int64_t axis) { return strips(rows, widths(x, y, axis)); });
}

Tensor Tensor::dist(const Tensor& other, double p, Loc where) const {
  Call call("dist", where);
  expect_floats(*this, other);
  return (*this - other).norm(p);
}
Tensor cdist(const Tensor& x, const Tensor& y, double p, Loc where) {
  Call call("cdist", where);
  expect_floats(x, y);
  expect(p >= 0, "needs a norm of p >= 0, got ", p);
  expect(x.dim() >= 2 && y.dim() >= 2 && x.size(-1) == y.size(-1), "needs rows of one size, got ",
         "shapes ", x, " and ", y);
  return (x.unsqueeze(-2) - y.unsqueeze(-3)).norm(p, -1);
}
Tensor pdist(const Tensor& x, double p, Loc where) {
  Call call("pdist", where);
  expect_floats(x, x);
  expect(x.dim() == 2, "needs a matrix, got shape ", x);
  expect(p >= 0, "needs a norm of p >= 0, got ", p);
  Tensor pairs = triu_indices(x.size(0), x.size(0), 1, {DType::i64, x.device()});
  return (x.index_select(0, pairs.select(0, 0)) - x.index_select(0, pairs.select(0, 1)))
      .norm(p, -1);
}
Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p, double eps, bool keepdim,
                         Loc where) {
  Call call("pairwise_distance", where);
  expect_floats(x, y);
  return (x - y + eps).norm(p, -1, keepdim);
}

// The factor does not follow from a norm that is small enough.
Tensor Tensor::renorm(double p, int64_t dim, double maxnorm, Loc where) const {
  Call call("renorm", where);
  expect(is_floating_point(), "needs a float tensor, got ", dtype());
  expect(p > 0 && maxnorm >= 0, "needs p > 0 and maxnorm >= 0, got ", p, " and ", maxnorm);
  expect(this->dim() >= 2, "needs at least two axes, got shape ", *this);
  std::vector<int64_t> over = range_of(this->dim());
  over.erase(over.begin() + to_axis(dim, this->dim()));
  Tensor x = to(accumulator(dtype())), size = x.norm(p, over, true), above = size > maxnorm;
  Tensor factor = mote::where(above, maxnorm / (mote::where(above, size, 1) + 1e-7), 1);
  return (x * factor).to(dtype());
}

Tensor Tensor::addbmm(const Tensor& a, const Tensor& b, Number beta, Number alpha,
                      Loc where) const {
  Call call("addbmm", where);
  return *this * beta + a.bmm(b).sum(0, false, a.dtype()) * alpha;
}
Tensor Tensor::baddbmm(const Tensor& a, const Tensor& b, Number beta, Number alpha,
                       Loc where) const {
  Call call("baddbmm", where);
  return *this * beta + a.bmm(b) * alpha;
}
Tensor Tensor::addmv(const Tensor& a, const Tensor& vec, Number beta, Number alpha,
                     Loc where) const {
  Call call("addmv", where);
  return *this * beta + a.mv(vec) * alpha;
}
Tensor Tensor::addr(const Tensor& a, const Tensor& b, Number beta, Number alpha, Loc where) const {
  Call call("addr", where);
  return *this * beta + a.outer(b) * alpha;
}

Tensor Tensor::inner(const Tensor& other, Loc where) const {
  Call call("inner", where);
  expect_defined(other, "the other tensor");
  if (dim() == 0 || other.dim() == 0) return *this * other;
  expect(dims_of(*this).back() == dims_of(other).back(), "the last axes of ", *this, " and ", other,
         " differ");
  return tensordot(other, -1, -1);
}

Tensor Tensor::tensordot(const Tensor& other, const Axes& axes, const Axes& others,
                         Loc where) const {
  Call call("tensordot", where);
  expect(axes.list.size() == others.list.size(), "contracts ", axes.list.size(), " axes with ",
         others.list.size());
  auto apart = [](const Tensor& t, const Axes& named, bool named_last) {
    std::vector<int64_t> over, rest;
    for (int64_t axis : named.list) over.push_back(to_axis(axis, t.dim()));
    for (int64_t i = 0; i < t.dim(); ++i)
      if (!std::count(over.begin(), over.end(), i)) rest.push_back(i);
    std::vector<int64_t>&first = named_last ? rest : over, &last = named_last ? over : rest;
    first.insert(first.end(), last.begin(), last.end());
    return t.permute(first);
  };
  return apart(*this, axes, true)
      .tensordot(apart(other, others, false), static_cast<int64_t>(axes.list.size()));
}

Tensor Tensor::cross(const Tensor& other, int64_t dim, Loc where) const {
  Call call("cross", where);
  expect_defined(other, "the other tensor");
  std::vector<Dim> both = broadcast_dims(dims_of(*this), dims_of(other));
  Tensor a = broadcast_tensor(*this, both), b = broadcast_tensor(other, both);
  const int64_t axis = to_axis(dim, a.dim());
  expect(a.dim() > 0 && a.size(axis) == 3, "axis ", dim, " of shapes ", *this, " and ", other,
         " must have size 3");
  return a.roll(-1, axis) * b.roll(-2, axis) - a.roll(-2, axis) * b.roll(-1, axis);
}

Tensor chain_matmul(const std::vector<Tensor>& matrices, Loc where) {
  Call call("chain_matmul", where);
  expect(!matrices.empty(), "needs at least one matrix");
  Chain chain;
  for (const Tensor& m : matrices) {
    expect_defined(m, "a matrix");
    expect(m.dim() == 2, "needs matrices, got shape ", m);
    expect(chain.sizes.empty() || chain.sizes.back() == m.size(0), "a matrix of shape ", m,
           " does not fit the one before");
    if (chain.sizes.empty()) chain.sizes.push_back(m.size(0));
    chain.sizes.push_back(m.size(1));
  }
  if (matrices.size() == 1) return matrices[0].clone();
  return chain.product(matrices, 0, matrices.size() - 1);
}

Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias,
                Loc where) {
  Call call("bilinear", where);
  expect_floats(x, y);
  expect_defined(weight, "the weight");
  expect(weight.dim() == 3 && x.dim() > 0 && y.dim() == x.dim() && x.size(-1) == weight.size(1) &&
             y.size(-1) == weight.size(2),
         "inputs of shapes ", x, " and ", y, " do not fit a weight of shape ", weight);
  const int64_t out = weight.size(0), m = weight.size(1), n = weight.size(2);
  // x W for every output, then the products with y.
  Tensor left = x.matmul(weight.permute({1, 0, 2}).reshape({m, out * n}));
  Tensor sum = (left.unflatten(-1, {out, n}) * y.unsqueeze(-2)).sum(-1, false, x.dtype());
  return bias.defined() ? sum + bias : sum;
}

}  // namespace mote
