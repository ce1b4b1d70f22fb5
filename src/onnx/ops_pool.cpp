// Pools.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/windows.h"

namespace mote::onnx {

namespace {

std::vector<int64_t> plus(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

std::vector<int64_t> kernel_axes(const Windows& w) {
  const auto rank = static_cast<int64_t>(w.rank());
  return iota(rank, 2 + rank);
}

Number lowest(DType dtype) {
  if (is_float(dtype)) return -INFINITY;
  return is_signed(dtype) ? -(int64_t{1} << (8 * size_of(dtype) - 1)) : int64_t{0};
}

// Where the windows' maxima stand in the whole input, row-major or (spatial axes) column-major.
Tensor places_of_maxima(Call& c, const Tensor& windows, const Windows& w,
                        const std::vector<int64_t>& shape) {
  const size_t rank = w.rank();
  std::vector<int64_t> flat(shape.begin(), shape.begin() + 2);
  flat.insert(flat.end(), w.out.begin(), w.out.end());
  flat.push_back(product(w.kernel));
  Tensor in_window = windows.reshape(flat).argmax(static_cast<int64_t>(rank) + 2).cast(DType::i64);
  std::vector<Tensor> at(rank);
  for (size_t d = rank; d-- > 0;) {
    std::vector<int64_t> along(rank + 2, 1);
    along[d + 2] = w.out[d];
    const Tensor window = arange(w.out[d], c.options(DType::i64)).reshape(along);
    at[d] = in_window % w.kernel[d] * w.dilation[d] + window * w.stride[d] - w.before[d];
    in_window = in_window.div(w.kernel[d], "floor");
  }
  const bool by_columns = c.i("storage_order", 0) != 0;
  Tensor place = at[by_columns ? rank - 1 : 0];
  for (size_t i = 1; i < rank; ++i) {
    const size_t d = by_columns ? rank - 1 - i : i;
    place = place * shape[d + 2] + at[d];
  }
  std::vector<int64_t> leading(rank + 2, 1);
  leading[0] = shape[0], leading[1] = shape[1];
  const Tensor plane = arange(shape[0] * shape[1], c.options(DType::i64)).reshape(leading);
  return plane * product(std::span(shape).subspan(2)) + place;
}

Outputs max_pool(Call& c) {
  const Tensor x = c.x(0);
  const Windows w = windows_of(c, x.shape(), c.is("kernel_shape"));
  const Tensor all = unfolded(padded(x, w.before, plus(w.after, w.extra), lowest(x.dtype())), w);
  const Tensor out = all.amax(kernel_axes(w));
  if (!c.wants(1)) return {out};
  return {out, places_of_maxima(c, all, w, x.shape())};
}

Outputs average_pool(Call& c) {
  const Tensor x = c.x(0);
  const Windows w = windows_of(c, x.shape(), c.is("kernel_shape"));
  const Tensor sum =
      unfolded(padded(x, w.before, plus(w.after, w.extra), 0), w).sum(kernel_axes(w));
  // What a window is divided by: its elements that are in the input, or in its padding as well.
  std::vector<int64_t> shape = x.shape();
  shape[0] = shape[1] = 1;
  const bool counts = c.i("count_include_pad", 0) != 0;
  const Tensor inside = padded(padded(ones(shape, c.options(x.dtype())), w.before, w.after, counts),
                               std::vector<int64_t>(w.rank()), w.extra, 0);
  return {sum / unfolded(inside, w).sum(kernel_axes(w))};
}

Tensor power_mean(const Tensor& x, double p, const Axes& axes, bool keep) {
  if (p == 2) return x.square().sum(axes, keep).sqrt();
  if (p == 1) return x.abs().sum(axes, keep);
  return x.abs().pow(p).sum(axes, keep).pow(1 / p);
}

Outputs lp_pool(Call& c) {
  const Tensor x = c.x(0);
  const Windows w = windows_of(c, x.shape(), c.is("kernel_shape"));
  const Tensor all = unfolded(padded(x, w.before, plus(w.after, w.extra), 0), w);
  const Attribute* p = c.attribute("p");  // a float in opset 1
  return {power_mean(all,
                     !p             ? 2
                     : p->kind == 1 ? p->real
                                    : static_cast<double>(p->integer),
                     kernel_axes(w), false)};
}

std::vector<int64_t> spatial(const Tensor& x) { return iota(x.dim() - 2, 2); }
Outputs global_average(Call& c) { return {c.x(0).mean(spatial(c.x(0)), true)}; }
Outputs global_max(Call& c) { return {c.x(0).amax(spatial(c.x(0)), true)}; }
Outputs global_lp(Call& c) {
  return {power_mean(c.x(0), static_cast<double>(c.i("p", 2)), spatial(c.x(0)), true)};
}

// Maxima back to the places that MaxPool said.
Outputs max_unpool(Call& c) {
  const Tensor x = c.x(0), at = c.x(1);
  const std::vector<int64_t> in = x.shape(), kernel = c.is("kernel_shape");
  std::vector<int64_t> stride = c.is("strides"), pads = c.is("pads"), shape = in;
  if (stride.empty()) stride.assign(kernel.size(), 1);
  pads.resize(2 * kernel.size());
  for (size_t d = 0; d < kernel.size(); ++d)
    shape[d + 2] = (in[d + 2] - 1) * stride[d] + kernel[d] - pads[d] - pads[kernel.size() + d];
  const std::vector<int64_t> wanted = c.has(2) ? c.ints(2) : shape;
  expect(wanted.size() == shape.size(), "output_shape has ", wanted.size(), " sizes");
  const int64_t rank = static_cast<int64_t>(kernel.size());
  // The places are those in an output without the larger shape.
  const Tensor flat = zeros({product(shape)}, c.options(x.dtype()));
  const Tensor small = flat.scatter(0, at.reshape({-1}), x.reshape({-1})).reshape(shape);
  std::vector<int64_t> more;
  for (int64_t d = rank; d-- > 0;) {
    const auto i = static_cast<size_t>(d + 2);
    more.push_back(0), more.push_back(wanted[i] - shape[i]);
  }
  return {small.pad(more)};
}

// The largest element of each cell of a region's grid, whose edges are whole pixels.
Outputs max_roi_pool(Call& c) {
  const Tensor x = c.x(0);
  const std::vector<double> rois = c.reals(1);
  const std::vector<int64_t> cells = c.is("pooled_shape");
  const double scale = c.f("spatial_scale", 1);
  expect(x.dim() == 4 && cells.size() == 2, "the input must have 4 axes");
  std::vector<Tensor> out;
  for (size_t r = 0; r + 5 <= rois.size(); r += 5) {
    const Tensor image = x.select(0, static_cast<int64_t>(rois[r]));
    int64_t from[2], extent[2];
    for (size_t d = 0; d < 2; ++d) {
      from[d] = std::lround(rois[r + 2 - d] * scale);
      extent[d] = std::max<int64_t>(std::lround(rois[r + 4 - d] * scale) - from[d] + 1, 1);
    }
    for (int64_t cell = 0; cell < cells[0] * cells[1]; ++cell) {
      Tensor part = image;
      for (size_t d = 0; d < 2; ++d) {
        const int64_t i = d ? cell % cells[1] : cell / cells[1], size = x.size(int64_t(d) + 2);
        const double each = static_cast<double>(extent[d]) / static_cast<double>(cells[d]);
        const auto edge = [&](double at) {
          return std::clamp(static_cast<int64_t>(at) + from[d], int64_t{0}, size);
        };
        const int64_t begin = edge(std::floor(double(i) * each)),
                      end = edge(std::ceil(double(i + 1) * each));
        part = part.narrow(static_cast<int64_t>(d) + 1, begin, std::max<int64_t>(end - begin, 0));
      }
      out.push_back(part.numel() ? part.amax({1, 2}) : zeros({x.size(1)}, c.options(x.dtype())));
    }
  }
  const auto count = static_cast<int64_t>(rois.size() / 5);
  if (count == 0) return {zeros({0, x.size(1), cells[0], cells[1]}, c.options(x.dtype()))};
  return {stack(out).reshape({count, cells[0], cells[1], x.size(1)}).permute({0, 3, 1, 2})};
}

constexpr OpRow rows[] = {
    {"MaxPool", 1, max_pool, "", false, false, true},
    {"AveragePool", 1, average_pool, "", false, false, true},
    {"LpPool", 1, lp_pool},
    {"GlobalAveragePool", 1, global_average, "", false, false, true},
    {"GlobalMaxPool", 1, global_max},
    {"GlobalLpPool", 1, global_lp},
    {"MaxUnpool", 9, max_unpool},
    {"MaxRoiPool", 1, max_roi_pool},
};

}  // namespace

OpTable pool_ops() { return rows; }

}  // namespace mote::onnx
