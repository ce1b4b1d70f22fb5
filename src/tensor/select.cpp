// Selection: the k-th smallest of an axis without sorting it. Its ordered key is found bit by bit
// from the top, by counting the keys below a candidate: one vectorised fold over the axis for each
// bit of the dtype, and no sort. Short axes are sorted.
#include <algorithm>

#include "base/integers.h"
#include "tensor/gather.h"
#include "tensor/given.h"
#include "tensor/movement.h"
#include "tensor/order.h"

namespace mote {

namespace {

constexpr int64_t kShort = 16;

// The axis filled up with the largest key to a size without a rest of lanes.
Tensor padded(const Tensor& key, int64_t axis) {
  const Dim& n = dims_of(key)[static_cast<size_t>(axis)];
  if (n.is_symbolic() || axis != key.dim() - 1) return stored(key);
  int64_t size = kShort;
  while (size < n.size && size < 4 * kShort) size *= 2;
  size = round_up(n.size, size);
  const int64_t most = key.dtype() == DType::i64 ? INT64_MAX : INT32_MAX;
  return stored(key.pad({0, size - n.size}, "constant", most));
}

// The key that `rank` others (of size 1 along the axis) come before.
Tensor selected_key(const Tensor& keys, int64_t axis, const Tensor& rank, int bits) {
  auto number = [&](int64_t n) { return full({}, n, {keys.dtype(), keys.device()}); };
  Tensor found = number(INT64_MIN >> (64 - bits)), next = number(0);
  for (int bit = bits - 1; bit >= 0; --bit) {
    const Tensor before = reduce_tensor(Op::Add, keys.lt(next).to(DType::i32), {&axis, 1}, true);
    found = where_tensor(before <= rank, next, found);
    if (bit) next = found + (int64_t{1} << (bit - 1));
  }
  return found;
}

// Of the k-th in order (rank counts from 0; of size 1 along the axis), the value and where it stands:
// in a stable order on short axes, the first of equal elements on others.
ValuesIndices at_rank(const Tensor& t, int64_t axis, const Tensor& rank) {
  const Dim& n = dims_of(t)[static_cast<size_t>(axis)];
  Tensor at;
  if (!n.is_symbolic() && n.size <= kShort) {
    const Tensor order = argsort_last(t.detach().movedim(axis, -1), false, n).movedim(-1, axis);
    at = gather_at(order, axis, rank);
  } else {
    const Tensor key = padded(ordered_key(t.detach()), axis);
    const Tensor found = selected_key(key, axis, rank, key_bits(t.dtype()));
    const Tensor place = positions_along(key, axis, DType::i32);
    const Tensor there = mote::where(key.eq(found), place, INT32_MAX);
    at = reduce_tensor(Op::Min, there, {&axis, 1}, true);
  }
  at = stored(at.to_long());
  return {gather_at(t, axis, at), at};
}

ValuesIndices kept(const ValuesIndices& s, int64_t axis, bool keepdim) {
  return keepdim ? s : ValuesIndices{s.values.squeeze(axis), s.indices.squeeze(axis)};
}

Tensor full_rank(const Tensor& t, int64_t axis, const Dim& k) {
  std::vector<Dim> dims = dims_of(t);
  dims[static_cast<size_t>(axis)] = Dim(1);
  return make_value(prim::full(dims, prim::cast(index_node(k), DType::i32)), t);
}

Dim filled(const Tensor& t, int64_t axis) {
  const Dim& n = dims_of(t)[static_cast<size_t>(axis)];
  expect(n != Dim(0), "axis ", axis, " of shape ", t, " is empty, so it has no middle element");
  expect(n.size < INT32_MAX, "cannot order an axis of size ", n);
  return n;
}

// The lower of the two in the middle; of all that is not NaN, or the first NaN where there is one:
// they are last in order.
ValuesIndices middle(const Tensor& t, int64_t axis, bool ignore_nan) {
  const Dim n = filled(t, axis);
  Tensor rank = full_rank(t, axis, (n - 1) / 2);
  if (t.is_floating_point()) {
    const Tensor nans = reduce_tensor(Op::Add, t.isnan().to(DType::i32), {&axis, 1}, true);
    const Tensor last = full_rank(t, axis, n - 1) - nans;  // before the first NaN
    rank = ignore_nan ? last.clamp_min(0).floor_divide(2) : mote::where(nans > 0, last + 1, rank);
  }
  return at_rank(t, axis, stored(rank));
}

ValuesIndices median_of(const Tensor& t, int64_t dim, bool keepdim, bool ignore_nan) {
  const int64_t axis = to_axis(dim, t.dim());
  if (t.dim() == 0) return {t.clone(), t.zeros_like(DType::i64)};
  return kept(middle(t, axis, ignore_nan), axis, keepdim);
}

Tensor median_of(const Tensor& t, bool ignore_nan) {
  expect(shape_of(t).count() > 0, "a tensor of shape ", t,
         " is empty, so it has no middle element");
  const Tensor all = t.flatten();
  Tensor value = middle(all, 0, ignore_nan).values;
  if (t.is_floating_point()) value = given(Given::EqualShare, value, {all});
  return value.squeeze(0);
}

}  // namespace

Tensor positions_along(const Tensor& like, int64_t axis, DType dtype) {
  std::vector<Dim> along(static_cast<size_t>(like.dim()), Dim(1));
  const Dim n = along[static_cast<size_t>(axis)] = dims_of(like)[static_cast<size_t>(axis)];
  return reshaped(iota_tensor(n, dtype, like.impl()->device), along);
}

ValuesIndices Tensor::kthvalue(int64_t k, int64_t dim, bool keepdim, Loc where) const {
  Call call("kthvalue", where);
  const int64_t axis = to_axis(dim, this->dim());
  const Dim n = this->dim() ? dims_of(*this)[static_cast<size_t>(axis)] : Dim(1);
  expect(k >= 1 && lies_within(0, k, n), "needs k between 1 and the size ", said(n), " of axis ",
         axis, ", got ", k);
  if (this->dim() == 0) return {clone(), zeros_like(DType::i64)};
  filled(*this, axis);
  return kept(at_rank(*this, axis, full_rank(*this, axis, k - 1)), axis, keepdim);
}

ValuesIndices Tensor::median(int64_t dim, bool keepdim, Loc where) const {
  Call call("median", where);
  return median_of(*this, dim, keepdim, false);
}
Tensor Tensor::median(Loc where) const {
  Call call("median", where);
  return median_of(*this, false);
}
ValuesIndices Tensor::nanmedian(int64_t dim, bool keepdim, Loc where) const {
  Call call("nanmedian", where);
  return median_of(*this, dim, keepdim, true);
}
Tensor Tensor::nanmedian(Loc where) const {
  Call call("nanmedian", where);
  return median_of(*this, true);
}

}  // namespace mote
