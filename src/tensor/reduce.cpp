// Reductions, and what is built of them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/autocast.h"
#include "tensor/gather.h"
#include "tensor/given.h"
#include "tensor/recorded.h"

namespace mote {

namespace {

DType sum_dtype(const Tensor& t, DType wanted) {
  if (wanted != DType::none) return wanted;
  return is_float(t.dtype()) ? t.dtype() : DType::i64;
}

// Summed or multiplied in the accumulator of `dtype`, given in dtype.
Tensor accumulate(Op op, const Tensor& t, const Axes& axes, bool keepdim, DType dtype) {
  Tensor wide = t.to(accumulator(dtype));
  return reduce_tensor(op, wide, to_axes_or_all(axes, t.dim()), keepdim).to(dtype);
}

// How many elements a reduction over the axes folds, as a rank-0 tensor if symbolic sizes count.
Tensor count_over(const Tensor& t, const std::vector<int64_t>& axes, DType dtype) {
  std::vector<Dim> dims;
  for (int64_t axis : axes) dims.push_back(dims_of(t)[static_cast<size_t>(axis)]);
  Dim count = product(dims);
  return make_value(count.is_symbolic() ? prim::cast(index_node(count), dtype)
                                        : prim::constant(dtype, count.size),
                    t);
}

void expect_float(const Tensor& t) {
  expect(t.is_floating_point(), "needs a float tensor, got ", t.dtype());
}

void expect_elements(const Tensor& t, const std::vector<int64_t>& axes) {
  for (int64_t axis : axes)
    expect(dims_of(t)[static_cast<size_t>(axis)] != Dim(0), "axis ", axis, " of shape ", t,
           " is empty, so it has no largest or smallest element");
}

Tensor extremum(Op op, const Tensor& t, const Axes& axes, bool keepdim) {
  std::vector<int64_t> over = to_axes_or_all(axes, t.dim());
  expect_elements(t, over);
  return reduce_tensor(op, t, over, keepdim);
}

// The first position of the extremum; NaN is the extremum wherever there is one.
Tensor arg_extremum(Op op, const Tensor& t, int64_t dim, bool keepdim) {
  if (t.dim() == 0) return t.zeros_like(DType::i64);
  int64_t axis = to_axis(dim, t.dim());
  Tensor best = extremum(op, t, axis, true), hit = t.eq(best);
  if (t.is_floating_point()) hit = hit | t.isnan();
  const Dim& size = dims_of(t)[static_cast<size_t>(axis)];
  DType small = size.size < INT32_MAX ? DType::i32 : DType::i64;
  std::vector<Dim> along(static_cast<size_t>(t.dim()), Dim(1));
  along[static_cast<size_t>(axis)] = size;
  Tensor at = reshaped(iota_tensor(size, small, t.impl()->device), along);
  Tensor none = make_value(prim::cast(index_node(size - 1), small), t);  // there is always a hit
  Tensor first = reduce_tensor(Op::Min, where_tensor(hit, at, none), {&axis, 1}, keepdim);
  return first.to(DType::i64);
}

// The value is read at the position, so that of equal elements only that one has a gradient.
ValuesIndices extremum_at(Op op, const Tensor& t, int64_t dim, bool keepdim) {
  if (t.dim() == 0) return {t.clone(), t.zeros_like(DType::i64)};
  int64_t axis = to_axis(dim, t.dim());
  Tensor at = arg_extremum(op, t.detach(), axis, true), value = gather_at(t, axis, at);
  return keepdim ? ValuesIndices{value, at} : ValuesIndices{value.squeeze(axis), at.squeeze(axis)};
}

// PyTorch keeps bytes, which were its bools once.
Tensor truths(Op op, const Tensor& t, const Axes& axes, bool keepdim) {
  Tensor out = reduce_tensor(op, t.to_bool(), to_axes_or_all(axes, t.dim()), keepdim);
  return t.dtype() == DType::u8 ? out.to(DType::u8) : out;
}

Tensor euclidean(const Tensor& x, const std::vector<int64_t>& over, bool keepdim) {
  Tensor length = reduce_tensor(Op::Add, x * x, over, true).sqrt();
  length = given(Given::Euclidean, length, {x});
  return keepdim ? length : length.squeeze(over);
}

// In f64, as PyTorch: of data far from 0 an f32 holds no mean that is near enough.
Tensor variance(const Tensor& t, const Axes& axes, double correction, bool keepdim, bool root) {
  expect_float(t);
  std::vector<int64_t> over = to_axes_or_all(axes, t.dim());
  Tensor wide = t.to(DType::f64);
  Tensor centred = wide - wide.mean(over, true);
  Tensor sum = reduce_tensor(Op::Add, centred * centred, over, keepdim);
  Tensor free = (count_over(t, over, wide.dtype()) - correction).clamp_min(0);
  if (root) return (euclidean(centred, over, keepdim) / free.sqrt()).to(t.dtype());
  return (sum / free).to(t.dtype());
}

// sum(|x|^p)^(1/p) of sizes divided by the one that counts most, so that no power leaves the range;
// it does not depend on which. Zeros have the derivative 0, as in PyTorch.
Tensor general_norm(const Tensor& x, double p, const std::vector<int64_t>& over) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  Tensor none = x.eq(0), size = where(none, p < 0 ? inf : 0, x.abs()).detach();
  Tensor scale = reduce_tensor(p < 0 ? Op::Min : Op::Max, size, over, true);
  scale = where(scale.eq(0) | scale.isinf(), 1, scale);
  Tensor part = where(none, 1, x).abs() / scale, gone = none | part.eq(0);
  Tensor power = where(gone, p < 0 ? inf : 0, where(gone, 1, part).pow(p));
  Tensor sum = reduce_tensor(Op::Add, power, over, true), flat = sum.eq(p < 0 ? inf : 0);
  return scale * where(flat, sum.detach().pow(1 / p), where(flat, 1, sum).pow(1 / p));
}

}  // namespace

