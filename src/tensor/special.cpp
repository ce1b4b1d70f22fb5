// Special functions, all computed in f64. Each is made of series that hold in some range, after
// steps or a reflection that bring its argument there; derivatives are given ones (given.h).
#include <mote/special.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/given.h"
#include "tensor/operators.h"
#include "tensor/wide.h"

namespace mote {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kPi = std::numbers::pi;

// f of t in f64, in t's float dtype, with the derivative of that name.
Tensor special_of(const Tensor& t, Tensor (*f)(const Tensor&), Given which) {
  Tensor x = t.to(DType::f64);
  return given(which, f(x), {x}).to(float_dtype(t.dtype()));
}

// The distance to the nearest integer, with its sign: sin(pi x) and tan(pi x) of it lose nothing.
Tensor from_integer(const Tensor& x) { return x - (x + 0.5).floor(); }

// The logarithm of gamma between 2 and 3 is z p(z) / q(z), z = x - 2 (Cephes).
Tensor lgamma_between(const Tensor& z) {
  Tensor p = polynomial(z, std::array{-1.37825152569120859100e3, -3.88016315134637840924e4,
                                      -3.31612992738871184744e5, -1.16237097492762307383e6,
                                      -1.72173700820839662146e6, -8.53555664245765465627e5});
  Tensor q = polynomial(z, std::array{1.0, -3.51815701436523470549e2, -1.70642106651881159223e4,
                                      -2.20528590553854454839e5, -1.13933444367982507207e6,
                                      -2.53252307177582951285e6, -2.01889141433532773231e6});
  return z * p / q;
}

// Of x > 0: below 13 by steps of 1 to there, from 13 on by Stirling's series.
Tensor lgamma_above(const Tensor& x) {
  Tensor far = x >= 13, u = where(far, 2, x), factor = u.ones_like();
  for (int step = 0; step < 11; ++step) {
    Tensor high = u >= 3, lower = u - 1;
    factor = where(high, factor * lower, factor);
    u = where(high, lower, u);
  }
  Tensor divisor = u.ones_like();
  for (int step = 0; step < 2; ++step) {
    Tensor low = u < 2;
    divisor = where(low, divisor * u, divisor);
    u = where(low, u + 1, u);
  }
  Tensor near = (factor / divisor).log() + lgamma_between(u - 2);
  Tensor y = where(far, x, 13), r = 1 / y, r2 = r * r;
  Tensor series = polynomial(
      r2, std::array{-691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12});
  Tensor away = (y - 0.5) * (y.log() - 1) + (0.5 * std::log(2 * kPi) - 0.5) + series * r;
  return where(far, where(x.isinf(), kInf, away), near);
}

Tensor lgamma_wide(const Tensor& x) {
  Tensor below = x < 0.5, u = where(below, 1 - x, x), r = from_integer(x);
  Tensor pole = below & (x.isinf() | r.eq(0)), sine = (where(pole, 0.5, r) * kPi).sin().abs();
  Tensor y = lgamma_above(u);
  return where(pole, kInf, where(below, std::log(kPi) - sine.log() - y, y));
}

// B(2), B(4), ...
constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30,       1.0 / 42,      -1.0 / 30,
                                 5.0 / 66,      -691.0 / 2730,   7.0 / 6,       -3617.0 / 510,
                                 43867.0 / 798, -174611.0 / 330, 854513.0 / 138};
constexpr int kTerms = 10;  // that are added one by one before the series of Euler and Maclaurin

// The sum of 1 / (q + k)^s for q > 0; power(t) is t^-s.
template <class F>
Tensor zeta_sum(const Tensor& q, const Tensor& s, F power) {
  Tensor sum = power(q), a = q + kTerms;
  for (int k = 1; k < kTerms; ++k) sum = sum + power(q + k);
  Tensor last = power(a), r = 1 / a;
  sum = sum + where(a.isinf(), 0, last * a) / (s - 1) + 0.5 * last;
  Tensor factor = last * r * s;
  double factorial = 2;
  for (int j = 1; j <= static_cast<int>(std::size(kBernoulli)); ++j) {
    sum = sum + factor * (kBernoulli[j - 1] / factorial);
    factor = factor * (s + (2 * j - 1)) * (s + 2 * j) * (r * r);
    factorial *= (2 * j + 1) * (2 * j + 2);
  }
  return sum;
}

