// Statistics and counts that are made of order: quantiles, modes, distinct elements, places in a
// sorted sequence, histograms. What many elements fall on is written at computed places.
#include <algorithm>
#include <bit>
#include <string>

#include "tensor/gather.h"
#include "tensor/given.h"
#include "tensor/movement.h"
#include "tensor/order.h"

namespace mote {

namespace {

// The axis that is meant, or all elements as one vector.
struct Along {
  Tensor x;  // the axis is the last
  int64_t axis;
  bool all;
};
Along along(const Tensor& t, const Axes& axes) {
  expect(axes.list.size() <= 1, "needs one axis or none, got ", axes.list);
  if (axes.empty() || t.dim() == 0) return {t.flatten(), 0, true};
  const int64_t axis = to_axis(axes.list[0], t.dim());
  return {t.movedim(axis, -1), axis, false};
}

// ---- quantiles

// At a rank between two places of a sorted axis.
Tensor between(const Tensor& sorted, const Tensor& rank, const std::string& how) {
  const int64_t last = sorted.dim() - 1;
  auto at = [&](const Tensor& r) { return gather_at(sorted, last, r.to_long()); };
  if (how == "lower") return at(rank.floor());
  if (how == "higher") return at(rank.ceil());
  if (how == "nearest") return at(rank.round());
  const Tensor below = rank.floor(),
               weight = how == "midpoint" ? rank.full_like(0.5) : rank - below;
  return at(below).lerp(at(rank.ceil()), weight);
}

Tensor quantiles(const Tensor& t, const Operand& given_q, const Axes& axes, bool keepdim,
                 const char* interpolation, bool ignore_nan) {
  const std::string how = word(interpolation, "interpolation");
  expect(
      how == "linear" || how == "lower" || how == "higher" || how == "midpoint" || how == "nearest",
      "interpolation is linear, lower, higher, midpoint or nearest, got ", how);
  const DType d = t.dtype();
  expect(d == DType::f32 || d == DType::f64, "needs f32 or f64, got ", d);
  expect(given_q.tensor || (given_q.number.f >= 0 && given_q.number.f <= 1),
         "needs q between 0 and 1, got ", given_q.number.f);
  const Tensor q = to_tensor(given_q, t, d);
  expect(!given_q.tensor || given_q.tensor->dtype() == d, "q of ", q.dtype(), " and tensor of ", d,
         " must have one dtype");
  expect(q.dim() <= 1, "needs a number or a vector of q, got shape ", q);
  const Along a = along(t, axes);
  const Dim& n = dims_of(a.x).back();
  expect(n != Dim(0), "a tensor of shape ", t, " has no elements there");
  const Tensor sorted = a.x.sort(-1).values, nans = a.x.isnan().to_long().sum(-1, true);
  const Tensor end = make_value(prim::cast(index_node(n - 1), DType::i64), t);
  // A NaN is last in order, and taken where there is one.
  const Tensor last = ignore_nan ? (end - nans).clamp_min(0) : end;
  Tensor rank = q.detach().clamp(0, 1).reshape({-1}) * last.to(d);
  if (!ignore_nan) rank = mote::where(nans > 0, end.to(d), rank);
  Tensor out = between(sorted, stored(rank), how).movedim(-1, 0);
  if (keepdim && a.all) {
    std::vector<int64_t> ones(static_cast<size_t>(t.dim()) + 1, 1);
    ones[0] = -1;
    out = out.reshape(ones);
  } else if (keepdim) {
    out = out.unsqueeze(a.axis + 1);
  }
  return q.dim() ? out : out.squeeze(0);
}

// ---- runs of equal elements

// Where an element differs from the one before on the axis, or is the first.
Tensor starts(const Tensor& x, int64_t axis) {
  std::vector<int64_t> amounts(static_cast<size_t>(2 * (x.dim() - axis)));
  amounts[amounts.size() - 2] = 1, amounts.back() = -1;
  return positions_along(x, axis, DType::i32).eq(0) | x.ne(x.pad(amounts));
}

// x along its first axis; order: where its elements stood before they were sorted, if they were.
UniqueValues of_runs(const Tensor& x, const Tensor& order) {
  const int64_t n = x.size(0);
  const Tensor none = zeros({0}, {DType::i64, x.device()});
  if (n == 0) return {x.clone(), none, none};
  Tensor first = starts(x, 0);
  if (x.dim() > 1) first = first.flatten(1).any(1);
  first = stored(first);
  const Tensor at = stored(first.nonzero().select(1, 0)), rank = first.cumsum(0) - 1;
  const Tensor end = full({1}, n, {DType::i64, x.device()});
  const Tensor counts = cat({at.narrow(0, 1, at.size(0) - 1), end}, 0) - at;
  return {select_at(x, 0, at), order.defined() ? sum_at(order, rank, Dim(n)) : rank, counts};
}

// Of rows: by the first of their elements, of equal ones by the second, and so on. Each column is
// a stable sort, from the last on.
Tensor order_of_rows(const Tensor& rows) {
  const int64_t columns = rows.size(1);
  Tensor order = iota_tensor(rows.size(0), DType::i64, rows.impl()->device);
  for (int64_t c = columns; c-- > 0;) {
    const Tensor column = stored(select_at(rows.select(1, c), 0, order));
    order = stored(gather_at(order, 0, argsort_last(column, false, dims_of(column)[0])));
    if (c % 8 == 0) order.realize();  // a graph of all columns would be as long as they are many
  }
  return order;
}

struct Ends {
  int64_t least, most;
};
Ends ends_of(const Tensor& x) {  // realizes them
  const Tensor ends = stack({x.amin().to_long(), x.amax().to_long()}, 0);
  const std::vector<int64_t> both = ends.to_vector<int64_t>();
  return {both[0], both[1]};
}

// Of integers that lie as close as a few times their number, each possible one is counted. Without
// values: they do not.
UniqueValues counted(const Tensor& x) {
  const int64_t n = x.size(0);
  if (!is_int(x.dtype()) || x.dtype() == DType::u64 || n == 0) return {};
  const auto [least, most] = ends_of(x);
  const uint64_t span = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  if (span > 4 * static_cast<uint64_t>(n)) return {};
  const Tensor at = stored(x.to_long() - least);
  const Tensor counts = stored(sum_at(at, at.ones_like(), Dim(static_cast<int64_t>(span) + 1)));
  const Tensor present = stored(counts > 0), there = stored(present.nonzero().select(1, 0));
  const Tensor rank = stored(present.cumsum(0) - 1);
  return {(there + least).to(x.dtype()), gather_at(rank, 0, at), gather_at(counts, 0, there)};
}

UniqueValues unique_along(const Tensor& t, const Axes& axis, bool sorts) {
  const Along a = along(t, axis);
  const Tensor x = stored((a.all ? a.x : a.x.movedim(-1, 0)).detach());
  expect(x.size(0) == 0 || x.numel() > 0, "the parts of a tensor of shape ", t, " are empty");
  const bool parts = x.dim() > 1;
  UniqueValues u = sorts && !parts ? counted(x) : UniqueValues();
  if (!u.values.defined()) {
    Tensor order;
    if (sorts && x.size(0) > 0)
      order = stored(parts ? order_of_rows(x.flatten(1)) : argsort_last(x, false, dims_of(x)[0]));
    u = of_runs(order.defined() ? stored(select_at(x, 0, order)) : x, order);
  }
  if (a.all) return {u.values, u.inverse.reshape(t.shape()), u.counts};
  return {u.values.movedim(0, a.axis), u.inverse, u.counts};
}

// ---- places

// Where `at` points into the sequence (..., n): does the value stand behind that element?
Tensor goes_behind(const Tensor& element, const Tensor& value, bool right) {
  return (right ? element.gt(value) : element.ge(value)).logical_not();
}

// The number of elements before each value (..., m), as i32. Short sequences are compared with all,
// long ones halved until none are left.
Tensor place_in(const Tensor& sequence, const Tensor& values, bool right) {
  constexpr int64_t kShort = 32;
  const Dim& n = dims_of(sequence).back();
  if (n.size <= kShort)
    return goes_behind(sequence.unsqueeze(-2), values.unsqueeze(-1), right)
        .to(DType::i32)
        .sum(-1, false, DType::i32);
  const Tensor end = make_value(prim::cast(index_node(n), DType::i32), sequence);
  Tensor place = values.zeros_like(DType::i32);
  for (int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n.size))); step;
       step /= 2) {
    const Tensor next = place + step, at = next.minimum(end) - 1;
    const Tensor element = gather_at(sequence, sequence.dim() - 1, at);
    place = stored(mote::where((next <= end) & goes_behind(element, values, right), next, place));
  }
  return place;
}

}  // namespace