Tensor reduce_tensor(Op op, const Tensor& t, std::span<const int64_t> axes, bool keepdim) {
  Ref r = prim::reduce(op, node_of(t), axes);
  if (keepdim) return make_value(r, t);
  std::vector<Dim> dims;
  for (int64_t i = 0; i < t.dim(); ++i)
    if (!std::count(axes.begin(), axes.end(), i))
      dims.push_back(dims_of(t)[static_cast<size_t>(i)]);
  return make_value(prim::reshape(r, dims), t);
}

Tensor Tensor::sum(const Axes& axes, bool keepdim, DType dtype, Loc where) const {
  Call call("sum", where);
  if (Recast as{call}) return as(*this).sum(axes, keepdim, dtype, where);
  return accumulate(Op::Add, *this, axes, keepdim, sum_dtype(*this, dtype));
}
Tensor Tensor::nansum(const Axes& axes, bool keepdim, Loc where) const {
  Call call("nansum", where);
  return (is_floating_point() ? masked_fill(isnan(), 0) : *this).sum(axes, keepdim);
}
Tensor Tensor::prod(const Axes& axes, bool keepdim, DType dtype, Loc where) const {
  Call call("prod", where);
  if (Recast as{call}) return as(*this).prod(axes, keepdim, dtype, where);
  return accumulate(Op::Mul, *this, axes, keepdim, sum_dtype(*this, dtype));
}

Tensor Tensor::mean(const Axes& axes, bool keepdim, DType dtype, Loc where) const {
  Call call("mean", where);
  DType out = dtype == DType::none ? this->dtype() : dtype;
  expect(is_float(out), "needs a float tensor, got ", out);
  DType wide = accumulator(out);
  Tensor total = accumulate(Op::Add, to(out), axes, keepdim, wide);
  const Tensor y = (total / count_over(*this, to_axes_or_all(axes, dim()), wide)).to(out);
  return recorded("mean", y, {this}, [&] {
    std::vector<int64_t> ints = to_axes_or_all(axes, dim());
    ints.insert(ints.begin(), keepdim);
    return ints;
  });
}

Tensor Tensor::var(const Axes& axes, double correction, bool keepdim, Loc where) const {
  Call call("var", where);
  return variance(*this, axes, correction, keepdim, false);
}
Tensor Tensor::std(const Axes& axes, double correction, bool keepdim, Loc where) const {
  Call call("std", where);
  return variance(*this, axes, correction, keepdim, true);
}

Tensor Tensor::amax(const Axes& axes, bool keepdim, Loc where) const {
  Call call("amax", where);
  return extremum(Op::Max, *this, axes, keepdim);
}
Tensor Tensor::amin(const Axes& axes, bool keepdim, Loc where) const {
  Call call("amin", where);
  return extremum(Op::Min, *this, axes, keepdim);
}
Tensor Tensor::max(Loc where) const {
  Call call("max", where);
  return extremum(Op::Max, *this, {}, false);
}
Tensor Tensor::min(Loc where) const {
  Call call("min", where);
  return extremum(Op::Min, *this, {}, false);
}
Extremes Tensor::aminmax(const Axes& axes, bool keepdim, Loc where) const {
  Call call("aminmax", where);
  return {extremum(Op::Min, *this, axes, keepdim), extremum(Op::Max, *this, axes, keepdim)};
}
ValuesIndices Tensor::max(int64_t dim, bool keepdim, Loc where) const {
  Call call("max", where);
  return extremum_at(Op::Max, *this, dim, keepdim);
}
ValuesIndices Tensor::min(int64_t dim, bool keepdim, Loc where) const {
  Call call("min", where);
  return extremum_at(Op::Min, *this, dim, keepdim);
}
Tensor Tensor::argmax(Loc where) const {
  Call call("argmax", where);
  return arg_extremum(Op::Max, flatten(), 0, false);
}
Tensor Tensor::argmin(Loc where) const {
  Call call("argmin", where);
  return arg_extremum(Op::Min, flatten(), 0, false);
}
Tensor Tensor::argmax(int64_t dim, bool keepdim, Loc where) const {
  Call call("argmax", where);
  return arg_extremum(Op::Max, *this, dim, keepdim);
}
Tensor Tensor::argmin(int64_t dim, bool keepdim, Loc where) const {
  Call call("argmin", where);
  return arg_extremum(Op::Min, *this, dim, keepdim);
}