Tensor digamma_above(const Tensor& q) {
  Tensor sum = 1 / q, a = q + kTerms;
  for (int k = 1; k < kTerms; ++k) sum = sum + 1 / (q + k);
  Tensor r = 1 / a, r2 = r * r, series = r2.zeros_like();
  for (size_t j = std::size(kBernoulli); j >= 1; --j)
    series = (series + kBernoulli[j - 1] / (2.0 * static_cast<double>(j))) * r2;
  return a.log() - 0.5 * r - series - sum;
}

// The n-th derivative of cot(pi x) is a polynomial of it: P' -> -pi (1 + c^2) P'.
Tensor cotangent_derivative(const Tensor& cotangent, int64_t n) {
  std::vector<double> p = {1, 0};  // of the highest power first
  for (int64_t k = 0; k < n; ++k) {
    std::vector<double> next(p.size() + 1, 0);
    for (size_t i = 0; i + 1 < p.size(); ++i) {
      const double slope = -kPi * p[i] * static_cast<double>(p.size() - 1 - i);
      next[i] += slope, next[i + 2] += slope;
    }
    p = next;
  }
  return polynomial(cotangent, p);
}

// psi(n, 1 - x) (-1)^n = psi(n, x) + pi d^n/dx^n cot(pi x).
Tensor polygamma_wide(const Tensor& x, int64_t n) {
  Tensor below = x < 0.5, q = where(below, 1 - x, x), r = from_integer(x), y;
  const double sign = n % 2 ? 1 : -1, mirrored = n % 2 ? -1 : 1;
  if (n == 0) {
    y = digamma_above(q);
  } else {
    const auto s = static_cast<double>(n + 1);
    y = zeta_sum(q, q.full_like(s), [&](const Tensor& t) { return (1 / t).pow(s); }) *
        (sign * std::tgamma(s));
  }
  Tensor pole = r.eq(0) | x.isinf(), angle = where(below & !pole, r, 0.25) * kPi;
  Tensor other = mirrored * y - kPi * cotangent_derivative(1 / angle.tan(), n);
  if (n % 2) return where(below, where(pole, where(x.isinf(), NAN, kInf), other), y);
  Tensor at_pole = where(x.eq(0), where(x.signbit(), kInf, -kInf), NAN);
  return where(below, where(pole, at_pole, other), where(x.isinf() & (n == 0), kInf, y));
}

// Acklam's fit of the normal distribution's quantile, 1e-9 of it, and one step of Halley's method.
// half: probability - 1/2; tail: the smaller of the probability and its complement.
Tensor quantile(const Tensor& half, const Tensor& tail) {
  Tensor far = tail < 0.02425, s = half * half;
  Tensor middle = half *
                  polynomial(s, std::array{-3.969683028665376e+01, 2.209460984245205e+02,
                                           -2.759285104469687e+02, 1.383577518672690e+02,
                                           -3.066479806614716e+01, 2.506628277459239e+00}) /
                  polynomial(s, std::array{-5.447609879822406e+01, 1.615858368580409e+02,
                                           -1.556989798598866e+02, 6.680131188771972e+01,
                                           -1.328068155288572e+01, 1.0});
  Tensor end = tail.eq(0), root = (-2 * where(end | !far, 0.01, tail).log()).sqrt();
  Tensor outer = polynomial(root, std::array{-7.784894002430293e-03, -3.223964580411365e-01,
                                             -2.400758277161838e+00, -2.549732539343734e+00,
                                             4.374664141464968e+00, 2.938163982698783e+00}) /
                 polynomial(root, std::array{7.784695709041462e-03, 3.224671290700398e-01,
                                             2.445134137142996e+00, 3.754408661907416e+00, 1.0});
  constexpr double scale = std::numbers::sqrt2 / 2;
  Tensor x = where(far, outer, middle);
  Tensor below = erfc_wide(where(far, -x, 0) * scale) * 0.5 - tail;
  Tensor off = where(far, below, (where(far, 0, x) * scale).erf() * 0.5 - half);
  Tensor u = off * (0.5 * x * x).exp() * std::sqrt(2 * kPi);
  x = x - u / (1 + 0.5 * x * u);
  x = where(end, -kInf, x);
  return where(far & (half > 0), -x, x);
}

