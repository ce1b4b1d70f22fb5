#include "onnx/sample.h"

namespace mote::onnx {

namespace {

Tensor sample_at(const Tensor& x, std::vector<Tensor> at, const Reading& how) {
  const int64_t n = x.size(0), channels = x.size(1), places = at[0].size(1);
  Tensor index = zeros({n, places}, Options{DType::i64, x.device()});
  Tensor inside = at[0].ones_like(DType::boolean);
  for (size_t d = 0; d < at.size(); ++d) {
    const auto size = static_cast<double>(x.size(static_cast<int64_t>(d) + 2));
    if (how.outside == Outside::reflection)
      at[d] = how.from_centres ? reflected(at[d], 0, size - 1) : reflected(at[d], -0.5, size - 0.5);
    inside = inside.logical_and(at[d] >= 0).logical_and(at[d] <= size - 1);
    index = index * x.size(static_cast<int64_t>(d) + 2) + at[d].clamp(0, size - 1).cast(DType::i64);
  }
  const Tensor flat = x.reshape({n, channels, -1});
  const Tensor out = flat.gather(2, index.unsqueeze(1).expand({n, channels, places}));
  return how.outside == Outside::zeros ? mote::where(inside.unsqueeze(1), out, out.zeros_like())
                                       : out;
}

}  // namespace

Tensor reflected(const Tensor& t, double lo, double hi) {
  if (hi <= lo) return t * 0 + lo;
  const double range = hi - lo;
  const Tensor along = (t - lo).abs().remainder(2 * range);
  return mote::where(along <= range, along, 2 * range - along) + lo;
}

std::vector<Tap> linear_taps(const Tensor& at) {
  const Tensor low = at.floor(), part = at - low;
  return {
      {low,     1 - part},
      {low + 1, part    }
  };
}

std::vector<Tap> cubic_taps(const Tensor& at, double a) {
  const Tensor low = at.floor(), t = at - low;
  auto outer = [&](const Tensor& s) { return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a; };
  auto inner = [&](const Tensor& s) { return ((a + 2) * s - (a + 3)) * s * s + 1; };
  return {
      {low - 1, outer(t + 1)},
      {low,     inner(t)    },
      {low + 1, inner(1 - t)},
      {low + 2, outer(2 - t)}
  };
}

Tensor sample(const Tensor& x, const std::vector<std::vector<Tap>>& taps, const Reading& how) {
  Tensor sum;
  std::vector<size_t> chosen(taps.size());
  for (bool more = true; more;) {
    std::vector<Tensor> at;
    Tensor weight;
    for (size_t d = 0; d < taps.size(); ++d) {
      const Tap& tap = taps[d][chosen[d]];
      at.push_back(tap.place);
      if (tap.weight.defined()) weight = weight.defined() ? weight * tap.weight : tap.weight;
    }
    Tensor term = sample_at(x, at, how);
    if (weight.defined()) term = term * weight.unsqueeze(1).cast(x.dtype());
    sum = sum.defined() ? sum + term : term;
    more = false;
    for (size_t d = taps.size(); d-- > 0 && !more;) {
      more = ++chosen[d] < taps[d].size();
      if (!more) chosen[d] = 0;
    }
  }
  return sum;
}

Tensor sample_linear(const Tensor& x, const std::vector<Tensor>& at) {
  std::vector<std::vector<Tap>> taps;
  for (const Tensor& t : at) taps.push_back(linear_taps(t));
  return sample(x, taps, {});
}

}  // namespace mote::onnx
