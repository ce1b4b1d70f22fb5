// Pools: a fold over the windows of the input.
#include <algorithm>
#include <limits>

#include "tensor/given.h"
#include "tensor/movement.h"
#include "tensor/recorded.h"
#include "tensor/spatial.h"

namespace mote {

namespace {

using Numbers = std::vector<int64_t>;

// Sizes of a pool per spatial axis, and how much is added behind to hold every window.
struct Windows {
  Numbers kernel, stride, dilation, before, after;
};

// PyTorch: with ceil_mode a last window may hang over, but must start inside the input or the
// padding before it.
Windows pool_windows(const Tensor& x, const Ints& kernel, const Ints& stride, const Ints& padding,
                     const Ints& dilation, bool ceil_mode) {
  int64_t spatial = x.dim() - 2;
  Windows w;
  w.kernel = per_axis(kernel, spatial, "kernel", 1);
  w.stride = stride.empty() ? w.kernel : per_axis(stride, spatial, "stride", 1);
  w.dilation = per_axis(dilation, spatial, "dilation", 1);
  w.before = per_axis(padding, spatial, "padding", 0);
  for (int64_t i = 0; i < spatial; ++i) {
    auto s = static_cast<size_t>(i);
    const Dim size = dims_of(x)[s + 2];
    const int64_t pad = w.before[s];
    int64_t reach = size_add(size_mul(w.dilation[s], w.kernel[s] - 1), 1);
    expect(pad <= w.kernel[s] / 2, "padding ", pad, " must be at most half the kernel ",
           w.kernel[s]);
    const Dim padded = size + Dim(2 * pad);
    expect(lies_within(0, reach, padded), "a window of ", reach, " does not fit a padded input of ",
           said(padded), " on spatial axis ", i);
    w.after.push_back(pad);
    if (!ceil_mode) continue;
    const int64_t length = numeric(size), room = padded.size - reach;
    int64_t count = room / w.stride[s] + 1;
    if (room % w.stride[s] && size_mul(count, w.stride[s]) < length + pad) ++count;
    w.after.back() = std::max((count - 1) * w.stride[s] + reach - length - pad, pad);
  }
  return w;
}

Numbers pad_list(const Windows& w) {
  Numbers out;
  for (size_t i = w.before.size(); i-- > 0;) out.insert(out.end(), {w.before[i], w.after[i]});
  return out;
}

// (..., spatial) to (..., windows, positions in them), padded with `fill`.
Tensor seen_through(const Tensor& x, const Windows& w, Number fill) {
  Tensor padded = x.pad(pad_list(w), "constant", fill);
  return make_value(windows(node_of(padded), w.kernel, w.stride, w.dilation), x);
}

// The axes of positions in windows.
Numbers inside_of(const Windows& w) {
  Numbers axes;
  for (auto i = -static_cast<int64_t>(w.kernel.size()); i < 0; ++i) axes.push_back(i);
  return axes;
}

// What each window sees, and the axes of positions within it. Windows that touch stay where they
// are in memory: only their axes are cut.
struct Seen {
  Tensor values;
  Numbers inside;
};
Seen seen_in_place(const Tensor& x, const Windows& w, Number fill) {
  const bool touching =
      w.kernel == w.stride && std::ranges::all_of(w.dilation, [](int64_t d) { return d == 1; });
  if (!touching) return {seen_through(x, w, fill), inside_of(w)};
  Ref cut = node_of(x.pad(pad_list(w), "constant", fill));
  Numbers inside;
  const auto spatial = static_cast<int64_t>(w.kernel.size());
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t axis = cut->shape->rank() - spatial + i, size = w.kernel[static_cast<size_t>(i)];
    cut = window_axis(cut, axis, size, size, 1);
    inside.push_back(axis + 1);
  }
  return {make_value(cut, x), inside};
}

Number lowest(DType d) {
  if (is_float(d)) return -std::numeric_limits<double>::infinity();
  return row(d).lo;
}

// Of equal elements the first has the derivative, as in PyTorch.
Tensor first_max(const Tensor& t, const Numbers& axes) {
  Tensor best = t.amax(axes, true);
  if (t.is_floating_point()) best = given(Given::FirstMax, best, {t});
  return best.squeeze(axes);
}

Numbers numbers_of(const Windows& w) {
  Numbers all;
  for (const Numbers* list : {&w.kernel, &w.stride, &w.dilation, &w.before, &w.after})
    all.insert(all.end(), list->begin(), list->end());
  return all;
}

Tensor unbatched(const Tensor& y, bool added) { return added ? y.squeeze(0) : y; }

// Positions along axes of a plane, on axis d steps[d] apart from first[d] on: flat, in its rows.
Tensor plane_positions(const Tensor& x, DType dtype, const Numbers& sizes, const Numbers& first,
                       const Numbers& steps) {
  const auto spatial = static_cast<int64_t>(sizes.size());
  Tensor sum;
  int64_t row = 1;
  for (int64_t d = spatial; d-- > 0; row *= x.size(x.dim() - spatial + d)) {
    const auto s = static_cast<size_t>(d);
    Numbers shape(sizes.size(), 1);
    shape[s] = sizes[s];
    Tensor along = iota_tensor(sizes[s], dtype, x.impl()->device).reshape(shape);
    along = along * (steps[s] * row) + first[s] * row;
    sum = sum.defined() ? sum + along : along;
  }
  return sum;
}

// The largest value of each window and where it is in the unpadded plane: of equal ones the first,
// which has the derivative. What is looked for in a window is the distance from its corner.
ValuesIndices max_through(const Tensor& x, const Windows& w) {
  const Numbers inside = inside_of(w), shape = x.shape();
  const Numbers plane(shape.begin() + 2, shape.end());
  Tensor seen = seen_through(x, w, lowest(x.dtype())), best = seen.amax(inside, true);
  Tensor hit = seen.eq(best) & seen_through(ones(plane, {DType::boolean, x.device()}), w, 0);
  if (x.is_floating_point()) hit = hit | seen.isnan();
  best = best.squeeze(inside);
  int64_t count = 1;
  for (int64_t n : plane) count *= n;
  const DType d = count < INT32_MAX / 2 ? DType::i32 : DType::i64;
  Numbers results = best.shape(), begin;
  results.erase(results.begin(), results.begin() + 2);
  for (int64_t pad : w.before) begin.push_back(-pad);
  Tensor far = plane_positions(x, d, w.kernel, Numbers(plane.size(), 0), w.dilation);
  Tensor first = where(hit, far, row(d).hi / 2).amin(inside);
  first = (first + plane_positions(x, d, results, begin, w.stride))
              .clamp(0, std::max<int64_t>(count - 1, 0));
  if (x.is_floating_point() && count > 0) {
    best = given(Given::TakenLast, best.flatten(2), {x.flatten(2), first.flatten(2)});
    best = reshaped(best, dims_of(first));
  }
  return {best, first.to(DType::i64)};
}

Tensor max_pool(const Tensor& t, const Ints& kernel, const MaxPoolOptions& o, int64_t spatial) {
  Tensor x = batched(t, spatial);
  Windows w = pool_windows(x, kernel, o.stride, o.padding, o.dilation, o.ceil_mode);
  const Seen seen = seen_in_place(x, w, lowest(x.dtype()));
  const bool overlapping = seen.inside == inside_of(w) && !node_of(x)->shape->symbolic;
  Tensor best = overlapping ? max_through(x, w).values : first_max(seen.values, seen.inside);
  best = recorded("max_pool", best, {&x}, [&] { return numbers_of(w); });
  return unbatched(best, t.dim() == spatial + 1);
}

ValuesIndices max_pool_at(const Tensor& t, const Ints& kernel, const MaxPoolOptions& o,
                          int64_t spatial) {
  Tensor x = batched(t, spatial);
  Windows w = pool_windows(x, kernel, o.stride, o.padding, o.dilation, o.ceil_mode);
  const auto [best, first] = max_through(x, w);
  bool added = t.dim() == spatial + 1;
  return {unbatched(best, added), unbatched(first, added)};
}

// What each window is divided by. PyTorch counts padding (if asked), but not the overhang.
Tensor divisor(const Tensor& x, const Windows& w, const AvgPoolOptions& o) {
  std::vector<int64_t> shape = x.shape(), plane(shape.begin() + 2, shape.end());
  Windows rest = w;
  for (size_t i = 0; i < plane.size(); ++i) {
    if (!o.count_include_pad) continue;
    plane[i] += 2 * w.before[i];
    rest.after[i] -= w.before[i];
    rest.before[i] = 0;
  }
  return seen_through(ones(plane, {x.dtype(), x.device()}), rest, 0).sum(inside_of(rest));
}

Tensor avg_pool(const Tensor& t, const Ints& kernel, const AvgPoolOptions& o, int64_t spatial) {
  expect(t.is_floating_point(), "needs a float tensor, got ", t.dtype());
  Tensor x = batched(t, spatial).to(accumulator(t.dtype()));
  Windows w = pool_windows(x, kernel, o.stride, o.padding, 1, o.ceil_mode);
  const Seen seen = seen_in_place(x, w, 0);
  Tensor sum = seen.values.sum(seen.inside);
  int64_t all = 1;
  for (int64_t k : w.kernel) all *= k;
  bool even =
      w.before == w.after && (o.count_include_pad || w.before == Numbers(w.before.size(), 0));
  Tensor out = o.divisor_override ? sum / o.divisor_override
               : even             ? sum / all
                                  : sum / divisor(x, w, o);
  out = out.to(t.dtype());
  // Others count what hangs over in another way.
  if (even && !o.divisor_override)
    out = recorded("avg_pool", out, {&x}, [&] { return numbers_of(w); });
  return unbatched(out, t.dim() == spatial + 1);
}

// Output i covers floor(i n / m) ... ceil((i+1) n / m) of one axis: a fold over a mask, or over a
// reshape where all parts are equal.
Tensor adaptive_axis(const Tensor& x, int64_t axis, int64_t m, bool average) {
  int64_t n = x.size(axis);
  expect(m > 0, "needs output sizes > 0, got ", m);
  if (n % m == 0) {
    Tensor parts = x.unflatten(axis, {m, n / m});
    return average ? parts.mean(axis + 1) : first_max(parts, {axis + 1});
  }
  std::string device = x.device();
  Tensor i = arange(Number(m), {DType::i64, device}).unsqueeze(1);
  Tensor at = arange(Number(n), {DType::i64, device});
  Tensor begin = (i * n).floor_divide(m), end = ((i + 1) * n + (m - 1)).floor_divide(m);
  Tensor inside = (at >= begin) & (at < end), rows = x.movedim(axis, -1).unsqueeze(-2);
  if (!average)
    return first_max(where(inside, rows, x.full_like(lowest(x.dtype())).flatten().narrow(0, 0, 1)),
                     {-1})
        .movedim(-1, axis);
  Tensor sum = where(inside, rows, 0).sum(-1);
  return (sum / (end - begin).squeeze(-1).to(x.dtype())).movedim(-1, axis);
}

Tensor adaptive(const Tensor& t, const Ints& output, int64_t spatial, bool average) {
  Tensor x = batched(t, spatial);
  expect(!average || t.is_floating_point(), "needs a float tensor, got ", t.dtype());
  Numbers sizes = per_axis(output, spatial, "output", 1);
  x = average ? x.to(accumulator(t.dtype())) : x;
  // The last axis first, so that of equal elements the first in row-major order is the maximum.
  for (int64_t i = spatial; i-- > 0;)
    x = adaptive_axis(x, i + 2, sizes[static_cast<size_t>(i)], average);
  return unbatched(x.to(t.dtype()), t.dim() == spatial + 1);
}

}  // namespace