Tensor Tensor::quantile(Operand q, const Axes& axes, bool keepdim, const char* interpolation,
                        Loc where) const {
  Call call("quantile", where);
  return quantiles(*this, q, axes, keepdim, interpolation, false);
}
Tensor Tensor::nanquantile(Operand q, const Axes& axes, bool keepdim, const char* interpolation,
                           Loc where) const {
  Call call("nanquantile", where);
  return quantiles(*this, q, axes, keepdim, interpolation, true);
}

// Where the mode of the last axis stands. In order, the first place at which a run is as long as the
// longest is its last.
static Tensor mode_by_order(const Tensor& x, const Dim& n) {
  const int64_t last = x.dim() - 1;
  const Tensor order = stored(argsort_last(x, false, n)), sorted = stored(gather_at(x, last, order));
  const Tensor place = positions_along(sorted, last, DType::i32);
  const Tensor begin = mote::where(starts(sorted, last), place, 0).cummax(last).values;
  return gather_at(order, last, (place - begin).argmax(last, true));
}

// The same without order: all pairs of a short axis are compared. No NaN equals another.
static Tensor mode_by_pairs(const Tensor& x, const Dim& n) {
  const Tensor key = stored(ordered_key(x)), place = positions_along(key, x.dim() - 1, DType::i32);
  const Tensor same = key.unsqueeze(-2).eq(key.unsqueeze(-1)).to(DType::i32);
  Tensor count = same.sum(-1, false, DType::i32);
  if (x.is_floating_point()) count = mote::where(x.isnan(), 1, count);
  count = stored(count);
  const Tensor best = stored(count.amax(-1, true)), often = count.eq(best);
  const int64_t most = key.dtype() == DType::i64 ? INT64_MAX : INT32_MAX;
  const Tensor least = stored(mote::where(often, key, most).amin(-1, true));
  const Tensor hit = often & key.eq(least);
  const Tensor first = mote::where(hit, place, n.size).amin(-1, true);
  const Tensor end = mote::where(hit, place, -1).amax(-1, true);
  return mote::where(best.gt(1), end, first).to_long();
}

