// Running folds, in blocks: a fold within each block, then of the blocks' totals, then both joined.
// Large axes use small blocks on many levels, which costs the fewest operations; small axes use
// large blocks, which costs the fewest kernels.
#include <algorithm>
#include <functional>
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

// Every element folds the window that ends at it.
Ref scan_block(Op op, const Ref& x, const Ref& identity) {
  int64_t n = x->shape->dims.back().size, axis = x->shape->rank() - 1;
  if (n == 1) return x;
  Ref seen = window_axis(extended(x, n - 1, 0, identity), axis, n, 1, 1);
  int64_t last = axis + 1;
  return prim::reshape(prim::reduce(op, seen, {&last, 1}), x->shape->dims);
}

// Folds of blocks, and their elements given what lies before each block.
struct Blocks {
  Ref totals;                                      // (..., blocks)
  std::function<Ref(const Ref& before)> elements;  // (..., blocks) to (..., blocks, width)
};

std::vector<Dim> with_last(std::vector<Dim> dims, std::initializer_list<Dim> last) {
  dims.pop_back();
  dims.insert(dims.end(), last);
  return dims;
}

// Few kernels: every element folds a window of its block.
Blocks wide_blocks(Op op, const Ref& x, const Ref& identity) {
  int64_t width = x->shape->dims.back().size;
  Ref inner = prim::contiguous(scan_block(op, x, identity));
  Ref totals = prim::reshape(last_axis_cut(inner, width - 1, width), with_last(x->shape->dims, {}));
  return {totals, [=](const Ref& before) {
            Ref carry = prim::reshape(before, with_last(inner->shape->dims, {Dim(1)}));
            return prim::alu(op, {prim::expand(carry, inner->shape->dims), inner});
          }};
}

// Few operations: blocks of two pairs. The second pair takes in the first, the second of a pair its
// first; what is the same for several elements keeps an axis of size 1 as long as it can.
Blocks pairs_of_pairs(Op op, const Ref& x, const Ref& identity) {
  std::vector<Dim> dims = with_last(x->shape->dims, {Dim(2), Dim(2)});
  std::vector<Dim> per_pair = with_last(dims, {Dim(1)});
  std::vector<Dim> per_block = with_last(with_last(dims, {}), {Dim(1), Dim(1)});
  Ref pairs = prim::reshape(x, dims), zero = prim::constant(DType::index, int64_t{0});
  auto at = [=](int64_t pair, int64_t place) {
    std::vector<Extent> bounds = whole(dims);
    bounds[dims.size() - 2] = {pair, pair + 1};
    bounds.back() = {place, place + 1};
    return prim::shrink(pairs, bounds);
  };
  auto is_second = [=](size_t axis, const std::vector<Dim>& shape) {
    std::vector<Dim> along(shape.size(), Dim(1));
    along[axis] = 2;
    return prim::expand(prim::alu(Op::Lt, {zero, prim::reshape(prim::iota(2), along)}), shape);
  };
  Ref first = prim::alu(op, {at(0, 0), at(0, 1)}), second = prim::alu(op, {at(1, 0), at(1, 1)});
  Ref totals = prim::reshape(prim::alu(op, {first, second}), with_last(x->shape->dims, {}));
  return {totals, [=](const Ref& before) {
            Ref carry = prim::expand(prim::reshape(before, per_block), per_pair);
            Ref lead = prim::where(is_second(dims.size() - 2, per_pair),
                                   prim::expand(first, per_pair), identity);
            Ref heads = prim::expand(last_axis_cut(pairs, 0, 1), dims);
            Ref own = prim::where(is_second(dims.size() - 1, dims), heads, identity);
            Ref inner = prim::alu(op, {own, pairs});
            Ref outer = prim::expand(prim::alu(op, {carry, lead}), dims);
            return prim::alu(op, {outer, inner});
          }};
}

constexpr int64_t kDirect = 32, kLarge = 1 << 16;

Ref scan(Op op, const Ref& x, const Ref& identity) {
  const Dim n = x->shape->dims.back();
  if (n.size <= kDirect) return scan_block(op, x, identity);
  const bool many = n.size > kLarge;
  const Dim width = many ? 4 : 16, count = (n + width - 1) / width;
  Ref even = extended(x, 0, count * width - n, identity);
  even = prim::reshape(even, with_last(x->shape->dims, {count, width}));
  Blocks blocks = many ? pairs_of_pairs(op, even, identity) : wide_blocks(op, even, identity);
  // Behind an identity, the scanned totals are what lies before each block. Totals and results are
  // stored by blocks: otherwise elements repeat the work of their block.
  Ref shifted = extended(last_axis_cut(blocks.totals, 0, count - 1), 1, 0, identity);
  Ref before = scan(op, prim::contiguous(shifted), identity);
  Ref joined = prim::contiguous(blocks.elements(before));
  return last_axis_cut(prim::reshape(joined, with_last(x->shape->dims, {count * width})), 0, n);
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