// clang-format off
#define MOTE_MAX_POOL(name, with_indices, spatial) \
  Tensor Tensor::name(const Ints& kernel, const MaxPoolOptions& o, Loc w) const { \
    Call call(#name, w); return max_pool(*this, kernel, o, spatial); } \
  ValuesIndices Tensor::with_indices(const Ints& kernel, const MaxPoolOptions& o, Loc w) const { \
    Call call(#name, w); return max_pool_at(*this, kernel, o, spatial); }
MOTE_MAX_POOL(max_pool1d, max_pool1d_with_indices, 1)
MOTE_MAX_POOL(max_pool2d, max_pool2d_with_indices, 2)
MOTE_MAX_POOL(max_pool3d, max_pool3d_with_indices, 3)
#define MOTE_AVG_POOL(name, spatial) \
  Tensor Tensor::name(const Ints& kernel, const AvgPoolOptions& o, Loc w) const { \
    Call call(#name, w); return avg_pool(*this, kernel, o, spatial); }
MOTE_AVG_POOL(avg_pool1d, 1)
MOTE_AVG_POOL(avg_pool2d, 2)
MOTE_AVG_POOL(avg_pool3d, 3)
#define MOTE_ADAPTIVE(name, spatial, average) \
  Tensor Tensor::name(const Ints& output, Loc w) const { \
    Call call(#name, w); return adaptive(*this, output, spatial, average); }
MOTE_ADAPTIVE(adaptive_avg_pool1d, 1, true)
MOTE_ADAPTIVE(adaptive_avg_pool2d, 2, true)
MOTE_ADAPTIVE(adaptive_avg_pool3d, 3, true)
MOTE_ADAPTIVE(adaptive_max_pool1d, 1, false)
MOTE_ADAPTIVE(adaptive_max_pool2d, 2, false)
Tensor adaptive_max_pool3d(const Tensor& x, const Ints& output, Loc w) {
  Call call("adaptive_max_pool3d", w); return adaptive(x, output, 3, false); }
#undef MOTE_MAX_POOL
#undef MOTE_AVG_POOL
#undef MOTE_ADAPTIVE
// clang-format on

}  // namespace mote