ValuesIndices Tensor::mode(int64_t dim, bool keepdim, Loc where) const {
  Call call("mode", where);
  const int64_t axis = to_axis(dim, this->dim());
  if (this->dim() == 0) return {clone(), zeros_like(DType::i64)};
  const Dim n = dims_of(*this)[static_cast<size_t>(axis)];
  expect(n != Dim(0), "axis ", axis, " of shape ", *this, " is empty, so it has no mode");
  constexpr int64_t kShort = 192;
  const Tensor x = detach().movedim(axis, -1);
  const bool is_short = !n.is_symbolic() && n.size <= kShort;
  const Tensor where_it_is = is_short ? mode_by_pairs(x, n) : mode_by_order(x, n);
  const Tensor at = stored(where_it_is.movedim(this->dim() - 1, axis));
  const Tensor value = gather_at(*this, axis, at);
  return keepdim ? ValuesIndices{value, at} : ValuesIndices{value.squeeze(axis), at.squeeze(axis)};
}

UniqueValues Tensor::unique(const Axes& axis, Loc where) const {
  Call call("unique", where);
  return unique_along(*this, axis, true);
}
UniqueValues Tensor::unique_consecutive(const Axes& axis, Loc where) const {
  Call call("unique_consecutive", where);
  return unique_along(*this, axis, false);
}

