// Sorting one array of i64: an ordered 32-bit key above a 32-bit position. Short axes go through a
// bitonic network: positions make all elements distinct, so the order is stable, and each
// compare-exchange is a minimum or a maximum. Long ones are sorted by the digits of their keys, the
// lowest first. 64-bit keys are sorted twice, by their low and by their high half.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/integers.h"
#include "tensor/gather.h"
#include "tensor/movement.h"
#include "tensor/order.h"

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

constexpr int64_t kDigits = 256, kBlock = 1 << 16;

// Digits take a few dozen kernels, which short axes are worth if there are many of them.
bool by_digits(const Tensor& t) {
  constexpr int64_t kShort = 128, kLong = 1024, kMuch = 1 << 15;
  const Dim& n = dims_of(t).back();
  return n.is_symbolic() || n.size > kLong || (n.size > kShort && t.numel() > kMuch);
}

// (..., n) of digits: how many of the same value lie before each.
Tensor count_before(const Tensor& digit) {
  const Dim n = dims_of(digit).back();
  std::vector<Dim> along(static_cast<size_t>(digit.dim()) + 1, Dim(1)), across = along;
  along.back() = n, across[across.size() - 2] = n;
  const Tensor at = make_value(prim::iota(n), digit);
  const Tensor before =
      elementwise(Op::Lt, {reshaped(at, along), reshaped(at, across)}, DType::index);
  const Tensor same = digit.unsqueeze(-2).eq(digit.unsqueeze(-1));
  const int64_t last = digit.dim();
  return reduce_tensor(Op::Add, (before & same).to(DType::i32), {&last, 1}, false);
}

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
  const Dim& n = dims_of(flat).back();
  const Tensor hit = matches(as_positions(to, n), n);
  const Tensor none = make_value(prim::constant(x.dtype(), int64_t{0}), x);
  const Tensor moved = where_tensor(hit, flat.unsqueeze(-2), none);
  return stored(reshaped(reduce_tensor(Op::Add, moved, {&last, 1}, false), dims_of(x)));
}

// Sorts the last axis by `bits` bits from the middle of its elements on. A size that is a variable
// makes one block.
Tensor sorted_by_digits(const Tensor& t, int bits) {
  const Dim n = dims_of(t).back();
  const int64_t blocks = n.is_symbolic() ? 1 : ceil_div(n.size, kBlock);
  Tensor x = t;
  if (blocks > 1) {
    const int64_t width = ceil_div(n.size, blocks);
    x = t.pad({0, blocks * width - n.size}, "constant", int64_t{-1}).unflatten(-1, {blocks, width});
  } else {
    x = t.unsqueeze(-2);
  }
  x = stored(x);
  for (int64_t shift = 32; shift < 32 + bits; shift += 8) x = sorted_by_digit(x, shift);
  return blocks > 1 ? x.flatten(-2).narrow(-1, 0, n.size) : x.squeeze(-2);
}

// A key above its position.
Tensor with_positions(const Tensor& key) {
  return (key.to_long() << 32) | iota_tensor(dims_of(key).back(), DType::i64, key.impl()->device);
}
Tensor position_in(const Tensor& packed) { return packed & int64_t{0xffffffff}; }

// Keys of so many bits, which are signed where there are 32.
Tensor sorted_packed(const Tensor& packed, int bits) {
  if (by_digits(packed)) {
    const int64_t flip = int64_t{1} << (31 + bits);
    return sorted_by_digits(packed ^ flip, bits) ^ flip;
  }
  const int64_t n = packed.size(-1);
  int64_t padded = 1;
  while (padded < n) padded *= 2;
  return network(packed.pad({0, padded - n}, "constant", INT64_MAX)).narrow(-1, 0, n);
}

// ---- the first few

constexpr int64_t kFew = 24, kShort = 256;

