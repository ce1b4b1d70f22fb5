// Sorting one array of i64: an ordered 32-bit key above a 32-bit position. Short axes go through a
// bitonic network: positions make all elements distinct, so the order is stable, and each
// compare-exchange is a minimum or a maximum. Long ones are sorted by the digits of their keys, the
// lowest first. 64-bit keys are sorted twice, by their low and by their high half.
#include <algorithm>
#include <cmath>

#include "base/integers.h"
#include "tensor/gather.h"
#include "tensor/given.h"
#include "tensor/movement.h"

namespace mote {

namespace {

// Each element and its partner (given by `partner`, which mirrors pairs) take the smaller and the
// larger. x: (..., pairs of groups, 2, group).
Tensor exchange(const Tensor& x, bool mirror) {
  std::vector<int64_t> axes = {x.dim() - 2};
  if (mirror) axes.push_back(x.dim() - 1);
  Tensor other = x.flip(axes);
  Dim two[] = {2, 1};
  Ref side = prim::reshape(prim::iota(2), two);
  Tensor first = make_value(prim::alu(Op::Eq, {side, prim::constant(DType::index, int64_t{0})}), x);
  return where_tensor(first, minimum(x, other), maximum(x, other));
}

constexpr int64_t kNear = 2048;  // elements

// Sorts the last axis, whose size is a power of two. Two stages at a time are computed from memory:
// more would repeat too much work, fewer would pass over memory too often. Short axes stay near,
// and every stage may be kept.
Tensor network(const Tensor& t) {
  int64_t n = t.size(-1);
  std::vector<int64_t> shape = t.shape();
  Tensor x = t;
  int stage = 0;
  auto step = [&](int64_t group, bool mirror) {
    std::vector<int64_t> split = shape;
    split.back() = n / (2 * group);
    split.insert(split.end(), {2, group});
    x = exchange(x.reshape(split), mirror).reshape(shape);
    if (++stage % (n > kNear ? 2 : 1) == 0) x = make_value(prim::contiguous(node_of(x)), x);
  };
  for (int64_t block = 2; block <= n; block *= 2) {
    step(block / 2, true);
    for (int64_t group = block / 4; group >= 1; group /= 2) step(group, false);
  }
  return x;
}

// ---- by digits

constexpr int64_t kDigits = 256, kBlock = 1 << 16, kLong = 1024;

// (..., n) of digits: how many of the same value lie before each.
Tensor count_before(const Tensor& digit) {
  const int64_t n = digit.size(-1);
  std::vector<int64_t> along(static_cast<size_t>(digit.dim()) + 1, 1), across = along;
  along.back() = n, across[across.size() - 2] = n;
  const Tensor at = make_value(prim::iota(n), digit);
  const Tensor before = elementwise(Op::Lt, {at.reshape(along), at.reshape(across)}, DType::index);
  const Tensor same = digit.unsqueeze(-2).eq(digit.unsqueeze(-1));
  const int64_t last = digit.dim();
  return reduce_tensor(Op::Add, (before & same).to(DType::i32), {&last, 1}, false);
}

Tensor stored(const Tensor& t) { return make_value(prim::contiguous(node_of(t)), t); }

// One digit of a stable sort of (..., blocks, n): each goes behind those of smaller digits, of
// earlier blocks, and earlier ones of its own block.
Tensor sorted_by_digit(const Tensor& x, int64_t shift) {
  const int64_t blocks = x.size(-2), last = x.dim() - 1, folded = x.dim();
  const Tensor digit = stored(((x >> shift) & (kDigits - 1)).to(DType::u8));
  const uint8_t device = x.impl()->device;
  const Tensor value = iota_tensor(kDigits, DType::u8, device).unsqueeze(-1);
  const Tensor hits = digit.unsqueeze(-2).eq(value).to(DType::i32);
  const Tensor counts = reduce_tensor(Op::Add, hits, {&folded, 1}, false);
  const Tensor all = stored(counts.transpose(-1, -2).flatten(-2));
  const Tensor before = stored(all.cumsum(-1, DType::i32) - all);
  const Tensor block = iota_tensor(blocks, DType::i32, device).unsqueeze(-1);
  const Tensor begin =
      gather_at(before, last - 1, (digit.to(DType::i32) * blocks + block).flatten(-2));
  const Tensor to = stored(begin + count_before(digit).flatten(-2));
  const Tensor flat = x.flatten(-2);
  const Tensor hit = matches(as_positions(to, Dim(flat.size(-1))), Dim(flat.size(-1)));
  const Tensor moved =
      where_tensor(hit, flat.unsqueeze(-2), flat.zeros_like().narrow(-1, 0, 1).unsqueeze(-2));
  return stored(reduce_tensor(Op::Add, moved, {&last, 1}, false).reshape(x.shape()));
}

// Sorts the last axis by the upper halves of its elements.
Tensor sorted_by_digits(const Tensor& t) {
  const int64_t n = t.size(-1), blocks = ceil_div(n, kBlock), width = ceil_div(n, blocks);
  Tensor x = t.pad({0, blocks * width - n}, "constant", int64_t{-1});
  x = stored(x.unflatten(-1, {blocks, width}));
  for (int64_t shift = 32; shift < 64; shift += 8) x = sorted_by_digit(x, shift);
  return x.flatten(-2).narrow(-1, 0, n);
}

// An i32 (or i64, for 64-bit dtypes) that orders as t does: NaN last, -0 equal to 0.
Tensor ordered_key(const Tensor& t) {
  DType d = t.dtype();
  bool wide = size_of(d) == 8;
  if (is_float(d)) {
    Tensor x = t.to(wide ? DType::f64 : DType::f32) + 0.0;
    Tensor bits = x.bitcast(wide ? DType::i64 : DType::i32);
    int64_t magnitude = wide ? INT64_MAX : INT32_MAX;
    Tensor key = where(bits < 0, bits ^ magnitude, bits);
    return where(x.isnan(), key.full_like(magnitude), key);
  }
  if (d == DType::u64) return t.bitcast(DType::i64) ^ INT64_MIN;
  if (d == DType::u32) return t.bitcast(DType::i32) ^ INT32_MIN;
  return t.to(wide ? DType::i64 : DType::i32);
}

// A key above its position.
Tensor with_positions(const Tensor& key) {
  return (key.to_long() << 32) | iota_tensor(key.size(-1), DType::i64, key.impl()->device);
}
Tensor position_in(const Tensor& packed) { return packed & int64_t{0xffffffff}; }

Tensor sorted_packed(const Tensor& packed) {
  int64_t n = packed.size(-1), padded = 1;
  if (n > kLong) return sorted_by_digits(packed ^ INT64_MIN) ^ INT64_MIN;
  while (padded < n) padded *= 2;
  return network(packed.pad({0, padded - n}, "constant", INT64_MAX)).narrow(-1, 0, n);
}

// ---- the first few

constexpr int64_t kFew = 16, kShort = 256;

// One after the other, each the smallest of those above the one before; or of all in order.
Tensor first_of(const Tensor& packed, int64_t k) {
  if (packed.size(-1) > kShort || k > kFew) return sorted_packed(packed).narrow(-1, 0, k);
  std::vector<Tensor> found = {stored(packed.amin(-1, true))};
  const Tensor none = full({}, INT64_MAX, {DType::i64, packed.device()});
  while (std::ssize(found) < k)
    found.push_back(stored(where(packed > found.back(), packed, none).amin(-1, true)));
  return cat(found, -1);
}

// Positions of the k smallest keys, in order. They lie in the k blocks with the smallest minima.
Tensor smallest_positions(const Tensor& key, int64_t k) {
  const int64_t n = key.size(-1), last = key.dim() - 1;
  const Tensor packed = with_positions(key);
  const auto width = static_cast<int64_t>(
      std::sqrt(static_cast<double>(n) / static_cast<double>(std::max<int64_t>(k, 1))));
  if (n <= kShort || width < 4) return position_in(first_of(packed, k));
  const int64_t blocks = ceil_div(n, width);
  const Tensor even = stored(packed.pad({0, blocks * width - n}, "constant", INT64_MAX));
  const Tensor minima = stored(even.unflatten(-1, {blocks, width}).amin(-1));
  const Tensor block = position_in(first_of(minima, k)).floor_divide(width);
  const Tensor within = iota_tensor(width, DType::i64, key.impl()->device);
  const Tensor at = stored((block.unsqueeze(-1) * width + within).flatten(-2));
  return position_in(first_of(stored(gather_at(even, last, at)), k));
}

// Positions along the last axis that sort the i32 keys.
Tensor sorted_positions(const Tensor& key) {
  return position_in(sorted_packed(with_positions(key)));
}

// The first k of the positions that sort the last axis.
Tensor argsort_last(const Tensor& t, bool descending, int64_t k) {
  expect(t.size(-1) < INT32_MAX, "cannot sort an axis of size ", t.size(-1));
  Tensor key = ordered_key(t);
  if (descending) key = key.bitwise_not();
  if (size_of(key.dtype()) == 4)
    return k < t.size(-1) ? smallest_positions(key, k) : sorted_positions(key);
  Tensor low = ((key & int64_t{0xffffffff}) + INT32_MIN).to(DType::i32);
  Tensor high = (key >> 32).to(DType::i32);
  const int64_t last = t.dim() - 1;
  Tensor first = sorted_positions(low);
  Tensor second = sorted_positions(gather_at(high, last, first));
  return gather_at(first, last, second).narrow(-1, 0, k);
}

// The first k of an axis in order.
ValuesIndices sorted(const Tensor& t, int64_t dim, bool descending, int64_t k) {
  int64_t axis = to_axis(dim, t.dim());
  if (t.dim() == 0) return {t.clone(), t.zeros_like(DType::i64)};
  Tensor last = t.movedim(axis, -1);
  if (t.numel() == 0 || k == 0) {
    Tensor none = t.narrow(axis, 0, k).clone();
    return {none, none.zeros_like(DType::i64)};
  }
  Tensor at = argsort_last(last.detach(), descending, k);
  return {gather_at(last, t.dim() - 1, at).movedim(-1, axis), at.movedim(-1, axis)};
}

ValuesIndices narrowed(const ValuesIndices& s, int64_t axis, int64_t begin, int64_t count) {
  return {s.values.narrow(axis, begin, count), s.indices.narrow(axis, begin, count)};
}

}  // namespace

ValuesIndices Tensor::sort(int64_t dim, bool descending, Loc where) const {
  Call call("sort", where);
  return sorted(*this, dim, descending, this->dim() ? size(dim) : 1);
}
Tensor Tensor::argsort(int64_t dim, bool descending, Loc where) const {
  Call call("argsort", where);
  return sorted(*this, dim, descending, this->dim() ? size(dim) : 1).indices;
}

ValuesIndices Tensor::topk(int64_t k, int64_t dim, bool largest, bool, Loc where) const {
  Call call("topk", where);
  int64_t axis = to_axis(dim, this->dim()), n = this->dim() ? size(axis) : 1;
  expect(k >= 0 && k <= n, "needs k between 0 and the size ", n, " of axis ", axis, ", got ", k);
  return sorted(*this, axis, largest, k);
}

ValuesIndices Tensor::kthvalue(int64_t k, int64_t dim, bool keepdim, Loc where) const {
  Call call("kthvalue", where);
  int64_t axis = to_axis(dim, this->dim()), n = this->dim() ? size(axis) : 1;
  expect(k >= 1 && k <= n, "needs k between 1 and the size ", n, " of axis ", axis, ", got ", k);
  if (this->dim() == 0) return {clone(), zeros_like(DType::i64)};
  ValuesIndices s = narrowed(sorted(*this, axis, false, k), axis, k - 1, 1);
  return keepdim ? s : ValuesIndices{s.values.squeeze(axis), s.indices.squeeze(axis)};
}

// The lower of the two in the middle; NaN, sorted last, wins where there is one.
ValuesIndices Tensor::median(int64_t dim, bool keepdim, Loc where) const {
  Call call("median", where);
  int64_t axis = to_axis(dim, this->dim());
  if (this->dim() == 0) return {clone(), zeros_like(DType::i64)};
  int64_t n = size(axis);
  expect(n > 0, "axis ", axis, " of shape ", *this, " is empty, so it has no middle element");
  ValuesIndices s = sorted(*this, axis, false, n);
  Tensor value = s.values.narrow(axis, (n - 1) / 2, 1), at = s.indices.narrow(axis, (n - 1) / 2, 1);
  if (is_floating_point()) {
    Tensor last = s.values.narrow(axis, n - 1, 1), nans = isnan().any(axis, true);
    Tensor nan_at = isnan().to(DType::u8).argmax(axis, true);
    value = mote::where(nans, last, value);
    at = mote::where(nans, nan_at, at);
  }
  return keepdim ? ValuesIndices{value, at} : ValuesIndices{value.squeeze(axis), at.squeeze(axis)};
}
Tensor Tensor::median(Loc where) const {
  Call call("median", where);
  expect(shape_of(*this).count() > 0, "a tensor of shape ", *this,
         " is empty, so it has no middle element");
  Tensor all = flatten(), middle = all.median(0, true).values;
  if (is_floating_point()) middle = given(Given::EqualShare, middle, {all});
  return middle.squeeze(0);
}

}  // namespace mote