Tensor searchsorted(const Tensor& sorted_sequence, Operand values, const SearchOptions& o,
                    Loc where) {
  Call call("searchsorted", where);
  expect_defined(sorted_sequence, "the sequence");
  expect(sorted_sequence.dim() > 0, "needs a sequence with an axis");
  const Operand both[] = {sorted_sequence, values};
  const DType d = result_dtype(both);
  Tensor sequence = sorted_sequence.detach();
  const Tensor v = to_tensor(values, sequence, d).detach();
  common_device({&sequence, &v});
  const auto lead = [](const Tensor& t) {
    return std::span(dims_of(t)).first(static_cast<size_t>(std::max<int64_t>(t.dim() - 1, 0)));
  };
  expect(sequence.dim() == 1 ||
             (v.dim() == sequence.dim() && std::ranges::equal(lead(sequence), lead(v))),
         "sequences of shape ", sequence, " and values of shape ", v,
         " differ in more than the last axis");
  if (o.sorter.defined()) {
    expect(dims_of(o.sorter) == dims_of(sequence), "sorter of shape ", o.sorter,
           " for a sequence of shape ", sequence);
    sequence = sequence.gather(-1, o.sorter);
  }
  sequence = stored(sequence.to(d));
  const bool one = sequence.dim() == 1;
  Tensor out = dims_of(sequence).back() == Dim(0)
                   ? v.zeros_like(DType::i32)
                   : place_in(sequence, one ? v.flatten() : v, o.right);
  if (one) out = reshaped(out, dims_of(v));
  return out.to(o.out_int32 ? DType::i32 : DType::i64);
}

Tensor isin(Operand elements, Operand test_elements, bool, bool invert, Loc where) {
  Call call("isin", where);
  expect(elements.tensor || test_elements.tensor, "needs a tensor");
  const Operand both[] = {elements, test_elements};
  const DType d = result_dtype(both);
  const Tensor& like = elements.tensor ? *elements.tensor : *test_elements.tensor;
  const Tensor x = to_tensor(elements, like, d).detach();
  const Tensor set = to_tensor(test_elements, like, d).detach().flatten();
  constexpr int64_t kFew = 16;
  Tensor found;
  if (set.numel() <= kFew) {
    found = set.numel() ? x.unsqueeze(-1).eq(set).any(-1) : x.zeros_like(DType::boolean);
  } else {
    const Tensor sorted = stored(set.sort().values);
    const Tensor last = make_value(prim::cast(index_node(dims_of(sorted)[0] - 1), DType::i32), x);
    const Tensor flat = x.flatten(), at = place_in(sorted, flat, false).minimum(last);
    found = reshaped(gather_at(sorted, 0, at).eq(flat), dims_of(x));
  }
  return invert ? found.logical_not() : found;
}

Tensor Tensor::histc(int64_t bins, Number min, Number max, Loc where) const {
  Call call("histc", where);
  expect(is_floating_point(), "needs a float tensor, got ", dtype());
  expect(bins > 0, "needs a number of bins > 0, got ", bins);
  expect(min.f <= max.f, "needs min <= max, got ", min.f, " and ", max.f);
  const Tensor x = detach().flatten();
  if (numel() == 0) return zeros({bins}, {dtype(), device()});
  auto number = [&](const Number& n) { return full({}, n, {dtype(), device()}); };
  Tensor low = number(min), high = number(max);
  if (min.f == max.f) {
    const Tensor least = stored(x.amin()), most = stored(x.amax()), same = least.eq(most);
    low = mote::where(same, least - 1, least), high = mote::where(same, most + 1, most);
  }
  const Tensor bin = ((x - low) * bins / (high - low)).clamp(0, bins - 1);
  const Tensor at = mote::where((x >= low) & (x <= high), bin, bins).to(DType::i32);
  return sum_at(at, at.ones_like(DType::i32), bins).to(dtype());
}

Tensor Tensor::bincount(const Tensor& weights, int64_t minlength, Loc where) const {
  Call call("bincount", where);
  expect_index(*this);
  expect(dim() == 1, "needs a vector, got shape ", *this);
  expect(minlength >= 0, "needs a minlength >= 0, got ", minlength);
  expect(!weights.defined() || dims_of(weights) == dims_of(*this), "weights of shape ", weights,
         " for numbers of shape ", *this);
  DType d = DType::i64;
  if (weights.defined()) d = weights.dtype() == DType::f32 ? DType::f32 : DType::f64;
  if (numel() == 0) return zeros({minlength}, {d, device()});
  const auto [least, most] = ends_of(*this);
  expect(least >= 0, "needs numbers >= 0, got ", least);
  const int64_t size = std::max(minlength, size_add(most, 1));
  const Tensor ones = ones_like(DType::i64);
  return sum_at(detach(), weights.defined() ? weights.detach().to(d) : ones, size);
}

}  // namespace mote
