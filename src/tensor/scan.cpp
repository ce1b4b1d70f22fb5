// Running folds, in blocks: a fold within each block, then of the blocks' totals, then both joined.
// A block of b costs b operations per element, so that large axes use small blocks on many levels.
#include <algorithm>
#include <limits>

#include "tensor/movement.h"

namespace mote {

namespace {

using prim::Extent;

// x with `before` and `after` identities around its last axis.
Ref extended(const Ref& x, int64_t before, int64_t after, const Ref& identity) {
  std::vector<Extent> amounts = nothing(x->shape->dims.size());
  amounts.back() = {before, after};
  Ref inside = prim::full(x->shape->dims, prim::constant(DType::boolean, int64_t{1}));
  Ref out = prim::pad(x, amounts);
  bool zero = identity->op == Op::Const && identity->arg.i == 0;  // the bits of +0.0 too
  return zero || out == x ? out : prim::where(prim::pad(inside, amounts), out, identity);
}

Ref last_axis_cut(const Ref& x, int64_t begin, int64_t end) {
  std::vector<Extent> bounds = whole(x->shape->dims);
  bounds.back() = {begin, end};
  return prim::shrink(x, bounds);
}

// Every element folds the window that ends at it.
Ref scan_block(Op op, const Ref& x, const Ref& identity) {
  int64_t n = x->shape->dims.back().size, axis = x->shape->rank() - 1;
  if (n == 1) return x;
  Ref seen = window_axis(extended(x, n - 1, 0, identity), axis, n, 1, 1);
  int64_t last = axis + 1;
  return prim::reshape(prim::reduce(op, seen, {&last, 1}), x->shape->dims);
}

constexpr int64_t kDirect = 32;

Ref scan(Op op, const Ref& x, const Ref& identity) {
  int64_t n = x->shape->dims.back().size;
  if (n <= kDirect) return scan_block(op, x, identity);
  int64_t width = n > (1 << 16) ? 4 : 16, blocks = (n + width - 1) / width;
  Ref even = extended(x, 0, blocks * width - n, identity);
  std::vector<Dim> dims = x->shape->dims, flat = dims;
  dims.back() = blocks;
  std::vector<Dim> totals_shape = dims;
  dims.push_back(width);
  Ref inner = prim::contiguous(scan_block(op, prim::reshape(even, dims), identity));
  Ref totals = prim::reshape(last_axis_cut(inner, width - 1, width), totals_shape);
  Ref carry = extended(last_axis_cut(scan(op, totals, identity), 0, blocks - 1), 1, 0, identity);
  dims.back() = 1;
  carry = prim::expand(prim::reshape(carry, dims), inner->shape->dims);
  flat.back() = blocks * width;
  return last_axis_cut(prim::reshape(prim::alu(op, {carry, inner}), flat), 0, n);
}

Tensor scanned(Op op, const Tensor& t, int64_t dim, const Number& identity) {
  if (t.numel() == 0 || t.dim() == 0) return t.clone();
  int64_t axis = to_axis(dim, t.dim());
  numeric_shape(t);
  Ref x = node_of(t.movedim(axis, -1));
  return make_value(scan(op, x, constant(t.dtype(), identity)), t).movedim(-1, axis).clone();
}

Tensor accumulated(Op op, const Tensor& t, int64_t dim, DType dtype) {
  DType out = dtype != DType::none ? dtype : is_float(t.dtype()) ? t.dtype() : DType::i64;
  to_axis(dim, t.dim());
  return scanned(op, t.to(accumulator(out)), dim, op == Op::Add ? 0 : 1).to(out);
}

Number lowest(DType d) {
  if (is_float(d)) return -std::numeric_limits<double>::infinity();
  return row(d).lo;
}
Number highest(DType d) {
  if (is_float(d)) return std::numeric_limits<double>::infinity();
  return d == DType::u64 ? int64_t{-1} : row(d).hi;
}

// The position is the last one so far that holds the extremum.
ValuesIndices extremes(Op op, const Tensor& t, int64_t dim) {
  if (t.dim() == 0) return {t.clone(), t.zeros_like(DType::i64)};
  int64_t axis = to_axis(dim, t.dim());
  Number identity = op == Op::Max ? lowest(t.dtype()) : highest(t.dtype());
  Tensor best = scanned(op, t, axis, identity), hit = t.eq(best);
  if (t.is_floating_point()) hit = hit | t.isnan();
  std::vector<Dim> along(static_cast<size_t>(t.dim()), Dim(1));
  along[static_cast<size_t>(axis)] = dims_of(t)[static_cast<size_t>(axis)];
  Tensor at =
      reshaped(iota_tensor(along[static_cast<size_t>(axis)], DType::i64, t.impl()->device), along);
  return {best, scanned(Op::Max, where(hit, at, -1), axis, -1)};
}

}  // namespace

Tensor Tensor::cumsum(int64_t dim, DType dtype, Loc where) const {
  Call call("cumsum", where);
  return accumulated(Op::Add, *this, dim, dtype);
}
Tensor Tensor::cumprod(int64_t dim, DType dtype, Loc where) const {
  Call call("cumprod", where);
  return accumulated(Op::Mul, *this, dim, dtype);
}
ValuesIndices Tensor::cummax(int64_t dim, Loc where) const {
  Call call("cummax", where);
  return extremes(Op::Max, *this, dim);
}
ValuesIndices Tensor::cummin(int64_t dim, Loc where) const {
  Call call("cummin", where);
  return extremes(Op::Min, *this, dim);
}

// Doubling steps: each element joins the one 1, 2, 4, ... before it.
Tensor Tensor::logcumsumexp(int64_t dim, Loc where) const {
  Call call("logcumsumexp", where);
  expect(is_floating_point(), "needs a float tensor, got ", dtype());
  int64_t axis = to_axis(dim, this->dim());
  if (this->dim() == 0 || numel() == 0) return clone();
  Tensor x = to(accumulator(dtype())).movedim(axis, -1);
  double nothing_yet = -std::numeric_limits<double>::infinity();
  for (int64_t step = 1, n = x.size(-1); step < n; step *= 2) {
    Tensor before = x.pad({step, -step}, "constant", nothing_yet);
    x = make_value(prim::contiguous(node_of(x.logaddexp(before))), x);
  }
  return x.movedim(-1, axis).to(dtype());
}

}  // namespace mote