// One after the other, each the smallest of those above the one before; or of all in order.
Tensor first_of(const Tensor& packed, int64_t k, int bits) {
  if (packed.size(-1) > kShort || k > kFew) return sorted_packed(packed, bits).narrow(-1, 0, k);
  std::vector<Tensor> found = {stored(packed.amin(-1, true))};
  const Tensor none = full({}, INT64_MAX, {DType::i64, packed.device()});
  while (std::ssize(found) < k)
    found.push_back(stored(where(packed > found.back(), packed, none).amin(-1, true)));
  return cat(found, -1);
}

// Positions along the last axis that sort the keys.
Tensor sorted_positions(const Tensor& key, int bits) {
  if (key.dtype() != DType::i64) return position_in(sorted_packed(with_positions(key), bits));
  const Tensor low = ((key & int64_t{0xffffffff}) + INT32_MIN).to(DType::i32);
  const Tensor first = sorted_positions(low, 32);
  const Tensor high = (key >> 32).to(DType::i32);
  return gather_at(first, key.dim() - 1,
                   sorted_positions(gather_at(high, key.dim() - 1, first), 32));
}

// The same for keys that take all of 64 bits, without a sort: each is the smallest of those that come
// behind the one before.
Tensor few_positions(const Tensor& key, int64_t k) {
  const Tensor place = positions_along(key, key.dim() - 1, DType::i64);
  const Tensor none = full({}, INT64_MAX, {DType::i64, key.device()});
  std::vector<Tensor> found;
  Tensor left;
  for (int64_t i = 0; i < k; ++i) {
    auto least = [&](const Tensor& x, const Tensor& of) {
      return stored(where(of, x, none).amin(-1, true));
    };
    const Tensor value = i ? least(key, left) : stored(key.amin(-1, true)), equal = key.eq(value);
    found.push_back(least(place, i ? left & equal : equal));
    left = (key > value) | (equal & (place > found.back()));
  }
  return cat(found, -1);
}

// Positions of the k smallest keys, in order. They lie in the k blocks with the smallest minima, of
// equal ones in the first.
Tensor smallest_positions(const Tensor& key, int64_t k, int bits) {
  constexpr int64_t kLanes = 16;
  const int64_t n = key.size(-1), last = key.dim() - 1;
  const bool packs = key.dtype() != DType::i64, few = k <= kFew;
  if (k == 1)
    return packs ? position_in(stored(with_positions(key).amin(-1, true))) : few_positions(key, 1);
  auto width = static_cast<int64_t>(std::sqrt(static_cast<double>(n) / static_cast<double>(k)));
  if (packs && (n <= kShort || width < 4))
    return position_in(first_of(with_positions(key), k, bits));
  if (width < 4) return sorted_positions(key, bits).narrow(-1, 0, k);
  if (width >= kLanes) width = round_up(width, kLanes);
  const int64_t blocks = ceil_div(n, width), most = packs ? INT32_MAX : INT64_MAX;
  const Tensor even = key.pad({0, blocks * width - n}, "constant", most);
  const Tensor minima = stored(even.unflatten(-1, {blocks, width}).amin(-1));
  const Tensor within = iota_tensor(width, DType::i64, key.impl()->device);
  auto elements = [&](const Tensor& block) {
    return stored((block.unsqueeze(-1) * width + within).flatten(-2));
  };
  if (packs) {
    const Tensor first = first_of(stored(with_positions(minima)), k, bits);
    const Tensor at = elements(position_in(first));
    const Tensor keys = gather_at(even, last, at).to_long();
    return position_in(first_of(stored((keys << 32) | at), k, bits));
  }
  // Without positions the blocks are put in order again, so that the first of equal keys stays so.
  const Tensor first =
      (few ? few_positions(minima, k) : sorted_positions(minima, bits).narrow(-1, 0, k))
          .to(DType::i32);
  const Tensor at = elements((sorted_packed(with_positions(first), 32) >> 32));
  const Tensor keys = stored(gather_at(even, last, at));
  return gather_at(
      at, last, few ? few_positions(keys, k) : sorted_positions(keys, bits).narrow(-1, 0, k));
}

}  // namespace

