// Resampling of images and volumes.
#include <algorithm>
#include <cmath>

#include "onnx/sample.h"

namespace mote::onnx {

namespace {

// One axis of a Resize.
struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1, roi_begin = 0, roi_end = 1;
};

struct Rules {
  std::string mode, transform, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool excludes_outside = false, antialias = false;
};

// Where output i lies in the input.
double origin(const Axis& a, const Rules& r, int64_t i) {
  const auto x = static_cast<double>(i), in = static_cast<double>(a.in);
  const double out = a.scale * in;
  if (r.transform == "align_corners") return out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (r.transform == "asymmetric") return x / a.scale;
  if (r.transform == "tf_crop_and_resize")
    return a.roi_begin * (in - 1) +
           (a.out > 1 ? x * (a.roi_end - a.roi_begin) * (in - 1) / (static_cast<double>(a.out) - 1)
                      : (a.roi_end - a.roi_begin) * (in - 1) / 2);
  if (r.transform == "pytorch_half_pixel" && a.out == 1) return -0.5;
  if (r.transform == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (r.transform == "half_pixel_symmetric")
    return in / 2 * (1 - static_cast<double>(a.out) / out) + (x + 0.5) / a.scale - 0.5;
  expect(r.transform == "half_pixel" || r.transform == "pytorch_half_pixel",
         "coordinate_transformation_mode ", quoted(r.transform), " is not known");
  return (x + 0.5) / a.scale - 0.5;
}

double nearest(const Rules& r, double x) {
  if (r.nearest == "floor") return std::floor(x);
  if (r.nearest == "ceil") return std::ceil(x);
  if (r.nearest == "round_prefer_ceil") return std::floor(x + 0.5);
  expect(r.nearest == "round_prefer_floor", "nearest_mode ", quoted(r.nearest), " is not known");
  return std::ceil(x - 0.5);
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// For each output the inputs that it is a weighted sum of: as many for each, cut to the border.
struct Weights {
  size_t taps = 0;
  std::vector<int64_t> place;  // (out, taps)
  std::vector<double> weight;
  std::vector<bool> outside;  // of the region
};

Weights weights_of(const Axis& a, const Rules& r) {
  Weights w;
  const double shrink = r.antialias ? std::min(a.scale, 1.0) : 1;
  const double reach = r.mode == "cubic" ? 2 : 1;
  const auto begin = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
  w.taps = r.mode == "nearest" ? 1 : static_cast<size_t>(2 - 2 * begin);
  for (int64_t i = 0; i < a.out; ++i) {
    const double x = origin(a, r, i);
    w.outside.push_back(x < 0 || x > static_cast<double>(a.in - 1));
    if (r.mode == "nearest") {
      w.place.push_back(std::clamp<int64_t>(static_cast<int64_t>(nearest(r, x)), 0, a.in - 1));
      w.weight.push_back(1);
      continue;
    }
    const auto low = static_cast<int64_t>(std::floor(x));
    double sum = 0;
    for (size_t t = 0; t < w.taps; ++t) {
      const int64_t at = low + begin + static_cast<int64_t>(t);
      const double d = (static_cast<double>(at) - x) * shrink;
      double v = r.mode == "cubic" ? cubic(r.cubic, d) : std::max(0.0, 1 - std::abs(d));
      if (r.excludes_outside && (at < 0 || at >= a.in)) v = 0;
      w.place.push_back(std::clamp<int64_t>(at, 0, a.in - 1));
      w.weight.push_back(v);
      sum += v;
    }
    if (r.excludes_outside || r.antialias)
      for (size_t t = 0; t < w.taps; ++t) w.weight[w.weight.size() - 1 - t] /= sum;
  }
  return w;
}

Tensor resampled(Call& c, const Tensor& x, int64_t axis, const Weights& w) {
  const auto out = static_cast<int64_t>(w.outside.size());
  std::vector<int64_t> along(static_cast<size_t>(x.dim()), 1);
  along[static_cast<size_t>(axis)] = out;
  if (w.taps > 8) {  // a product with the matrix of weights
    const int64_t in = x.size(axis);
    std::vector<float> matrix(static_cast<size_t>(in * out));
    for (size_t i = 0; i < w.place.size(); ++i)
      matrix[static_cast<size_t>(w.place[i] * out) + i / w.taps] += static_cast<float>(w.weight[i]);
    const Tensor m = c.constant(matrix, {in, out}).cast(x.dtype());
    return x.movedim({axis}, {-1}).matmul(m).movedim({-1}, {axis});
  }
  Tensor sum;
  for (size_t t = 0; t < w.taps; ++t) {
    std::vector<int64_t> place;
    std::vector<float> weight;
    for (int64_t i = 0; i < out; ++i) {
      place.push_back(w.place[static_cast<size_t>(i) * w.taps + t]);
      weight.push_back(static_cast<float>(w.weight[static_cast<size_t>(i) * w.taps + t]));
    }
    Tensor term = x.index_select(axis, c.constant(place));
    if (w.taps > 1) term = term * c.constant(weight, along).cast(x.dtype());
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

Tensor resize(Call& c, const Tensor& x, const std::vector<Axis>& axes, const Rules& r) {
  expect(r.mode == "nearest" || r.mode == "linear" || r.mode == "cubic", "the mode ",
         quoted(r.mode), " is not known");
  const bool crops = r.transform == "tf_crop_and_resize";
  const bool counts = r.mode != "nearest" && is_int(x.dtype());
  Tensor out = counts ? x.cast(DType::f32) : x, outside;
  for (size_t d = 0; d < axes.size(); ++d) {
    const Axis& a = axes[d];
    expect(a.in > 0 || a.out == 0, "an axis without elements cannot be resized");
    const bool same = a.in == a.out && a.scale == 1 && a.roi_begin == 0 && a.roi_end == 1;
    if (same) continue;
    const Weights w = weights_of(a, r);
    out = resampled(c, out, static_cast<int64_t>(d), w);
    if (!crops) continue;
    std::vector<int64_t> along(axes.size(), 1);
    along[d] = a.out;
    const Tensor here = c.constant(w.outside, along);
    outside = outside.defined() ? outside.logical_or(here) : here;
  }
  if (outside.defined()) out = out.masked_fill(outside, r.extrapolation);
  return counts ? out.round().cast(x.dtype()) : out;
}

constexpr int64_t largest = int64_t{1} << 28;  // of an axis: there are lists of its places

// The sizes asked for, one scale for all where the aspect is kept.
void set_sizes(std::vector<Axis>& axes, const std::vector<int64_t>& which,
               const std::vector<int64_t>& sizes, const std::string& policy) {
  expect(sizes.size() == which.size(), "there are ", sizes.size(), " sizes for ", which.size(),
         " axes");
  double common = policy == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < which.size(); ++i) {
    Axis& a = axes[static_cast<size_t>(which[i])];
    a.out = sizes[i];
    expect(a.out >= 0 && a.out < largest, "a size is ", a.out);
    a.scale = static_cast<double>(a.out) / static_cast<double>(a.in);
    common = policy == "not_larger" ? std::min(common, a.scale) : std::max(common, a.scale);
  }
  if (policy == "stretch") return;
  for (const int64_t axis : which) {
    Axis& a = axes[static_cast<size_t>(axis)];
    a.scale = common;
    a.out = static_cast<int64_t>(std::floor(common * static_cast<double>(a.in) + 0.5));
  }
}

void set_scales(std::vector<Axis>& axes, const std::vector<int64_t>& which,
                const std::vector<double>& scales) {
  expect(scales.size() == which.size(), "there are ", scales.size(), " scales for ", which.size(),
         " axes");
  for (size_t i = 0; i < which.size(); ++i) {
    Axis& a = axes[static_cast<size_t>(which[i])];
    expect(scales[i] > 0 && scales[i] * static_cast<double>(a.in) < largest, "a scale is ",
           scales[i]);
    a.scale = scales[i];
    a.out = static_cast<int64_t>(std::floor(static_cast<double>(a.in) * a.scale));
  }
}

std::vector<Axis> axes_of_shape(const Tensor& x) {
  std::vector<Axis> axes;
  for (const int64_t s : x.shape()) axes.push_back({.in = s, .out = s});
  return axes;
}

Outputs resize_11(Call& c) {
  const Tensor x = c.x(0);
  Rules r{.mode = c.s("mode", "nearest"),
          .transform = c.s("coordinate_transformation_mode", "half_pixel"),
          .nearest = c.s("nearest_mode", "round_prefer_floor"),
          .cubic = c.f("cubic_coeff_a", -0.75),
          .extrapolation = c.f("extrapolation_value", 0),
          .excludes_outside = c.i("exclude_outside", 0) != 0,
          .antialias = c.i("antialias", 0) != 0};
  std::vector<Axis> axes = axes_of_shape(x);
  std::vector<int64_t> which = c.has("axes") ? c.is("axes") : iota(x.dim());
  for (int64_t& a : which) a = axis_of(a, x.dim());
  const bool by_size = c.has(3) && c.value(3).tensor.numel() > 0;
  if (by_size)
    set_sizes(axes, which, c.ints(3), c.s("keep_aspect_ratio_policy", "stretch"));
  else
    set_scales(axes, which, c.reals(2));
  if (r.transform == "tf_crop_and_resize") {
    const std::vector<double> roi = c.reals(1);
    expect(roi.size() == 2 * which.size(), "roi has ", roi.size(), " numbers");
    for (size_t i = 0; i < which.size(); ++i) {
      Axis& a = axes[static_cast<size_t>(which[i])];
      a.roi_begin = roi[i], a.roi_end = roi[i + which.size()];
    }
  }
  return {resize(c, x, axes, r)};
}

// Resize of opset 10 and Upsample: scales only, from the first pixel on.
Outputs upsample(Call& c) {
  const Tensor x = c.x(0);
  std::vector<Axis> axes = axes_of_shape(x);
  std::vector<double> scales = c.has(1) ? c.reals(1) : c.fs("scales");
  if (c.has("height_scale")) scales = {1, 1, c.f("height_scale", 1), c.f("width_scale", 1)};
  set_scales(axes, iota(x.dim()), scales);
  const std::string mode = c.s("mode", "nearest");
  return {resize(c, x, axes,
                 {.mode = mode == "bilinear" ? "linear" : mode,
                  .transform = "asymmetric",
                  .nearest = "floor"})};
}

// Numbers from -1 to 1 to positions.
Tensor position_of(const Tensor& g, int64_t size, bool from_centres) {
  return from_centres ? (g + 1) * (static_cast<double>(size - 1) / 2)
                      : ((g + 1) * static_cast<double>(size) - 1) / 2;
}

Outputs grid_sample(Call& c) {
  const Tensor x = c.x(0), grid = c.x(1);
  const int64_t rank = x.dim() - 2;
  const std::string mode = c.s("mode", "linear"), padding = c.s("padding_mode", "zeros");
  Reading how{.from_centres = c.i("align_corners", 0) != 0};
  expect(padding == "zeros" || padding == "border" || padding == "reflection", "padding_mode ",
         quoted(padding), " is not known");
  if (padding == "border") how.outside = Outside::border;
  if (padding == "reflection") how.outside = Outside::reflection;
  expect(grid.size(-1) == rank, "the grid has ", grid.size(-1), " coordinates for ", rank, " axes");
  std::vector<std::vector<Tap>> taps;
  for (int64_t d = 0; d < rank; ++d) {
    const auto size = static_cast<double>(x.size(d + 2));
    Tensor at = position_of(grid.select(-1, rank - 1 - d).reshape({x.size(0), -1}), x.size(d + 2),
                            how.from_centres);
    const double lo = how.from_centres ? 0 : -0.5, hi = how.from_centres ? size - 1 : size - 0.5;
    if (mode == "nearest") at = at.round();
    if (padding == "border") at = at.clamp(0, size - 1);
    if (padding == "reflection") at = reflected(at, lo, hi);
    if (mode == "nearest")
      taps.push_back({
          {at, {}}
      });
    else if (mode == "linear" || mode == "bilinear")
      taps.push_back(linear_taps(at));
    else
      taps.push_back(cubic_taps(at, -0.75));
  }
  std::vector<int64_t> shape = grid.shape();
  shape.pop_back();
  shape.insert(shape.begin() + 1, x.size(1));
  return {sample(x, taps, how).reshape(shape)};
}

Outputs affine_grid(Call& c) {
  const Tensor theta = c.x(0);
  const std::vector<int64_t> size = c.ints(1);
  const auto rank = static_cast<int64_t>(size.size()) - 2;
  std::vector<int64_t> spatial(size.begin() + 2, size.end());
  std::vector<Tensor> all;  // x, y, (z,) 1
  for (int64_t d = rank - 1; d >= 0; --d) {
    const int64_t n = spatial[static_cast<size_t>(d)];
    std::vector<int64_t> along(static_cast<size_t>(rank), 1);
    along[static_cast<size_t>(d)] = n;
    const Tensor i = arange(n, c.options(theta.dtype())).reshape(along);
    const auto count = static_cast<double>(n);
    const Tensor at =
        c.i("align_corners", 0) ? i * (2 / std::max(count - 1, 1.0)) - 1 : (i * 2 + 1) / count - 1;
    all.push_back(at.expand(spatial));
  }
  all.push_back(all[0].ones_like());
  const Tensor points = stack(all, rank).reshape({1, -1, rank + 1});
  std::vector<int64_t> shape = {theta.size(0)};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.push_back(rank);
  return {points.matmul(theta.mT()).reshape(shape)};
}

constexpr OpRow rows[] = {
    {"Resize",     10, upsample   },
    {"Resize",     11, resize_11  },
    {"Upsample",   1,  upsample   },
    {"GridSample", 16, grid_sample},
    {"AffineGrid", 20, affine_grid},
};

}  // namespace

OpTable image_ops() { return rows; }

}  // namespace mote::onnx