Tensor erfinv_wide(const Tensor& y) {
  Tensor size = y.abs(), inside = where(size > 1, 0, y);
  Tensor x = quantile(inside * 0.5, (1 - where(size > 1, 0, size)) * 0.5);
  return where(size > 1, NAN, x * (std::numbers::sqrt2 / 2));
}

Tensor ndtri_wide(const Tensor& p) {
  Tensor outside = (p < 0) | (p > 1), inside = where(outside, 0.5, p);
  return where(outside, NAN, quantile(inside - 0.5, where(inside > 0.5, 1 - inside, inside)));
}

// Chebyshev series of e^-x I(x), of the first kind and order 0 and 1, for x in 0 ... 8 (order 1:
// divided by x), and times the root of x from there on.
// clang-format off
constexpr double kNear0[] = {
    0x1.5a84e9035a22ap-1, -0x1.37febc057cd8dp-2, 0x1.5f7ac77ac88c0p-3, -0x1.84b70342d06eap-4,
    0x1.93e8acea8a32dp-5, -0x1.84e9ef121b6f0p-6, 0x1.59961f3dde3ddp-7, -0x1.1b65e201aa849p-8,
    0x1.adc758a12100ep-10, -0x1.2e2fd1f15eb52p-11, 0x1.8b51b74107cabp-13, -0x1.e2b2659c41d5ap-15,
    0x1.13f58be9a2859p-16, -0x1.2866fcba56427p-18, 0x1.2bf24978cf4acp-20, -0x1.1ec638f227f8dp-22,
    0x1.03b769d4d6435p-24, -0x1.beaf68c0b30abp-27, 0x1.6d903a454cb34p-29, -0x1.1d4fe13ae9556p-31,
    0x1.a98becc743c10p-34, -0x1.2fc957a946abcp-36, 0x1.9fe2fe19bd324p-39, -0x1.1164c62ee1af0p-41,
    0x1.59b464b262627p-44, -0x1.a5022c297fbebp-47, 0x1.ee6d893f65ebap-50, -0x1.184eb721ebbb4p-52,
    0x1.33362977da589p-55, -0x1.45cb72134d0efp-58};
constexpr double kFar0[] = {
    0x1.9be62aca809cbp-1, 0x1.b998ca2e59049p-9, 0x1.20fa378999e52p-14, 0x1.8412bc101c586p-19,
    0x1.b8007d9cd616ep-23, 0x1.8569280d6d56dp-26, 0x1.d2c64a9225b87p-29, 0x1.0f9ccc0f46f75p-31,
    0x1.a24feabe8004fp-37, -0x1.1511d08397425p-35, -0x1.d0fd7357e7bf2p-37, -0x1.f904303178d66p-40,
    0x1.94347fa268cecp-41, 0x1.b1c8c6b83c073p-42, 0x1.156ff0d5fc545p-46, -0x1.75d99cf68bb32p-45,
    -0x1.583fe7e65629ap-47, 0x1.12a919094e6d7p-48, 0x1.fee7da3eafb1fp-50, -0x1.8aee7d908de38p-52,
    -0x1.4600babd21fe4p-52, 0x1.3f3dd076041cdp-55, 0x1.9be1812d98421p-55, -0x1.646da66119130p-58,
    -0x1.0adb754ca8b19p-57, 0x1.24d48c789b293p-60, 0x1.604db61ad3debp-60};
constexpr double kNear1[] = {
    0x1.02a63724a7ffap-2, -0x1.694d10469192ep-3, 0x1.a46dad536f53cp-4, -0x1.b1bbc537c9ebcp-5,
    0x1.951e3e7bb2349p-6, -0x1.5a29f7913a26ap-7, 0x1.1065349d3a1b4p-8, -0x1.8cc620b3cd4a4p-10,
    0x1.0c95db6c6df7dp-11, -0x1.533cad3d694fep-13, 0x1.911b542c70d0bp-15, -0x1.bd5f9b8debbcfp-17,
    0x1.d1c4ed511afc5p-19, -0x1.cc0798363992ap-21, 0x1.ae344b347d108p-23, -0x1.7dd3e24b8c3e8p-25,
    0x1.4258e02395010p-27, -0x1.0361b28ea67e6p-29, 0x1.8ea34b43fdf6cp-32, -0x1.2510397eb07dep-34,
    0x1.9cee2b21d3154p-37, -0x1.173835fb70366p-39, 0x1.6af784779d955p-42, -0x1.c628e1c8f0b3bp-45,
    0x1.11d7f0615290cp-47, -0x1.3eaaa7e0d1573p-50, 0x1.663e3e593bfacp-53, -0x1.857d0c38a0576p-56,
    0x1.99f2a0c3c4014p-59, -0x1.a21dbdbdd0288p-62};
