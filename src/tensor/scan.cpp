// Running folds: every element folds those up to its own place, which a kernel does as it goes
// along the axis. A long axis without others beside it is cut into blocks: a running fold of their
// totals, then one within each that begins with what lies before it.
#include <algorithm>
#include <limits>

#include "base/integers.h"
#include "tensor/autocast.h"
#include "tensor/given.h"
#include "tensor/movement.h"

namespace mote {

namespace {

using prim::Extent;

// x with `before` and `after` identities around its last axis.
Ref extended(const Ref& x, const Dim& before, const Dim& after, const Ref& identity) {
  std::vector<Extent> amounts = nothing(x->shape->dims.size());
  amounts.back() = {before, after};
  Ref inside = prim::full(x->shape->dims, prim::constant(DType::boolean, int64_t{1}));
  Ref out = prim::pad(x, amounts);
  bool zero = identity->op == Op::Const && identity->arg.i == 0;  // the bits of +0.0 too
  return zero || out == x ? out : prim::where(prim::pad(inside, amounts), out, identity);
}

Ref last_axis_cut(const Ref& x, const Dim& begin, const Dim& end) {
  std::vector<Extent> bounds = whole(x->shape->dims);
  bounds.back() = {begin, end};
  return prim::shrink(x, bounds);
}

std::vector<Dim> with_last(std::vector<Dim> dims, std::initializer_list<Dim> last) {
  dims.pop_back();
  dims.insert(dims.end(), last);
  return dims;
}

// Along the whole axis: the fold of where(j <= i, x[j], identity) for every i.
Ref run_along(Op op, const Ref& x, const Ref& identity) {
  const Dim n = x->shape->dims.back();
  if (n == Dim(1)) return x;
  const std::vector<Dim> row = with_last(x->shape->dims, {Dim(1), n});
  const std::vector<Dim> all = with_last(x->shape->dims, {n, n});
  std::vector<Dim> along(all.size(), Dim(1)), across = along;
  along.back() = n, across[across.size() - 2] = n;
  const Ref j = prim::expand(prim::reshape(prim::iota(n), along), all);
  const Ref i = prim::expand(prim::reshape(prim::iota(n), across), all);
  const Ref later = prim::alu(Op::Lt, {i, j});
  const Ref seen = prim::expand(prim::reshape(x, row), all);
  const Ref some = prim::where(later, prim::expand(identity, all), seen);
  const int64_t last = x->shape->rank();
  return prim::reshape(prim::reduce(op, some, {&last, 1}), x->shape->dims);
}

// One row is done element by element, each of which waits for the one before; several rows at once
// are not.
constexpr int64_t kBlock = 1024, kAtOnce = 4, kManyRows = 4 * kAtOnce;

// The size of a block: one that leaves no rest, if there is one, for then the blocks lie in memory
// as the result does, and nothing is copied.
int64_t block_of(const Dim& n) {
  for (int64_t size = 2 * kBlock; size >= kBlock / 4 && !n.is_symbolic(); --size)
    if (n.size % (size * kAtOnce) == 0) return size;
  return kBlock;
}

Ref scan(Op op, const Ref& x, const Ref& identity) {
  const Dim n = x->shape->dims.back();
  if (n.size <= 4 * kBlock || x->shape->count() >= kManyRows * n.size)
    return run_along(op, x, identity);
  const int64_t block = block_of(n);
  const Dim count = (n + kAtOnce * block - 1) / (kAtOnce * block) * kAtOnce;
  Ref even = extended(x, 0, count * block - n, identity);
  even = prim::reshape(even, with_last(x->shape->dims, {count, Dim(block)}));
  const std::vector<Dim> dims = even->shape->dims;
  const int64_t last = even->shape->rank() - 1;
  const Ref totals =
      prim::reshape(prim::reduce(op, even, {&last, 1}), with_last(x->shape->dims, {count}));
  // Behind an identity, the scanned totals are what lies before each block: its first element has it.
  const Ref shifted = extended(last_axis_cut(totals, 0, count - 1), 1, 0, identity);
  const Ref before = prim::contiguous(scan(op, prim::contiguous(shifted), identity));
  const Ref carry =
      prim::expand(prim::reshape(before, with_last(x->shape->dims, {count, Dim(1)})), dims);
  const Ref zero = prim::constant(DType::index, int64_t{0});
  std::vector<Dim> along(dims.size(), Dim(1));
  along.back() = block;
  const Ref place = prim::reshape(prim::iota(block), along);
  const Ref first = prim::expand(prim::alu(Op::Eq, {place, zero}), dims);
  const Ref with = prim::where(first, prim::alu(op, {carry, even}), even);
  const std::vector<Dim> flat = with_last(x->shape->dims, {count * block});
  return last_axis_cut(prim::reshape(run_along(op, with, identity), flat), 0, n);
}

Tensor scanned(Op op, const Tensor& t, int64_t dim, const Number& identity) {
  if (t.numel() == 0 || t.dim() == 0) return t.clone();
  int64_t axis = to_axis(dim, t.dim());
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
  Tensor best = scanned(op, t.detach(), axis, identity), hit = t.eq(best);
  if (t.is_floating_point()) hit = hit | t.isnan();
  std::vector<Dim> along(static_cast<size_t>(t.dim()), Dim(1));
  along[static_cast<size_t>(axis)] = dims_of(t)[static_cast<size_t>(axis)];
  Tensor at =
      reshaped(iota_tensor(along[static_cast<size_t>(axis)], DType::i64, t.impl()->device), along);
  Tensor last = scanned(Op::Max, where(hit, at, -1), axis, -1);
  if (!t.is_floating_point()) return {best, last};
  auto moved = [&](const Tensor& x) { return x.movedim(axis, -1); };
  Tensor values = given(Given::TakenLast, moved(best), {moved(t), moved(last)});
  return {values.movedim(-1, axis).clone(), last};
}

}  // namespace

Tensor Tensor::cumsum(int64_t dim, DType dtype, Loc where) const {
  Call call("cumsum", where);
  if (Recast as{call}) return as(*this).cumsum(dim, dtype, where);
  return accumulated(Op::Add, *this, dim, dtype);
}
Tensor Tensor::cumprod(int64_t dim, DType dtype, Loc where) const {
  Call call("cumprod", where);
  if (Recast as{call}) return as(*this).cumprod(dim, dtype, where);
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

Tensor Tensor::diff(int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append,
                    Loc where) const {
  Call call("diff", where);
  expect(this->dim() > 0, "needs a tensor with an axis");
  expect(n >= 0, "needs n >= 0, got ", n);
  const int64_t axis = to_axis(dim, this->dim());
  std::vector<Tensor> parts;
  for (const Tensor* t : {&prepend, this, &append})
    if (t->defined() && (n > 0 || t == this)) parts.push_back(*t);
  Tensor x = parts.size() > 1 ? cat(parts, axis) : clone();
  for (int64_t i = 0; i < n && dims_of(x)[static_cast<size_t>(axis)] != Dim(0); ++i) {
    const Size fewer = to_size(dims_of(x)[static_cast<size_t>(axis)] - 1);
    const Tensor next = x.narrow(axis, 1, fewer), before = x.narrow(axis, 0, fewer);
    x = x.dtype() == DType::boolean ? next.logical_xor(before) : next - before;
  }
  return x;
}

// Doubling steps: each element joins the one 1, 2, 4, ... before it.
Tensor Tensor::logcumsumexp(int64_t dim, Loc where) const {
  Call call("logcumsumexp", where);
  expect(is_floating_point(), "needs a float tensor, got ", dtype());
  int64_t axis = to_axis(dim, this->dim());
  if (this->dim() == 0 || numel() == 0) return clone();
  Tensor x = to(accumulator(dtype())).movedim(axis, -1);
  double nothing_yet = -std::numeric_limits<double>::infinity();
  const Dim n = dims_of(x).back();
  for (int64_t step = 1; step < n.size; step *= 2) {
    Tensor before = x.pad({step, 0}, "constant", nothing_yet).narrow(-1, 0, to_size(n));
    x = make_value(prim::contiguous(node_of(x.logaddexp(before))), x);
  }
  return x.movedim(-1, axis).to(dtype());
}

}  // namespace mote
