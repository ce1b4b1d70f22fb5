// Windows of signals and numbers evenly spaced in their logarithm.
#include <mote/special.h>

#include <cmath>
#include <numbers>

#include "tensor/impl.h"
#include "tensor/operators.h"

namespace mote {

namespace {

// f of the points 0 ... n - 1 of a window and what the last one is.
template <class F>
Tensor window(int64_t n, bool periodic, const Options& o, F f) {
  expect(n >= 0, "needs a size >= 0, got ", n);
  const DType d = o.dtype == DType::none ? DType::f32 : o.dtype;
  expect(is_float(d), "windows have a float dtype, got ", d);
  if (n <= 1) return ones({n}, {d, o.device});
  const auto last = static_cast<double>(periodic ? n : n - 1);
  return f(arange(Number(n), {DType::f64, o.device}), last).to(d);
}

// a - b cos(2 pi i / last) + c cos(4 pi i / last)
Tensor cosines(int64_t n, bool periodic, double a, double b, double c, const Options& o) {
  return window(n, periodic, o, [&](const Tensor& i, double last) {
    Tensor turn = i * (2 * std::numbers::pi / last), sum = a - b * turn.cos();
    return c == 0 ? sum : sum + c * (2 * turn).cos();
  });
}

}  // namespace

Tensor hann_window(int64_t n, bool periodic, const Options& o, Loc where) {
  Call call("hann_window", where);
  return cosines(n, periodic, 0.5, 0.5, 0, o);
}
Tensor hamming_window(int64_t n, bool periodic, double alpha, double beta, const Options& o,
                      Loc where) {
  Call call("hamming_window", where);
  return cosines(n, periodic, alpha, beta, 0, o);
}
Tensor blackman_window(int64_t n, bool periodic, const Options& o, Loc where) {
  Call call("blackman_window", where);
  return cosines(n, periodic, 0.42, 0.5, 0.08, o);
}
Tensor bartlett_window(int64_t n, bool periodic, const Options& o, Loc where) {
  Call call("bartlett_window", where);
  return window(n, periodic, o,
                [](const Tensor& i, double last) { return 1 - (i * (2 / last) - 1).abs(); });
}
Tensor kaiser_window(int64_t n, bool periodic, double beta, const Options& o, Loc where) {
  Call call("kaiser_window", where);
  return window(n, periodic, o, [&](const Tensor& i, double last) {
    Tensor x = i * (2 / last) - 1, inside = (1 - x * x).clamp_min(0).sqrt() * beta;
    return special::i0e(inside) * (inside - beta).exp() / special::i0e(inside.full_like(beta));
  });
}

Tensor logspace(Number start, Number end, int64_t steps, double base, const Options& o, Loc where) {
  Call call("logspace", where);
  const DType d = o.dtype == DType::none ? DType::f32 : o.dtype;
  Tensor exponents = linspace(start, end, steps, {DType::f64, o.device});
  return mote::pow(base, exponents).to(d);
}

}  // namespace mote