int key_bits(DType dtype) { return dtype == DType::boolean ? 8 : 8 * size_of(dtype); }

// Of a dtype narrower than i32 the key has as many bits as it: its digits are all that is sorted.
Tensor ordered_key(const Tensor& t) {
  const DType d = t.dtype();
  const bool wide = size_of(d) == 8;
  const uint64_t top = uint64_t{1} << (wide ? 63 : key_bits(d) - 1);
  const auto sign = static_cast<int64_t>(top), magnitude = static_cast<int64_t>(top - 1);
  if (is_float(d)) {
    constexpr DType words[] = {DType::i8, DType::i16, DType::i32, DType::i64};
    const Tensor word = (t + 0.0).bitcast(words[std::bit_width(unsigned(size_of(d))) - 1]);
    const Tensor bits = word.to(wide ? DType::i64 : DType::i32);
    const Tensor key = where(bits < 0, bits ^ magnitude, bits);
    return where(t.isnan(), key.full_like(magnitude), key);
  }
  if (d == DType::u64) return t.bitcast(DType::i64) ^ INT64_MIN;
  if (d == DType::u32) return t.bitcast(DType::i32) ^ INT32_MIN;
  if (d == DType::u8 || d == DType::u16) return t.to(DType::i32) - sign;
  return t.to(wide ? DType::i64 : DType::i32);
}

Tensor argsort_last(const Tensor& t, bool descending, const Dim& k) {
  const Dim& n = dims_of(t).back();
  expect(n.size < INT32_MAX, "cannot sort an axis of size ", n);
  Tensor key = ordered_key(t);
  if (descending) key = key.bitwise_not();
  const int bits = key_bits(t.dtype());
  if (!n.is_symbolic() && k.size < n.size) return smallest_positions(key, k.size, bits);
  return sorted_positions(key, bits);
}

namespace {

// The first k of an axis in order.
ValuesIndices sorted(const Tensor& t, int64_t dim, bool descending, const Dim& k) {
  int64_t axis = to_axis(dim, t.dim());
  if (t.dim() == 0) return {t.clone(), t.zeros_like(DType::i64)};
  Tensor last = t.movedim(axis, -1);
  if (t.numel() == 0 || k == Dim(0)) {
    Tensor none = t.narrow(axis, 0, to_size(k)).clone();
    return {none, none.zeros_like(DType::i64)};
  }
  Tensor at = argsort_last(last.detach(), descending, k);
  if (dims_of(at).back() != k) at = at.narrow(-1, 0, to_size(k));
  return {gather_at(last, t.dim() - 1, at).movedim(-1, axis), at.movedim(-1, axis)};
}

ValuesIndices all_sorted(const Tensor& t, int64_t dim, bool descending) {
  const auto axis = static_cast<size_t>(to_axis(dim, t.dim()));
  return sorted(t, dim, descending, t.dim() ? dims_of(t)[axis] : Dim(1));
}

}  // namespace

ValuesIndices Tensor::sort(int64_t dim, bool descending, Loc where) const {
  Call call("sort", where);
  return all_sorted(*this, dim, descending);
}
Tensor Tensor::argsort(int64_t dim, bool descending, Loc where) const {
  Call call("argsort", where);
  return all_sorted(*this, dim, descending).indices;
}
Tensor Tensor::msort(Loc where) const {
  Call call("msort", where);
  return all_sorted(*this, 0, false).values;
}

ValuesIndices Tensor::topk(int64_t k, int64_t dim, bool largest, bool, Loc where) const {
  Call call("topk", where);
  const int64_t axis = to_axis(dim, this->dim());
  const Dim n = this->dim() ? dims_of(*this)[static_cast<size_t>(axis)] : Dim(1);
  expect(k >= 0 && lies_within(0, k, n), "needs k between 0 and the size ", said(n), " of axis ",
         axis, ", got ", k);
  return sorted(*this, axis, largest, k);
}

}  // namespace mote