Tensor Tensor::any(const Axes& axes, bool keepdim, Loc where) const {
  Call call("any", where);
  return truths(Op::Max, *this, axes, keepdim);
}
Tensor Tensor::all(const Axes& axes, bool keepdim, Loc where) const {
  Call call("all", where);
  return truths(Op::Min, *this, axes, keepdim);
}
Tensor Tensor::count_nonzero(const Axes& axes, Loc where) const {
  Call call("count_nonzero", where);
  return to_bool().sum(axes);
}

// The maximum is taken out before exp; an infinite one cannot be.
Tensor Tensor::logsumexp(const Axes& axes, bool keepdim, Loc where) const {
  Call call("logsumexp", where);
  if (Recast as{call}) return as(*this).logsumexp(axes, keepdim, where);
  Tensor x = to(accumulator(float_dtype(dtype())));
  std::vector<int64_t> over = to_axes_or_all(axes, dim());
  Tensor top = reduce_tensor(Op::Max, x, over, true).detach();
  top = mote::where(top.isfinite(), top, 0);
  Tensor sum = reduce_tensor(Op::Add, (x - top).exp(), over, true);
  Tensor out = given(Given::Logsumexp, sum.log() + top, {x}).to(float_dtype(dtype()));
  return keepdim ? out : out.squeeze(over);
}

Tensor Tensor::norm(double p, const Axes& axes, bool keepdim, Loc where) const {
  Call call("norm", where);
  if (Recast as{call}) return as(*this).norm(p, axes, keepdim, where);
  expect_float(*this);
  Tensor x = to(accumulator(dtype()));
  std::vector<int64_t> over = to_axes_or_all(axes, dim());
  auto sum = [&](const Tensor& t) { return reduce_tensor(Op::Add, t, over, keepdim); };
  Tensor out;
  if (std::isinf(p))
    out = extremum(p > 0 ? Op::Max : Op::Min, x.abs(), over, keepdim);
  else if (p == 0)
    out = make_value(prim::flat_in(node_of(x), node_of(sum(x.ne(0).to(x.dtype())))), x);
  else if (p == 1)
    out = sum(x.abs());
  else if (p == 2)
    out = euclidean(x, over, keepdim);
  else
    out = keepdim ? general_norm(x, p, over) : general_norm(x, p, over).squeeze(over);
  return out.to(dtype());
}

Tensor Tensor::normalize(double p, int64_t dim, double eps, Loc where) const {
  Call call("normalize", where);
  if (Recast as{call}) return as(*this).normalize(p, dim, eps, where);
  Tensor x = to(accumulator(dtype()));  // f16 does not hold eps
  return (x / x.norm(p, dim, true).clamp_min(eps)).to(dtype());
}

Tensor Tensor::trace(Loc where) const {
  Call call("trace", where);
  if (Recast as{call}) return as(*this).trace(where);
  expect(dim() == 2, "needs a matrix, got shape ", *this);
  return diagonal().sum();
}

Tensor Tensor::softmax(int64_t dim, DType dtype, Loc where) const {
  Call call("softmax", where);
  if (Recast as{call}) return as(*this).softmax(dim, dtype, where);
  DType out = float_dtype(dtype == DType::none ? this->dtype() : dtype);
  Tensor x = to(accumulator(out));
  if (this->dim() == 0) return x.ones_like(out);
  int64_t axis = to_axis(dim, this->dim());
  Tensor e = (x - reduce_tensor(Op::Max, x, {&axis, 1}, true).detach()).exp();
  return recorded("softmax", (e / e.sum(axis, true)).to(out), {&x},
                  [&] { return std::vector<int64_t>{axis}; });
}

Tensor Tensor::log_softmax(int64_t dim, DType dtype, Loc where) const {
  Call call("log_softmax", where);
  if (Recast as{call}) return as(*this).log_softmax(dim, dtype, where);
  DType out = float_dtype(dtype == DType::none ? this->dtype() : dtype);
  Tensor x = to(accumulator(out));
  if (this->dim() == 0) return x.zeros_like(out);
  int64_t axis = to_axis(dim, this->dim());
  Tensor shifted = x - reduce_tensor(Op::Max, x, {&axis, 1}, true).detach();
  return recorded("log_softmax", (shifted - shifted.exp().sum(axis, true).log()).to(out), {&x},
                  [&] { return std::vector<int64_t>{axis}; });
}

Tensor Tensor::softmin(int64_t dim, Loc where) const {
  Call call("softmin", where);
  if (Recast as{call}) return as(*this).softmin(dim, where);
  return neg().softmax(dim);
}

}  // namespace mote
