#include "tensor/gather.h"

#include <algorithm>
#include <limits>

#include "tensor/autocast.h"
#include "tensor/given.h"
#include "tensor/movement.h"
#include "tensor/recorded.h"

namespace mote {

void expect_index(const Tensor& index) {
  expect_defined(index, "the index");
  expect(is_int(index.dtype()), "the index must have an integer dtype, got ", index.dtype());
}

Tensor checked_index(const Tensor& index, const Dim& size) {
  expect_index(index);
  return checked(index, {Must::Index, size});
}

namespace {

Ref positions(const Ref& index, const Dim& size) {
  if (index->dtype == DType::index) return index;
  Ref at = prim::cast(index, DType::index), zero = prim::constant(DType::index, int64_t{0});
  if (!is_signed(index->dtype)) return at;
  return prim::where(prim::alu(Op::Lt, {at, zero}), prim::add(at, index_node(size)), at);
}

// Equality of positions (index dtype), broadcast.
Tensor same_position(const Tensor& a, const Tensor& b) {
  return elementwise(Op::Eq, {a, b}, DType::index);
}

Tensor iota_column(const Dim& size, const Tensor& like) {  // (size, 1)
  Dim dims[] = {size, 1};
  return make_value(prim::reshape(prim::iota(size), dims), like);
}

Number identity(const std::string& reduce, DType d) {
  if (reduce == "prod") return 1;
  if (reduce == "sum" || reduce == "mean") return 0;
  bool low = reduce == "amax";
  if (is_float(d))
    return low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  return low ? row(d).lo : row(d).hi;
}

// The index and the source of a scatter, checked: the axes of self, and a last one of those of the
// writes. Folded over that, each element of the result stands where it is to be in memory.
struct Scatter {
  Tensor self, match, values;  // (.., A, ..), (.., A, .., L), (.., 1, .., L)
};

// A rank-0 tensor scatters like one with an axis of one element.
Tensor at_least_1d(const Tensor& t) { return t.dim() == 0 ? t.unsqueeze(0) : t; }

// In the shape of self, of something made for the axes of the index: missing places get `fill`.
Tensor fill_up(const Tensor& t, const Tensor& self, Number fill) {
  std::vector<int64_t> amounts;
  for (int64_t i = self.dim(); i-- > 0;) {
    amounts.push_back(0);
    amounts.push_back(self.size(i) - t.size(i));
  }
  return t.pad(amounts, "constant", fill);
}

Scatter prepare(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  expect_index(index);
  Tensor x = at_least_1d(self), at = at_least_1d(index), values = src;
  int64_t axis = to_axis(dim, x.dim());
  expect(at.dim() == x.dim(), "index of shape ", index, " and tensor of shape ", self,
         " have different numbers of axes");
  if (src.dim() == 0 && at.numel() != 1) values = broadcast_tensor(src, dims_of(at));
  values = at_least_1d(values);
  expect(values.dim() == x.dim(), "source of shape ", src, " and tensor of shape ", self,
         " have different numbers of axes");
  expect(values.dtype() == x.dtype(), "source of ", values.dtype(), " and tensor of ", x.dtype(),
         " must have one dtype");
  common_device({&self, &index, &src});
  std::vector<prim::Extent> bounds;
  for (int64_t i = 0; i < x.dim(); ++i) {
    int64_t n = at.size(i);
    expect(n <= values.size(i) && (i == axis || n <= x.size(i)), "index of shape ", index,
           " reaches beyond the source of shape ", src, " or the tensor of shape ", self);
    bounds.push_back({0, n});
  }
  values = shrunk(values, bounds).movedim(axis, -1).unsqueeze(axis);
  at = checked_index(at, x.size(axis));
  Tensor positions = as_positions(at.movedim(axis, -1), Dim(x.size(axis)));
  return {x, matches(positions, Dim(x.size(axis))).movedim(-2, axis), values};
}

Tensor back(const Tensor& out, const Tensor& self) {
  return self.dim() == 0 ? out.squeeze(0) : out;
}

// In the accumulator of sums and products.
Tensor fold_last(Op op, const Tensor& t) {
  int64_t last = t.dim() - 1;
  DType d = t.dtype(), wide = op == Op::Add || op == Op::Mul ? accumulator(d) : d;
  return reduce_tensor(op, t.to(wide), {&last, 1}, false);
}

Tensor any_last(const Tensor& match) { return fold_last(Op::Max, match); }

}  // namespace

Tensor in_range(const Tensor& at, const Dim& size) {
  Tensor end = make_value(index_node(size), at), begin = make_value(index_node(0), at);
  return elementwise(Op::Lt, {at, begin}, DType::index).logical_not() &
         elementwise(Op::Lt, {at, end}, DType::index);
}

Tensor as_positions(const Tensor& index, const Dim& size) {
  return make_value(positions(node_of(index), size), index);
}

Tensor matches(const Tensor& at, const Dim& size) {
  return same_position(at.unsqueeze(-2), iota_column(size, at));
}

Tensor sum_at(const Tensor& at, const Tensor& values, const Dim& size) {
  Tensor there = where(matches(as_positions(at, size), size), values.unsqueeze(-2), 0);
  return fold_last(Op::Add, there).to(values.dtype());
}

// Bools are carried as u8: a sum of bools is none. Everything is spread out before it is compared,
// so that no part of the comparison looks worth storing.
Tensor pick_last(const Tensor& x, const Tensor& at) {
  if (x.dtype() == DType::boolean) return pick_last(x.to(DType::u8), at).to_bool();
  const Dim& size = dims_of(x).back();
  std::vector<Dim> dims = broadcast_dims(dims_of(x), dims_of(at));
  Ref wanted = positions(expand_to(node_of(at), dims), size);
  Ref hit = prim::alu(Op::Eq, {expand_to(prim::iota(size), dims), wanted});
  Ref chosen = prim::where(hit, expand_to(node_of(x), dims), prim::constant(x.dtype(), int64_t{0}));
  int64_t last = static_cast<int64_t>(dims.size()) - 1;
  return reduce_tensor(Op::Add, make_value(chosen, x), {&last, 1}, false);
}

// Whether something matches, and the last that does.
struct Last {
  Tensor any, value;
};
static Last last_of(const Tensor& match, const Tensor& values) {
  const Dim& length = dims_of(match).back();
  const DType d = length.size <= INT32_MAX ? DType::i32 : DType::i64;
  Tensor order = make_value(prim::cast(prim::iota(length), d), match);
  Tensor none = make_value(prim::constant(d, row(d).lo), match);
  Tensor last = fold_last(Op::Max, where_tensor(match, order, none));
  Tensor at = make_value(prim::cast(node_of(last), DType::index), last);
  return {elementwise(Op::Lt, {none, last}, d), pick_last(values, at.unsqueeze(-1))};
}

Tensor last_match(const Tensor& match, const Tensor& values, const Tensor& old) {
  if (dims_of(match).back() == Dim(0)) return old;
  const Last last = last_of(match, values);
  return where(last.any, last.value, old);
}

Tensor gather_at(const Tensor& t, int64_t axis, const Tensor& index) {
  std::vector<prim::Extent> bounds = whole(dims_of(t));
  for (int64_t i = 0; i < t.dim(); ++i) {
    const Dim& n = dims_of(index)[static_cast<size_t>(i)];
    expect(i == axis || n.size <= dims_of(t)[static_cast<size_t>(i)].size, "index of shape ", index,
           " reaches beyond the tensor of shape ", t);
    if (i != axis) bounds[static_cast<size_t>(i)].end = n;
  }
  Tensor x = shrunk(t, bounds).movedim(axis, -1).unsqueeze(axis);
  return pick_last(x, index.unsqueeze(-1));
}

Tensor select_at(const Tensor& t, int64_t axis, const Tensor& index) {
  std::vector<Dim> dims(static_cast<size_t>(t.dim()) + 1, Dim(1));
  dims[static_cast<size_t>(axis)] = product(dims_of(index));
  return pick_last(t.movedim(axis, -1).unsqueeze(axis), reshaped(index, dims));
}

Tensor Tensor::gather(int64_t dim, const Tensor& index, Loc where) const {
  Call call("gather", where);
  expect_index(index);
  common_device({this, &index});
  expect(index.dim() == this->dim(), "index of shape ", index, " and tensor of shape ", *this,
         " have different numbers of axes");
  if (this->dim() == 0) return unsqueeze(0).gather(0, index.unsqueeze(0)).squeeze(0);
  int64_t axis = to_axis(dim, this->dim());
  const Dim& all = dims_of(*this)[static_cast<size_t>(axis)];
  return recorded("gather", gather_at(*this, axis, checked_index(index, all)), {this, &index},
                  [&] { return std::vector<int64_t>{axis}; });
}

Tensor Tensor::take_along_dim(const Tensor& index, int64_t dim, Loc where) const {
  Call call("take_along_dim", where);
  expect_index(index);
  expect(index.dim() == this->dim(), "index of shape ", index, " and tensor of shape ", *this,
         " have different numbers of axes");
  if (this->dim() == 0) return gather(dim, index);
  int64_t axis = to_axis(dim, this->dim());
  std::vector<Dim> at = dims_of(index), from = dims_of(*this);
  at[static_cast<size_t>(axis)] = from[static_cast<size_t>(axis)] = 1;
  std::vector<Dim> both = broadcast_dims(at, from), wide = both;
  both[static_cast<size_t>(axis)] = dims_of(index)[static_cast<size_t>(axis)];
  wide[static_cast<size_t>(axis)] = dims_of(*this)[static_cast<size_t>(axis)];
  common_device({this, &index});
  Tensor positions = checked_index(index, dims_of(*this)[static_cast<size_t>(axis)]);
  return gather_at(broadcast_tensor(*this, wide), axis, broadcast_tensor(positions, both));
}

Tensor Tensor::scatter(int64_t dim, const Tensor& index, Operand src, Loc where) const {
  Call call("scatter", where);
  if (src.tensor)
    expect(src.tensor->dtype() == dtype(), "source of ", src.tensor->dtype(), " and tensor of ",
           dtype());
  Scatter s = prepare(*this, dim, index, to_tensor(src, *this, dtype()));
  if (index.numel() == 0) return clone();
  const Last last = last_of(s.match, s.values);
  return back(mote::where(fill_up(last.any, s.self, false), fill_up(last.value, s.self, 0), s.self),
              *this);
}

Tensor Tensor::scatter_add(int64_t dim, const Tensor& index, const Tensor& src, Loc where) const {
  Call call("scatter_add", where);
  if (Recast as{call, *this, src}) return as(*this).scatter_add(dim, index, as(src), where);
  return scatter_reduce(dim, index, src, "sum");
}

Tensor Tensor::scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src,
                              const char* reduce, bool include_self, Loc where) const {
  Call call("scatter_reduce", where);
  expect_defined(src, "the source");
  std::string how = word(reduce, "reduce");
  expect(how == "sum" || how == "prod" || how == "mean" || how == "amax" || how == "amin",
         "reduce is sum, prod, mean, amax or amin, got ", how);
  Scatter s = prepare(*this, dim, index, src);
  if (index.numel() == 0) return clone();
  Number nothing = identity(how, dtype());
  Op op = how == "prod" ? Op::Mul : how == "amax" ? Op::Max : how == "amin" ? Op::Min : Op::Add;
  Tensor masked = mote::where(s.match, s.values, full({}, nothing, {dtype(), device()}));
  Tensor folded = fold_last(op, masked), hits;
  const bool shares = (op == Op::Max || op == Op::Min) && is_floating_point();
  if (shares) {
    Tensor hit = s.match & s.values.eq(folded.unsqueeze(-1));
    hits = fold_last(Op::Add, hit.to(DType::i64)).to(folded.dtype());
    folded = given(Given::SharedExtremum, folded, {masked, hits});
  }
  Tensor fresh = fill_up(folded, s.self, nothing), old = s.self;
  Tensor touched = fill_up(any_last(s.match), s.self, false);
  if (!include_self) old = mote::where(touched, full({}, nothing, {dtype(), device()}), old);
  Tensor out = elementwise(op, {old, fresh}, fresh.dtype());
  if (shares)
    out =
        given(Given::ScatterExtremum, out, {old, fresh, fill_up(hits, s.self, 0), s.self.detach()});
  if (how == "mean") {
    Tensor count =
        fill_up(fold_last(Op::Add, s.match.to(DType::i64)), s.self, 0) + (include_self ? 1 : 0);
    count = count.clamp_min(1).to(out.dtype());
    out = is_floating_point() ? out / count : mote::floor_divide(out, count);
  }
  return back(out.to(dtype()), *this);
}

Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, Operand src, Loc where) {
  Call call("scatter_", where);
  return assign(scatter(dim, index, src));
}
Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& src, Loc where) {
  Call call("scatter_add_", where);
  return assign(scatter_add(dim, index, src));
}

