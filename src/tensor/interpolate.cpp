// Resizing, axis by axis: each output reads a few input positions with weights.
#include <algorithm>
#include <cmath>

#include "ir/eval.h"
#include "tensor/autocast.h"
#include "tensor/gather.h"
#include "tensor/spatial.h"

namespace mote {

namespace {

struct Axis {
  int64_t axis;
  Dim from, to;
  double factor;  // output sizes over input sizes, where that was said; 0: what the sizes make it
};

Tensor number(const Dim& d, const Tensor& x) {
  return make_value(prim::cast(index_node(d), DType::f64), x);
}
// Input steps for each output step, before align_corners.
Tensor scale_of(const Axis& a, const Tensor& x) {
  if (a.factor != 0) return full({}, 1 / a.factor, {DType::f64, x.device()});
  if (a.from.is_symbolic() || a.to.is_symbolic()) return number(a.from, x) / number(a.to, x);
  const double scale = static_cast<double>(a.from.size) / static_cast<double>(a.to.size);
  return full({}, scale, {DType::f64, x.device()});
}

Tensor output_positions(const Axis& a, const Tensor& x, DType dtype = DType::f64) {
  return iota_tensor(a.to, dtype, x.impl()->device);
}

Tensor read(const Tensor& x, const Axis& a, const Tensor& at) {
  return select_at(x, a.axis, at.clamp(0, number(a.from - 1, x).to(at.dtype())).to_long());
}

// A vector of weights along the axis.
Tensor along(const Tensor& weight, const Axis& a, const Tensor& x) {
  std::vector<Dim> shape(static_cast<size_t>(x.dim()), Dim(1));
  shape[static_cast<size_t>(a.axis)] = a.to;
  return reshaped(weight, shape).to(x.dtype());
}

// How often the nearest, in f32, repeats each input element; 0 if not all equally often.
int64_t repeats(const Axis& a) {
  if (a.from.is_symbolic() || a.to.is_symbolic() || a.to.size % a.from.size) return 0;
  const int64_t to = a.to.size, times = to / a.from.size;
  double scale =
      a.factor != 0 ? 1 / a.factor : static_cast<double>(a.from.size) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i)
    if (std::floor(static_cast<float>(i) * static_cast<float>(scale)) !=
        static_cast<float>(i / times))
      return 0;
  return times;
}

// In f32, as PyTorch computes it: which element is the nearest depends on the rounding. With
// two spatial axes the ratio of the sizes is the factor where it is 1 or 2.
Tensor nearest_axis(const Tensor& x, Axis a, bool exact) {
  if (!exact && x.dim() == 4) {
    if (a.to == a.from) return x;
    if (a.to == a.from * 2) a.factor = 2;
  }
  const Tensor scale = scale_of(a, x).to(DType::f32);
  if (exact)
    return read(x, a, ((output_positions(a, x) + 0.5) * scale.to(DType::f64)).to_float().floor());
  if (const int64_t times = repeats(a)) return x.repeat_interleave(times, a.axis);
  return read(x, a, (output_positions(a, x, DType::f32) * scale).floor());
}

// Where output centres fall on the input.
Tensor centres(const Axis& a, const Tensor& x, bool align_corners) {
  Tensor i = output_positions(a, x);
  if (!align_corners) return (i + 0.5) * scale_of(a, x) - 0.5;
  if (a.to.is_symbolic() || a.from.is_symbolic())
    return i * (number(a.from - 1, x) / number(a.to - 1, x).clamp_min(1));
  const auto from = static_cast<double>(a.from.size), to = static_cast<double>(a.to.size);
  return i * (to > 1 ? (from - 1) / (to - 1) : 0);
}

Tensor linear_axis(const Tensor& x, const Axis& a, bool align_corners) {
  if (a.to == a.from) return x;
  Tensor at = centres(a, x, align_corners).clamp_min(0), below = at.floor();
  Tensor part = along(at - below, a, x);
  return read(x, a, below) * (1 - part) + read(x, a, below + 1) * part;
}

// Keys' kernel with a = -0.75, as PyTorch.
Tensor cubic_axis(const Tensor& x, const Axis& a, bool align_corners) {
  constexpr double k = -0.75;
  Tensor at = centres(a, x, align_corners), below = at.floor(), t = at - below;
  auto inner = [&](const Tensor& d) { return ((k + 2) * d - (k + 3)) * d * d + 1; };
  auto outer = [&](const Tensor& d) { return ((k * d - 5 * k) * d + 8 * k) * d - 4 * k; };
  Tensor weights[] = {outer(t + 1), inner(t), inner(1 - t), outer(2 - t)}, sum;
  for (int i = 0; i < 4; ++i) {
    Tensor part = read(x, a, below + (i - 1)) * along(weights[i], a, x);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

// The size of a variable is scaled by sixteenths, which are exact.
Dim scaled(const Dim& from, double factor) {
  if (!from.is_symbolic())
    return scalar(DType::i64, std::floor(static_cast<double>(from.size) * factor)).i;
  const double parts = factor * 16;
  expect(parts == std::floor(parts) && parts > 0 && parts < 1e6, "scales the size ", said(from),
         " by multiples of 1/16, not by ", factor);
  return from * Dim(static_cast<int64_t>(parts)) / Dim(16);
}

std::vector<Axis> axes_of(const Tensor& x, const InterpolateOptions& o) {
  int64_t spatial = x.dim() - 2;
  expect(o.size.empty() != o.scale_factor.empty(), "needs either size or scale_factor");
  expect(o.size.empty() || !o.recompute_scale_factor,
         "recompute_scale_factor has no meaning with an explicit size");
  const bool by_factors = o.size.empty() && !o.recompute_scale_factor;
  std::vector<double> factors = o.scale_factor.list;
  if (factors.size() == 1) factors.assign(static_cast<size_t>(spatial), factors[0]);
  expect(o.scale_factor.empty() || static_cast<int64_t>(factors.size()) == spatial,
         "scale_factor needs one number, or one for each of the ", spatial, " spatial axes, got ",
         factors);
  std::vector<int64_t> sizes =
      o.size.empty() ? std::vector<int64_t>{} : per_axis(o.size, spatial, "size", 1);
  std::vector<Axis> out;
  for (int64_t i = 0; i < spatial; ++i) {
    auto s = static_cast<size_t>(i);
    const Dim from = dims_of(x)[s + 2];
    const Dim to = sizes.empty() ? scaled(from, factors[s]) : Dim(sizes[s]);
    expect(from != Dim(0) && least(to) > 0, "cannot resize an axis of size ", said(from), " to ",
           said(to));
    out.push_back({i + 2, from, to, by_factors ? factors[s] : 0});
  }
  return out;
}

}  // namespace

Tensor Tensor::interpolate(const InterpolateOptions& o, Loc where) const {
  Call call("interpolate", where);
  if (Recast as{call}) return as(*this).interpolate(o, where);
  int64_t spatial = dim() - 2;
  expect(spatial >= 1 && spatial <= 3, "needs an input (N, C, 1 to 3 spatial axes), got shape ",
         *this);
  std::string mode = word(o.mode, "the mode");
  std::vector<Axis> axes = axes_of(*this, o);
  if (mode == "area") {
    std::vector<int64_t> sizes;
    for (const Axis& a : axes) sizes.push_back(numeric(a.to));
    return spatial == 1   ? adaptive_avg_pool1d(sizes)
           : spatial == 2 ? adaptive_avg_pool2d(sizes)
                          : adaptive_avg_pool3d(sizes);
  }
  static constexpr const char* linear_names[] = {"linear", "bilinear", "trilinear"};
  bool is_linear = mode == linear_names[spatial - 1], is_cubic = mode == "bicubic" && spatial == 2;
  bool exact = mode == "nearest-exact";
  expect(is_linear || is_cubic || exact || mode == "nearest", "mode ", mode, " does not fit ",
         spatial, " spatial axes; there are nearest, nearest-exact, area, ",
         linear_names[spatial - 1], spatial == 2 ? " and bicubic" : "");
  expect(!is_linear || is_floating_point(), "mode ", mode, " needs a float tensor, got ", dtype());
  Tensor x = is_linear || is_cubic ? to(accumulator(dtype())) : *this;
  for (const Axis& a : axes)
    x = is_linear  ? linear_axis(x, a, o.align_corners)
        : is_cubic ? cubic_axis(x, a, o.align_corners)
                   : nearest_axis(x, a, exact);
  return x.to(dtype());
}

Tensor Tensor::pixel_shuffle(int64_t r, Loc where) const {
  Call call("pixel_shuffle", where);
  expect(dim() >= 3 && r > 0 && size(-3) % size_mul(r, r) == 0, "channels of shape ", *this,
         " cannot be divided by ", r, " x ", r);
  int64_t c = size(-3) / (r * r), h = size(-2), w = size(-1), n = dim() - 3;
  Tensor t = unflatten(-3, {c, r, r});                            // (.., c, r, r, h, w)
  return t.movedim({n + 1, n + 2}, {n + 2, n + 4}).reshape([&] {  // (.., c, h, r, w, r)
    std::vector<int64_t> out = shape();
    out[out.size() - 3] = c;
    out[out.size() - 2] = size_mul(h, r), out[out.size() - 1] = size_mul(w, r);
    return out;
  }());
}

Tensor Tensor::pixel_unshuffle(int64_t r, Loc where) const {
  Call call("pixel_unshuffle", where);
  expect(dim() >= 3 && r > 0 && size(-2) % r == 0 && size(-1) % r == 0, "an image of shape ", *this,
         " cannot be divided by ", r, " x ", r);
  int64_t c = size(-3), h = size(-2) / r, w = size(-1) / r, n = dim() - 3;
  Tensor t = unflatten(-1, {w, r}).unflatten(-3, {h, r});  // (.., c, h, r, w, r)
  std::vector<int64_t> out = shape();
  out[out.size() - 3] = size_mul(size_mul(c, r), r);
  out[out.size() - 2] = h, out[out.size() - 1] = w;
  return t.movedim({n + 2, n + 4}, {n + 1, n + 2}).reshape(out);
}

}  // namespace mote
