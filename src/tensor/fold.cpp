// Windows as columns and back, pools that keep positions, and small layers over channels and bags.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/gather.h"
#include "tensor/given.h"
#include "tensor/movement.h"
#include "tensor/operators.h"
#include "tensor/spatial.h"

namespace mote {

namespace {

using Numbers = std::vector<int64_t>;

struct Columns {
  Numbers kernel, dilation, padding, stride, count;
};
Columns columns_of(const Numbers& plane, const Ints& kernel, const FoldOptions& o) {
  const auto spatial = static_cast<int64_t>(plane.size());
  Columns c{per_axis(kernel, spatial, "kernel", 1),
            per_axis(o.dilation, spatial, "dilation", 1),
            per_axis(o.padding, spatial, "padding", 0),
            per_axis(o.stride, spatial, "stride", 1),
            {}};
  for (size_t i = 0; i < plane.size(); ++i) {
    const int64_t room = plane[i] + 2 * c.padding[i] - c.dilation[i] * (c.kernel[i] - 1) - 1;
    expect(room >= 0, "a window of ", c.dilation[i] * (c.kernel[i] - 1) + 1,
           " does not fit a padded axis of ", plane[i] + 2 * c.padding[i]);
    c.count.push_back(room / c.stride[i] + 1);
  }
  return c;
}

int64_t product_of(const Numbers& list) {
  int64_t all = 1;
  for (int64_t n : list) all *= n;
  return all;
}

// (..., kernel, count) to (..., length): window w has its position k at w * stride + k * dilation.
Tensor overlapped(const Tensor& x, int64_t stride, int64_t dilation, int64_t length) {
  const int64_t kernel = x.size(-2), count = x.size(-1);
  Tensor sum;
  for (int64_t k = 0; k < kernel; ++k) {
    Tensor apart = x.select(-2, k).unsqueeze(-1).pad({0, stride - 1}).flatten(-2);
    const int64_t before = k * dilation;
    apart = apart.pad({before, length - before - count * stride});
    sum = sum.defined() ? sum + apart : apart;
  }
  return sum;
}

Tensor lp_pool(const Tensor& x, double p, const Ints& kernel, const Ints& stride, bool ceil_mode,
               int64_t spatial) {
  expect_defined(x);
  expect(p != 0, "needs a norm of p != 0");
  AvgPoolOptions o;
  o.stride = stride, o.ceil_mode = ceil_mode;
  Tensor power = x.pow(p), mean = spatial == 1   ? power.avg_pool1d(kernel, o)
                                  : spatial == 2 ? power.avg_pool2d(kernel, o)
                                                 : power.avg_pool3d(kernel, o);
  const auto size = static_cast<double>(product_of(per_axis(kernel, spatial, "kernel", 1)));
  return (mean.sign() * mean.abs().relu() * size).pow(1 / p);
}

// One axis of an adaptive pool: the first largest of each part, and what was at its place in `at`.
ValuesIndices largest_along(const ValuesIndices& x, int64_t axis, int64_t parts, int64_t step) {
  const int64_t n = x.values.size(axis), widest = (n + parts - 1) / parts + 1;
  const Options on{DType::i64, x.values.device()};
  Tensor i = arange(Number(parts), on).unsqueeze(1);
  Tensor begin = (i * n).floor_divide(parts), end = ((i + 1) * n + (parts - 1)).floor_divide(parts);
  Tensor places = mote::minimum(begin + arange(Number(widest), on), end - 1).flatten();
  auto windows_of = [&](const Tensor& t) {
    return select_at(t, axis, places).unflatten(axis, {parts, widest});
  };
  Tensor seen = windows_of(x.values), best = seen.detach().argmax(axis + 1, true);
  Numbers shape(static_cast<size_t>(seen.dim()), 1);
  shape[static_cast<size_t>(axis)] = parts, shape[static_cast<size_t>(axis) + 1] = widest;
  Tensor flat = windows_of(x.indices) + places.reshape(shape) * step;
  auto chosen = [&](const Tensor& t) { return gather_at(t, axis + 1, best).squeeze(axis + 1); };
  return {chosen(seen), chosen(flat)};
}

ValuesIndices adaptive_max(const Tensor& t, const Ints& output, int64_t spatial) {
  expect_defined(t);
  Tensor x = batched(t, spatial);
  const Numbers sizes = per_axis(output, spatial, "output", 1);
  ValuesIndices out{x, x.zeros_like(DType::i64)};
  int64_t step = 1;
  for (int64_t i = spatial; i-- > 0; step *= x.size(i + 2))
    out = largest_along(out, i + 2, sizes[static_cast<size_t>(i)], step);
  if (t.dim() == spatial + 1) return {out.values.squeeze(0), out.indices.squeeze(0)};
  return out;
}

Tensor max_unpool(const Tensor& t, const Tensor& indices, const Ints& kernel,
                  const UnpoolOptions& o, int64_t spatial) {
  expect_defined(t);
  expect_defined(indices, "the indices");
  expect(dims_of(t) == dims_of(indices), "values of shape ", t, " and indices of shape ", indices,
         " differ");
  Tensor x = batched(t, spatial), at = batched(indices, spatial);
  const Numbers k = per_axis(kernel, spatial, "kernel", 1),
                p = per_axis(o.padding, spatial, "padding", 0);
  const Numbers s = o.stride.empty() ? k : per_axis(o.stride, spatial, "stride", 1);
  Numbers plane = x.shape(), out = plane;
  for (size_t i = 0; i < k.size(); ++i) out[i + 2] = (plane[i + 2] - 1) * s[i] - 2 * p[i] + k[i];
  if (!o.output_size.empty()) {
    const Numbers sizes = per_axis(o.output_size, spatial, "output_size", 1);
    std::copy(sizes.begin(), sizes.end(), out.begin() + 2);
  }
  Numbers rows = {out[0], out[1], product_of({out.begin() + 2, out.end()})};
  Tensor y = zeros(rows, {x.dtype(), x.device()}).scatter(2, at.flatten(2), x.flatten(2));
  y = y.reshape(out);
  return t.dim() == spatial + 1 ? y.squeeze(0) : y;
}

}  // namespace

Tensor unfold(const Tensor& t, const Ints& kernel, const FoldOptions& o, Loc where) {
  Call call("unfold", where);
  expect_defined(t);
  Tensor x = batched(t, 2);
  const Columns c = columns_of({x.size(2), x.size(3)}, kernel, o);
  Tensor padded = x.pad({c.padding[1], c.padding[1], c.padding[0], c.padding[0]});
  Tensor seen = make_value(windows(node_of(padded), c.kernel, c.stride, c.dilation), x);
  const Numbers shape = {x.size(0), x.size(1) * product_of(c.kernel), product_of(c.count)};
  Tensor out = seen.permute({0, 1, 4, 5, 2, 3}).reshape(shape);
  return t.dim() == 3 ? out.squeeze(0) : out;
}

Tensor fold(const Tensor& t, const Ints& output, const Ints& kernel, const FoldOptions& o,
            Loc where) {
  Call call("fold", where);
  expect_defined(t);
  expect(t.dim() == 2 || t.dim() == 3, "needs columns (N, C * kernel, positions), got shape ", t);
  Tensor x = t.dim() == 2 ? t.unsqueeze(0) : t;
  const Numbers plane = per_axis(output, 2, "output", 1);
  const Columns c = columns_of(plane, kernel, o);
  const int64_t window = product_of(c.kernel);
  expect(x.size(1) % window == 0 && x.size(2) == product_of(c.count), "columns of shape ", t,
         " are not those of ", product_of(c.count), " windows of ", window, " elements");
  Tensor sum =
      x.reshape({x.size(0), x.size(1) / window, c.kernel[0], c.kernel[1], c.count[0], c.count[1]});
  sum = sum.permute({0, 1, 2, 4, 3, 5});  // (N, C, kh, h, kw, w)
  sum = overlapped(sum, c.stride[1], c.dilation[1], plane[1] + 2 * c.padding[1]);
  sum = overlapped(sum.movedim(-1, 2), c.stride[0], c.dilation[0], plane[0] + 2 * c.padding[0]);
  sum = sum.movedim(2, -1)
            .narrow(-2, c.padding[0], plane[0])
            .narrow(-1, c.padding[1], plane[1])
            .clone();
  return t.dim() == 2 ? sum.squeeze(0) : sum;
}

// clang-format off
#define MOTE_POOLS(lp, adaptive, unpool, spatial) \
  Tensor lp(const Tensor& x, double p, const Ints& kernel, const Ints& stride, bool ceil_mode, \
            Loc where) { \
    Call call(#lp, where); return lp_pool(x, p, kernel, stride, ceil_mode, spatial); } \
  ValuesIndices adaptive(const Tensor& x, const Ints& output, Loc where) { \
    Call call(#adaptive, where); return adaptive_max(x, output, spatial); } \
  Tensor unpool(const Tensor& x, const Tensor& indices, const Ints& kernel, \
                const UnpoolOptions& o, Loc where) { \
    Call call(#unpool, where); return max_unpool(x, indices, kernel, o, spatial); }
MOTE_POOLS(lp_pool1d, adaptive_max_pool1d_with_indices, max_unpool1d, 1)
MOTE_POOLS(lp_pool2d, adaptive_max_pool2d_with_indices, max_unpool2d, 2)
MOTE_POOLS(lp_pool3d, adaptive_max_pool3d_with_indices, max_unpool3d, 3)
#undef MOTE_POOLS
// clang-format on

// The mean of the squares of so many neighbouring channels.
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k,
                           Loc where) {
  Call call("local_response_norm", where);
  expect_defined(x);
  expect(x.dim() >= 3, "needs an input (N, C, ...), got shape ", x);
  expect(size > 0, "needs a size > 0, got ", size);
  Numbers around(static_cast<size_t>(2 * (x.dim() - 1)), 0);
  around[around.size() - 2] = size / 2, around.back() = (size - 1) / 2;
  Tensor mean = x.square().pad(around).unfold(1, size, 1).mean(-1);
  return x / (mean * alpha + k).pow(beta);
}

Tensor channel_shuffle(const Tensor& x, int64_t groups, Loc where) {
  Call call("channel_shuffle", where);
  expect_defined(x);
  expect(x.dim() >= 3 && groups > 0 && x.size(1) % groups == 0, "channels of shape ", x,
         " cannot be divided into ", groups, " groups");
  return x.unflatten(1, {groups, x.size(1) / groups}).transpose(1, 2).flatten(1, 2).clone();
}

Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const Tensor& offsets,
                     const char* mode, const Tensor& per_sample_weights, int64_t padding_idx,
                     Loc where) {
  Call call("embedding_bag", where);
  expect_defined(indices, "the indices");
  expect_defined(weight, "the weight");
  const std::string how = word(mode, "the mode");
  expect(how == "sum" || how == "mean" || how == "max", "mode is sum, mean or max, got ", how);
  const bool in_rows = indices.dim() == 2;
  expect(in_rows != offsets.defined() && (in_rows || indices.dim() == 1),
         "needs indices (bags, size), or a vector and offsets, got shape ", indices);
  expect(!per_sample_weights.defined() ||
             (how == "sum" && dims_of(per_sample_weights) == dims_of(indices)),
         "per_sample_weights have the shape of the indices and go with mode sum");
  Tensor rows = indices.embedding(weight), bags;
  if (per_sample_weights.defined()) rows = rows * per_sample_weights.unsqueeze(-1);
  Tensor counts = indices.ne(padding_idx < 0 ? INT64_MIN : padding_idx).unsqueeze(-1);
  if (padding_idx < 0) counts = counts.ones_like();
  if (in_rows) {
    const int64_t axis = 1;
    if (how == "max") {
      Tensor best = mote::where(counts, rows, -INFINITY).max(axis).values;
      return mote::where(counts.any(axis), best, 0);
    }
    Tensor sum = mote::where(counts, rows, 0).sum(axis);
    return how == "sum" ? sum : sum / counts.to_long().sum(axis).clamp_min(1).to(sum.dtype());
  }
  expect_index(offsets);
  expect(offsets.dim() == 1, "needs a vector of offsets, got shape ", offsets);
  const int64_t count = offsets.numel();
  Tensor at = arange(Number(indices.numel()), {DType::i64, indices.device()}).unsqueeze(1);
  Tensor bag = checked((at >= offsets).sum(1) - 1, {Must::Row, count});  // the first begins at 0
  Tensor none = zeros({count, weight.size(1)}, {rows.dtype(), rows.device()});
  Tensor of_bag = zeros({count, 1}, {DType::i64, rows.device()});
  Tensor size = of_bag.index_add(0, bag, counts.to_long());
  if (how == "max") {
    Tensor place = broadcast_tensor(bag.unsqueeze(1), dims_of(rows));
    Tensor best =
        none.scatter_reduce(0, place, mote::where(counts, rows, -INFINITY), "amax", false);
    return mote::where(size > 0, best, 0);
  }
  Tensor sum = none.index_add(0, bag, mote::where(counts, rows, 0));
  return how == "sum" ? sum : sum / size.clamp_min(1).to(sum.dtype());
}

}  // namespace mote