// A vector of positions along one axis, in the shape of `src` for scatter.
static Tensor along(const Tensor& index, int64_t axis, const Tensor& src) {
  expect_index(index);
  expect(index.dim() <= 1, "needs a vector of positions, got shape ", index);
  std::vector<int64_t> shape(static_cast<size_t>(src.dim()), 1);
  expect(src.dim() > 0 && src.size(axis) == index.numel(), index.numel(),
         " positions for a source of shape ", src, " on axis ", axis);
  shape[static_cast<size_t>(axis)] = index.numel();
  return broadcast_tensor(index.reshape(shape), dims_of(src));
}

Tensor Tensor::index_add(int64_t dim, const Tensor& index, const Tensor& src, Number alpha,
                         Loc where) const {
  Call call("index_add", where);
  int64_t axis = to_axis(dim, this->dim());
  Tensor at = along(index, axis, src);
  return scatter_add(axis, at, alpha.f == 1 ? src : src * alpha);
}
Tensor Tensor::index_copy(int64_t dim, const Tensor& index, const Tensor& src, Loc where) const {
  Call call("index_copy", where);
  if (Recast as{call, *this, src}) return as(*this).index_copy(dim, index, as(src), where);
  const int64_t axis = to_axis(dim, this->dim());
  const Tensor spread = along(index, axis, src);
  std::vector<Dim> fits = dims_of(*this);
  if (this->dim() == src.dim()) fits[static_cast<size_t>(axis)] = Dim(index.numel());
  if (index.numel() == 0 || dims_of(src) != fits) return scatter(axis, spread, src);
  expect(src.dtype() == dtype(), "source of ", src.dtype(), " and tensor of ", dtype());
  common_device({this, &index, &src});
  // Which of the positions is the last for a place is found once for all that lies along it.
  const Dim n(size(axis));
  const Tensor at = as_positions(checked_index(index.reshape(-1), n), n);
  std::vector<Dim> shape(static_cast<size_t>(src.dim()) + 1, Dim(1));
  shape[static_cast<size_t>(axis)] = n, shape.back() = Dim(index.numel());
  return last_match(reshaped(matches(at, n), shape), src.movedim(axis, -1).unsqueeze(axis), *this);
}
Tensor Tensor::index_fill(int64_t dim, const Tensor& index, Operand value, Loc where) const {
  Call call("index_fill", where);
  expect_index(index);
  expect(index.dim() <= 1, "needs a vector of positions, got shape ", index);
  if (this->dim() == 0) return unsqueeze(0).index_fill(dim, index, value).squeeze(0);
  int64_t axis = to_axis(dim, this->dim());
  const Dim& all = dims_of(*this)[static_cast<size_t>(axis)];
  Tensor at = as_positions(checked_index(index, all).reshape(-1), all);
  if (index.numel() == 0) return clone();
  Tensor hit = any_last(matches(at, all));
  std::vector<int64_t> shape(static_cast<size_t>(this->dim()), 1);
  shape[static_cast<size_t>(axis)] = size(axis);
  return masked_fill(hit.reshape(shape), value);
}

Tensor Tensor::index_select(int64_t dim, const Tensor& index, Loc where) const {
  Call call("index_select", where);
  expect_index(index);
  expect(index.dim() <= 1, "needs a vector of positions, got shape ", index);
  if (this->dim() == 0) return unsqueeze(0).index_select(0, index).squeeze(0);
  int64_t axis = to_axis(dim, this->dim());
  common_device({this, &index});
  const Dim& all = dims_of(*this)[static_cast<size_t>(axis)];
  return recorded("index_select", select_at(*this, axis, checked_index(index, all)), {this, &index},
                  [&] { return std::vector<int64_t>{axis}; });
}

Tensor Tensor::take(const Tensor& index, Loc where) const {
  Call call("take", where);
  expect_index(index);
  common_device({this, &index});
  Tensor flat = flatten();
  return pick_last(flat, checked_index(index, dims_of(flat)[0]).unsqueeze(-1));
}

}  // namespace mote