constexpr double kFar1[] = {
    0x1.8ea18b55b1514p-1, -0x1.3fda053fcdb4cp-7, -0x1.cfd7f804aa9a6p-14, -0x1.048df49ca0373p-18,
    -0x1.0dbfd2e9e5443p-22, -0x1.c415394bb46c1p-26, -0x1.0790b9ad53528p-28,
    -0x1.334ca5423dd80p-31, -0x1.4dcf9d4504c0cp-36, 0x1.1e1a1f1587865p-35, 0x1.f101f653c457bp-37,
    0x1.1e7d3f6439fa3p-39, -0x1.953e1076ab493p-41, -0x1.cbc458e73e255p-42, -0x1.7a9482e6d22a0p-46,
    0x1.80d3c26b3281ep-45, 0x1.776e1762d31e8p-47, -0x1.12db5138afbc7p-48, -0x1.0efcd8bc4d22ap-49,
    0x1.7d68e5f04a2d1p-52, 0x1.55915fceb588ap-52, -0x1.2806c9c773320p-55, -0x1.acea3b2532277p-55,
    0x1.45b8aea87b950p-58, 0x1.1556db352e8e6p-57, -0x1.12e7f21d2c006p-60, -0x1.6ea1785f94461p-60};
// clang-format on

Tensor chebyshev(const Tensor& t, std::span<const double> c) {
  Tensor twice = t * 2, b0 = t.full_like(c.back()), b1 = t.zeros_like();
  for (size_t i = c.size() - 1; i-- > 1;) {
    Tensor next = twice * b0 - b1 + c[i];
    b1 = b0, b0 = next;
  }
  return t * b0 - b1 + c[0] * 0.5;
}

// e^-|x| I(x)
Tensor bessel_scaled(const Tensor& x, int order) {
  Tensor a = x.abs(), far = a > 8, small = where(far, 0, a), large = where(far, a, 8);
  const std::span<const double> near_fit = order ? std::span<const double>(kNear1) : kNear0;
  const std::span<const double> far_fit = order ? std::span<const double>(kFar1) : kFar0;
  Tensor near = chebyshev(small * 0.25 - 1, near_fit);
  Tensor y = where(far, chebyshev(16 / large - 1, far_fit) / large.sqrt(), near);
  return order ? where(far, where(x < 0, -y, y), x * near) : y;
}

Tensor i0_wide(const Tensor& x) {
  Tensor e = (x.abs() * 0.5).exp();  // twice, as the product overflows later than e^|x|
  return where(x.isinf(), kInf, bessel_scaled(x, 0) * e * e);
}
Tensor i1_wide(const Tensor& x) {
  Tensor e = (x.abs() * 0.5).exp();
  return where(x.isinf(), x, bessel_scaled(x, 1) * e * e);
}

Tensor ndtr_wide(const Tensor& x) { return erfc_wide(x * (-std::numbers::sqrt2 / 2)) * 0.5; }

Tensor log_ndtr_wide(const Tensor& x) {
  constexpr double scale = std::numbers::sqrt2 / 2;
  Tensor low = x < -1, z = where(low, x, -1);
  Tensor below = (erfcx_wide(-z * scale) * 0.5).log() - 0.5 * z * z;
  Tensor above = log1p_wide(erfc_wide(where(low, 0, x) * scale) * -0.5);
  return where(low, where(x.eq(-kInf), -kInf, below), above);
}

}  // namespace

