// Reductions, scans and positions of extremes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/ops.h"

namespace mote::onnx {

namespace {

struct Reduction {
  Tensor x;
  Axes axes;
  bool keep;
  bool none;   // over no axes: each element by itself
  bool empty;  // over axes of which one has no elements
};

Reduction reduction(Call& c) {
  Reduction r{.x = c.x(0), .keep = c.i("keepdims", 1) != 0};
  for (const int64_t a : c.ints(1, "axes")) r.axes.list.push_back(axis_of(a, r.x.dim()));
  r.none = (r.axes.empty() && c.i("noop_with_empty_axes", 0) != 0) || r.x.dim() == 0;
  if (r.none) return r;
  if (r.axes.empty()) r.axes.list = iota(r.x.dim());
  r.empty = r.x.numel() == 0;
  return r;
}

Tensor filled(const Reduction& r, Number value) {
  std::vector<int64_t> shape;
  for (int64_t d = 0; d < r.x.dim(); ++d) {
    const auto& list = r.axes.list;
    const bool reduced = std::find(list.begin(), list.end(), d) != list.end();
    if (!reduced) shape.push_back(r.x.size(d));
    if (reduced && r.keep) shape.push_back(1);
  }
  return full(shape, value, {.dtype = r.x.dtype(), .device = r.x.device()});
}

Tensor sum_of(const Reduction& r, const Tensor& x) {
  return r.none ? x : x.sum(r.axes, r.keep, x.dtype());
}

Outputs reduce_sum(Call& c) {
  const Reduction r = reduction(c);
  return {sum_of(r, r.x)};
}
Outputs reduce_l1(Call& c) {
  const Reduction r = reduction(c);
  return {sum_of(r, r.x.abs())};
}
Outputs reduce_sum_square(Call& c) {
  const Reduction r = reduction(c);
  return {sum_of(r, r.x.square())};
}
// Of integers as well, whose squares are floats on the way.
Outputs reduce_l2(Call& c) {
  const Reduction r = reduction(c);
  const DType wide = is_int(r.x.dtype()) ? DType::f64 : r.x.dtype();
  return {sum_of(r, r.x.cast(wide).square()).sqrt().cast(r.x.dtype())};
}
Outputs reduce_log_sum(Call& c) {
  const Reduction r = reduction(c);
  return {sum_of(r, r.x).log().cast(r.x.dtype())};
}
Outputs reduce_log_sum_exp(Call& c) {
  const Reduction r = reduction(c);
  if (r.none) return {r.x};
  if (r.empty) return {filled(r, -INFINITY)};
  const DType wide = is_int(r.x.dtype()) ? DType::f64 : r.x.dtype();
  return {r.x.cast(wide).logsumexp(r.axes, r.keep).cast(r.x.dtype())};
}
Outputs reduce_mean(Call& c) {
  const Reduction r = reduction(c);
  if (r.none) return {r.x};
  if (is_float(r.x.dtype())) return {r.x.mean(r.axes, r.keep)};
  return {r.x.mean(r.axes, r.keep, DType::f64).cast(r.x.dtype())};
}
Outputs reduce_prod(Call& c) {
  const Reduction r = reduction(c);
  return {r.none ? r.x : r.x.prod(r.axes, r.keep, r.x.dtype())};
}

// The least and the largest value of a dtype, infinite where there is one.
Number limit(DType dtype, bool most) {
  if (is_float(dtype)) return most ? INFINITY : -INFINITY;
  if (dtype == DType::boolean) return most;
  const int bits = 8 * size_of(dtype);
  if (is_signed(dtype)) {
    const int64_t top = std::numeric_limits<int64_t>::max() >> (64 - bits);
    return most ? top : -top - 1;
  }
  if (!most) return 0;
  return bits == 64 ? Number(std::numeric_limits<uint64_t>::max())
                    : Number((int64_t{1} << bits) - 1);
}

Outputs reduce_extreme(Call& c, bool most) {
  const Reduction r = reduction(c);
  if (r.none) return {r.x};
  if (r.empty) return {filled(r, limit(r.x.dtype(), !most))};
  const bool is_bool = r.x.dtype() == DType::boolean;
  const Tensor x = is_bool ? r.x.cast(DType::u8) : r.x;
  return {(most ? x.amax(r.axes, r.keep) : x.amin(r.axes, r.keep)).cast(r.x.dtype())};
}
Outputs reduce_max(Call& c) { return reduce_extreme(c, true); }
Outputs reduce_min(Call& c) { return reduce_extreme(c, false); }

Outputs arg_extreme(Call& c, bool most) {
  Tensor x = c.x(0);
  const int64_t axis = axis_of(c.i("axis", 0), x.dim());
  const bool keep = c.i("keepdims", 1) != 0, last = c.i("select_last_index", 0) != 0;
  if (last) x = x.flip({axis});
  Tensor at = most ? x.argmax(axis, keep) : x.argmin(axis, keep);
  if (last) at = x.size(axis) - 1 - at;
  return {at.cast(DType::i64)};
}
Outputs arg_max(Call& c) { return arg_extreme(c, true); }
Outputs arg_min(Call& c) { return arg_extreme(c, false); }

// exclusive: each element is the fold of those before it; reverse: from the other end.
template <class F>
Outputs running(Call& c, double first, F f) {
  Tensor x = c.x(0);
  const DType dtype = x.dtype();
  const int64_t axis = axis_of(c.integer(1), x.dim());
  const bool reverse = c.i("reverse", 0) != 0;
  if (reverse) x = x.flip({axis});
  x = f(x, axis).cast(dtype);
  if (c.i("exclusive", 0) && x.size(axis) > 0) {
    std::vector<int64_t> one = x.shape();
    one[static_cast<size_t>(axis)] = 1;
    const Tensor start = full(one, first, {.dtype = dtype, .device = x.device()});
    x = cat({start, x.narrow(axis, 0, x.size(axis) - 1)}, axis);
  }
  return {reverse ? x.flip({axis}) : x};
}
Outputs cum_sum(Call& c) {
  return running(c, 0, [](const Tensor& x, int64_t axis) { return x.cumsum(axis, x.dtype()); });
}
Outputs cum_prod(Call& c) {
  return running(c, 1, [](const Tensor& x, int64_t axis) { return x.cumprod(axis, x.dtype()); });
}

Outputs top_k(Call& c) {
  const Tensor x = c.x(0);
  const int64_t axis = axis_of(c.i("axis", -1), x.dim());
  const int64_t k = c.has(1) ? c.integer(1) : c.i("k", -1);
  const bool largest = c.i("largest", 1) != 0, sorted = c.i("sorted", 1) != 0;
  ValuesIndices top = x.topk(k, axis, largest, sorted);
  return {top.values, top.indices};
}

Outputs mean_variance(Call& c) {
  const Tensor x = c.x(0);
  const Axes axes = c.has("axes") ? Axes(c.is("axes")) : Axes({0, 2, 3});
  const Tensor mean = x.mean(axes, true), square = x.square().mean(axes, true);
  return {(x - mean) / ((square - mean.square()).sqrt() + 1e-9)};
}

constexpr OpRow rows[] = {
    {"ReduceSum",                 1,  reduce_sum        },
    {"ReduceL1",                  1,  reduce_l1         },
    {"ReduceL2",                  1,  reduce_l2         },
    {"ReduceSumSquare",           1,  reduce_sum_square },
    {"ReduceLogSum",              1,  reduce_log_sum    },
    {"ReduceLogSumExp",           1,  reduce_log_sum_exp},
    {"ReduceMean",                1,  reduce_mean       },
    {"ReduceProd",                1,  reduce_prod       },
    {"ReduceMax",                 1,  reduce_max        },
    {"ReduceMin",                 1,  reduce_min        },
    {"ArgMax",                    1,  arg_max           },
    {"ArgMin",                    1,  arg_min           },
    {"CumSum",                    11, cum_sum           },
    {"CumProd",                   1,  cum_prod          },
    {"TopK",                      1,  top_k             },
    {"MeanVarianceNormalization", 9,  mean_variance     },
};

}  // namespace

OpTable reduce_ops() { return rows; }

}  // namespace mote::onnx