Tensor Tensor::lgamma(Loc w) const {
  Call call("lgamma", w);
  return special_of(*this, lgamma_wide, Given::Lgamma);
}
Tensor Tensor::digamma(Loc w) const {
  Call call("digamma", w);
  return polygamma(0);
}
Tensor Tensor::polygamma(int64_t n, Loc w) const {
  Call call("polygamma", w);
  expect(n >= 0 && n <= 100, "needs an order from 0 to 100, got ", n);
  Tensor x = to(DType::f64);
  return given(Given::Polygamma, polygamma_wide(x, n), {x}, {&n, 1}).to(float_dtype(dtype()));
}
Tensor Tensor::mvlgamma(int64_t p, Loc w) const {
  Call call("mvlgamma", w);
  expect(p >= 1, "needs a dimension >= 1, got ", p);
  Tensor x = to(DType::f64), sum = x.lgamma();
  for (int64_t j = 1; j < p; ++j) sum = sum + (x - 0.5 * static_cast<double>(j)).lgamma();
  const auto pairs = static_cast<double>(p * (p - 1));
  return (sum + pairs * 0.25 * std::log(kPi)).to(float_dtype(dtype()));
}
Tensor Tensor::erfinv(Loc w) const {
  Call call("erfinv", w);
  return special_of(*this, erfinv_wide, Given::Erfinv);
}
Tensor Tensor::i0(Loc w) const {
  Call call("i0", w);
  return special_of(*this, i0_wide, Given::I0);
}

namespace special {

Tensor i0e(const Tensor& x, Loc w) {
  Call call("i0e", w);
  return special_of(
      x, [](const Tensor& t) { return bessel_scaled(t, 0); }, Given::I0e);
}
Tensor i1(const Tensor& x, Loc w) {
  Call call("i1", w);
  return special_of(x, i1_wide, Given::I1);
}
Tensor i1e(const Tensor& x, Loc w) {
  Call call("i1e", w);
  return special_of(
      x, [](const Tensor& t) { return bessel_scaled(t, 1); }, Given::I1e);
}
Tensor erfcx(const Tensor& x, Loc w) {
  Call call("erfcx", w);
  return special_of(x, erfcx_wide, Given::Erfcx);
}
Tensor entr(const Tensor& x, Loc w) {
  Call call("entr", w);
  Tensor f = x.to(accumulator(float_dtype(x.dtype()))), zero = f.eq(0);
  Tensor y = where(f < 0, -kInf, where(zero, 0, -f * where(zero, 1, f).log()));
  return given(Given::Entr, y, {f}).to(float_dtype(x.dtype()));
}
Tensor ndtr(const Tensor& x, Loc w) {
  Call call("ndtr", w);
  return special_of(x, ndtr_wide, Given::Ndtr);
}
Tensor log_ndtr(const Tensor& x, Loc w) {
  Call call("log_ndtr", w);
  return special_of(x, log_ndtr_wide, Given::LogNdtr);
}
Tensor ndtri(const Tensor& p, Loc w) {
  Call call("ndtri", w);
  return special_of(p, ndtri_wide, Given::Ndtri);
}

// Where x is 0 the logarithm does not count.
Tensor xlog1py(Operand a, Operand b, Loc w) {
  Call call("xlog1py", w);
  expect(a.tensor || b.tensor, "needs a tensor");
  const Tensor& like = a.tensor ? *a.tensor : *b.tensor;
  const DType d = float_dtype(result_type(a, b)), wide = accumulator(d);
  Tensor x = to_tensor(a, like, wide), y = to_tensor(b, like, wide);
  Tensor none = x.eq(0) & !y.isnan();
  Tensor out = where(none, 0, x * where(none, 0, y).log1p());
  auto fitted = [&](const Tensor& t) { return broadcast_tensor(t, dims_of(out)); };
  return given(Given::Xlog1py, out, {fitted(x), fitted(y)}).to(d);
}

Tensor zeta(Operand a, Operand b, Loc w) {
  Call call("zeta", w);
  expect(a.tensor || b.tensor, "needs a tensor");
  const Tensor& like = a.tensor ? *a.tensor : *b.tensor;
  Tensor s = to_tensor(a, like, DType::f64), q = to_tensor(b, like, DType::f64);
  Tensor undefined = (s < 1) | (q < 0), pole = s.eq(1) | q.eq(0);
  Tensor safe_s = where(undefined | pole, 2, s), safe_q = where(undefined | pole, 1, q);
  Tensor sum = zeta_sum(safe_q, safe_s, [&](const Tensor& t) { return t.pow(-safe_s); });
  return where(undefined, NAN, where(pole, kInf, sum)).to(float_dtype(result_type(a, b)));
}

}  // namespace special

}  // namespace mote
