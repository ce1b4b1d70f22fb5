#include "tensor/operators.h"
#include "tensor/wide.h"

#include <cmath>
#include <numbers>

namespace mote {

Tensor magnitude(const Tensor& x) { return where(x < 0, -x, x); }
Tensor sign_of(const Tensor& x) { return where(x < 0, x.full_like(-1), x.ones_like()); }

Tensor polynomial(const Tensor& x, std::span<const double> coefficients) {
  Tensor y;
  for (double c : coefficients) y = y.defined() ? y * x + c : x.full_like(c);
  return y;
}

namespace {

// By the bits of an f64. An integer, |x| < 2^51: adding 1.5 * 2^52 leaves it in the low bits.
Tensor nearest(const Tensor& x) { return ((x + 0x1.8p52) - 0x1.8p52).detach(); }

// n an integer, -1023 <= n <= 1024; of these two 0 and infinity.
Tensor power_of_two(const Tensor& n) {
  return ((n + (0x1.8p52 + 1023)).bitcast(DType::i64) << 52).bitcast(DType::f64);
}

// A normal x > 0 = fraction * 2^exponent, sqrt(1/2) <= fraction < sqrt(2).
struct BinaryParts {
  Tensor exponent, fraction;
};
BinaryParts binary_parts(const Tensor& x) {
  constexpr int64_t kRootOfHalf = 0x3fe6a09e667f3bcd;
  Tensor bits = x.bitcast(DType::i64), n = (bits - kRootOfHalf) >> 52;
  return {n.to(DType::i32).to(DType::f64), (bits - (n << 52)).bitcast(DType::f64)};
}

// The exact sum or product of two numbers is high + low.
struct Sum {
  Tensor high, low;
};

Sum sum_of(const Tensor& a, const Tensor& b) {
  Tensor high = a + b, part = high - a;
  return {high, (a - (high - part)) + (b - part)};
}

// Halves of 26 bits have exact products.
Sum halves_of(const Tensor& x) {
  Tensor shifted = x * 0x8000001p0, high = shifted - (shifted - x);
  return {high, x - high};
}
Sum product_of(const Tensor& a, const Tensor& b) {
  Tensor p = a * b;
  Sum x = halves_of(a), y = halves_of(b);
  return {p, ((x.high * y.high - p) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

// a / (b.high + b.low), of a.high + a.low.
Sum quotient_of(const Sum& a, const Sum& b) {
  Tensor q = a.high / b.high;
  Sum p = product_of(q, b.high);
  return {q, (((a.high - p.high) - p.low) + (a.low - q * b.low)) / b.high};
}

Sum root_of(const Sum& a) {
  Tensor r = a.high.sqrt();
  Sum p = product_of(r, r);
  return {r, (((a.high - p.high) - p.low) + a.low) / (r * 2)};
}

// 1 / n! of the powers first, first - step, ... last of a series.
std::vector<double> inverse_factorials(int first, int last, int step = 1) {
  std::vector<double> out;
  for (int n = first; n >= last; n -= step)
    out.push_back(static_cast<double>(1 / std::tgamma(static_cast<long double>(n) + 1)));
  return out;
}

constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;

// e^(x.high + x.low) = 2^n * (1 + rest), without the rounding of the last sum.
struct Power {
  Tensor n;
  Sum value;
};
Power power_of_e(const Sum& x) {
  Tensor n = nearest(x.high * std::numbers::log2e);
  Tensor high = x.high - n * kLn2High, low = n * kLn2Low - x.low;
  Tensor rest = high - low, lost = (high - rest) - low;
  static const auto& series = *new std::vector(inverse_factorials(14, 2));
  Tensor bend = rest * rest * polynomial(rest, series) + lost;
  Sum line = sum_of(x.high.ones_like(), rest), all = sum_of(line.high, bend);
  return {
      n, {all.high, all.low + line.low}
  };
}

// (e^a + sign * e^-a) / 2, a >= 0. The last factor 2 is the one that may overflow.
Tensor half_sum(const Tensor& a, double sign) {
  Tensor top = where(a.full_like(711) < a, 711, a);
  Power e = power_of_e({top, top.zeros_like()});
  Tensor seen = where(e.n < 100, e.n, 100);  // beyond, the other power is lost in rounding
  Tensor other = power_of_two(seen * -2) / e.value.high * sign;
  return (e.value.high + (e.value.low + other)) * power_of_two(e.n - 2) * 2;
}

// log(u.high + u.low) of a normal u > 0: k log(2) + log(1 + f), the latter by s = f / (2 + f).
Sum logarithm(const Sum& u) {
  auto [k, m] = binary_parts(u.high);
  Tensor f = m - 1, s = f / (f + 2), z = s * s;
  static const auto& series = *new std::vector([] {
    std::vector<double> out;
    for (int n = 25; n >= 3; n -= 2) out.push_back(2.0 / n);
    return out;
  }());
  Sum square = product_of(f, f * 0.5);
  Tensor bend = s * (square.high + z * polynomial(z, series));
  Tensor small = bend + (k * kLn2Low + u.low / u.high);
  Sum line = sum_of(k * kLn2High, f), all = sum_of(line.high, -square.high);
  return {all.high, all.low + ((line.low - square.low) + small)};
}

Tensor rounded(const Sum& s) { return s.high + s.low; }

// log(1 + w), where w is small or large.
Tensor log_of_one_and(const Sum& w) {
  Sum u = sum_of(w.high.ones_like(), w.high);
  return rounded(logarithm({u.high, u.low + w.low}));
}

// log(2x) of a large x.
Tensor log_of_twice(const Tensor& x) {
  Sum l = logarithm({x * 0.5, x.zeros_like()});
  Sum all = sum_of(l.high, x.full_like(2 * kLn2High));
  return all.high + (all.low + (l.low + 2 * kLn2Low));
}

constexpr double kLarge = 1e8;  // from here on sqrt(x * x + 1) is x

Tensor finite_or(const Tensor& x, double otherwise) { return where(x.isfinite(), x, otherwise); }

// tan on |rest| <= pi/4, and -1 / tan.
std::vector<double> tangent_series() {
  std::vector<long double> c(60, 0);  // of x^n: the derivative is 1 + tan^2
  c[1] = 1;
  for (size_t n = 1; n + 1 < c.size(); ++n) {
    long double square = 0;
    for (size_t i = 0; i <= n; ++i) square += c[i] * c[n - i];
    c[n + 1] = square / static_cast<long double>(n + 1);
  }
  std::vector<double> out;
  for (size_t n = 57; n >= 3; n -= 2) out.push_back(static_cast<double>(c[n]));
  return out;
}

Tensor tangent(const Sum& rest, const Tensor& inverse) {
  static const auto& series = *new std::vector(tangent_series());
  Tensor z = rest.high * rest.high;
  Tensor bend = rest.high * z * polynomial(z, series) + rest.low * (z + 1);
  Sum t = sum_of(rest.high, bend);
  Sum safe = {where(inverse, t.high, 1), where(inverse, t.low, 0)};
  return where(inverse, rounded(quotient_of({-z.ones_like(), z.zeros_like()}, safe)), t.high);
}

// (z + 3/2) e^(z * z) erfc(z) in t = (z - 3/2) / (z + 3/2), fitted around four places.
constexpr double kErfcCentres[] = {-0x1.68ab82p-2, 0x1.2bc712p-8, 0x1.7209bap-2, 0x1.6fb22cp-1};
constexpr double kErfcEdges[] = {-0x1.63fc659b793e8p-3, 0x1.76b8d6be9a92cp-3, 0x1.145b84c62b991p-1,
                                 0x1.cb08d3dcb08d5p-1};
// clang-format off
constexpr double kErfcFits[4][22] = {
    {-0x1.d6c82d7f9e286p-26, -0x1.e111b94d68b27p-25, -0x1.dc8df6b0c5a7dp-25, 0x1.e0577224f88ep-25,
     0x1.aeefbbdb56fffp-22, 0x1.063868df107d6p-20, 0x1.42c4e83d402d3p-20, -0x1.80cce7d505f3bp-21,
     -0x1.faa5b0af5606cp-18, -0x1.3ccf8a05887a4p-16, -0x1.4021e55f8450bp-16, 0x1.3b6da2435decbp-15,
     0x1.a8dc2ccfbbab3p-13, 0x1.7ad39075e85a6p-12, -0x1.339539fce5b9ep-13, -0x1.44f41e77aeb12p-9,
     -0x1.50cb2dbfd83cdp-8, 0x1.56ea8d5ae263bp-8, 0x1.905ee34b86af6p-5, 0x1.771cbd512e511p-6,
     -0x1.15d07836adb6bp-1, 0x1.269df0b4e684dp+0},
    {0x1.75803c790d858p-21, 0x1.08bee2591ca0bp-20, 0x1.92dd0b5d3122dp-23, -0x1.2775abeba2d7cp-19,
     -0x1.67cafc544e99p-18, -0x1.68e3894585f33p-18, 0x1.169c37e1249f4p-18, 0x1.a554f8de892d9p-16,
     0x1.50e88fa387461p-15, 0x1.b1df951e5ce8ap-19, -0x1.08c384842dddp-13, -0x1.13f7f7bc37b5fp-12,
     -0x1.e7fb0ffc039d2p-15, 0x1.ce6fa6b2ddfb1p-11, 0x1.d8f56af64653ep-10, -0x1.8ad295c3d995bp-11,
     -0x1.36bbc0827d201p-7, -0x1.112b1f4ca6b69p-7, 0x1.8615ced243caep-5, 0x1.386d7cc42eb1dp-4,
     -0x1.03a9d85439b8p-1, 0x1.ecc44146184d6p-1},
    {-0x1.5a044a41899fep-19, -0x1.8fc94ecb3f64bp-16, -0x1.c9778f90814b1p-16, 0x1.1886c2706c0a5p-17,
     0x1.f0b7ccfc9c96cp-15, 0x1.00eadf38f3383p-14, -0x1.1954a1584a6f4p-15, -0x1.51edf5a9755cep-13,
     -0x1.0afdc52df5643p-13, 0x1.9051861b47f04p-13, 0x1.048f0cc5f662ep-11, 0x1.77ad3677c5b13p-14,
     -0x1.29c9cb8f8045ap-10, -0x1.527b7855738afp-10, 0x1.1b8794ecb9b07p-9, 0x1.69a60513b576fp-8,
     -0x1.2f7c1f43ffbb8p-8, -0x1.78ed6f9667009p-6, 0x1.8d1247ee2b36ap-6, 0x1.ddceed12a42c7p-4,
     -0x1.bf4d6d09b507ep-2, 0x1.961a462b88b6ep-1},
    {0x1.032395c725c66p-16, -0x1.2737f8a55ed61p-12, -0x1.0afb9900422bdp-13, 0x1.40a72d0935528p-12,
     0x1.0496d775ec42cp-12, -0x1.234dbb6c285d6p-12, -0x1.939e3aad347c7p-12, 0x1.0c7939beaf5c5p-12,
     0x1.307544d3be9f7p-11, -0x1.189e801052dbap-12, -0x1.e96f4ddfc6b1cp-11, 0x1.98a4735231a1bp-12,
     0x1.bad1cdeb4c86fp-10, -0x1.f5b001b7317dbp-11, -0x1.cde1f28795836p-9, 0x1.e5237c2065ef7p-9,
     0x1.064f15b140d0ep-7, -0x1.3e0f21d3b2194p-6, -0x1.218e6016773a9p-7, 0x1.fda13c4c16cb8p-4,
     -0x1.65084c7e3470ap-2, 0x1.4e464086b2c87p-1},
};
// clang-format on

Sum erfc_fit(const Tensor& t, const Tensor& lost) {
  auto chosen = [&](auto value_of_part) {
    Tensor out = t.full_like(value_of_part(3));
    for (int part = 2; part >= 0; --part)
      out = where(t > kErfcEdges[part], out, t.full_like(value_of_part(part)));
    return out;
  };
  auto coefficient = [&](size_t i) { return chosen([i](int part) { return kErfcFits[part][i]; }); };
  Tensor v = (t - chosen([](int part) { return kErfcCentres[part]; })) - lost, y = coefficient(0);
  constexpr size_t last = std::size(kErfcFits[0]) - 1;
  for (size_t i = 1; i < last; ++i) y = y * v + coefficient(i);
  return sum_of(coefficient(last), y * v);
}

}  // namespace

Tensor expm1_wide(const Tensor& x) {
  static const auto& series = *new std::vector(inverse_factorials(15, 2));
  static const auto& shorter = *new std::vector(inverse_factorials(9, 2));
  Tensor near = magnitude(x) < 0.5, small = where(near, x, 0);
  Tensor bend = small * small * polynomial(small, x.dtype() == DType::f64 ? series : shorter);
  return where(near, small + bend, x.exp() - 1);
}

Tensor sinh_wide(const Tensor& x) {
  Tensor a = magnitude(x);
  if (x.dtype() != DType::f64) {
    Tensor large = a > 9, e = expm1_wide(where(large, 1, a)),
           half = (where(large, a, 0) * 0.5).exp();
    return sign_of(x) * where(large, half * (half * 0.5), (e + e / (e + 1)) * 0.5);
  }
  static const auto& series = *new std::vector(inverse_factorials(21, 3, 2));
  Tensor near = a < 1, small = where(near, x, 0), z = small * small;
  Tensor odd = small + small * z * polynomial(z, series);
  return where(near, odd, sign_of(x) * half_sum(where(near, 1, a), -1));
}

Tensor cosh_wide(const Tensor& x) {
  Tensor a = magnitude(x);
  if (x.dtype() == DType::f64) return half_sum(a, 1);
  Tensor half = (a * 0.5).exp();
  return half * (half * 0.5) + (-a).exp() * 0.5;
}

// Up to 2^20 multiples of pi/2 are taken off in words whose products with their number are exact.
Tensor tan_wide(const Tensor& x) {
  Tensor quotient = x.sin() / x.cos();
  if (x.dtype() != DType::f64) return quotient;
  Tensor near = magnitude(x) <= 0x1p20, a = where(near, x, 0);
  Tensor n = nearest(a * (2 / std::numbers::pi)), half = n * 0.5;
  Sum first = sum_of(a - n * 0x1.921fb544p0, n * -0x1.0b4611a6p-34);
  Sum rest = sum_of(first.high, first.low - n * 0x1.3198a2e037073p-69);
  return where(near, tangent(rest, half.trunc().ne(half)), quotient);
}

Tensor log1p_wide(const Tensor& x) {
  Tensor u = x + 1;
  if (x.dtype() != DType::f64) {
    // 1 + x is rounded; its logarithm is corrected by what the rounding lost.
    Tensor lost = (x > -1) & (x < 1);
    Tensor correction = where(lost, (x - (u - 1)) / where(lost, u, 1), 0).detach();
    return where(x == 0, x, u.log() + correction);  // -0 is one of them
  }
  Tensor usual = (x > -1) & x.isfinite(), v = where(usual, x, 1);
  Tensor near = magnitude(v) < 1e-8;
  Tensor y = where(near, v - v * v * 0.5, log_of_one_and({v, v.zeros_like()}));
  return where(usual, y, u.log());
}

Tensor log10_wide(const Tensor& x) {
  Tensor usual = (x >= 0x1p-1022) & x.isfinite(), v = where(usual, x, 1);
  Sum l = logarithm({v, v.zeros_like()}), p = product_of(l.high, x.full_like(0x1.bcb7b1526e50ep-2));
  Tensor low = l.low * 0x1.bcb7b1526e50ep-2 + l.high * 0x1.95355baaafad3p-57;
  return where(usual, p.high + (p.low + low), x.log() * std::numbers::log10e);
}

// log(a + sqrt(a * a + 1)) = log1p(a + a * a / (1 + sqrt(a * a + 1))).
Tensor asinh_wide(const Tensor& x) {
  Tensor a = magnitude(x), large = a > kLarge, b = where(large | (a < 1e-4), 1, finite_or(a, 1));
  Sum square = product_of(b, b), more = sum_of(b.ones_like(), square.high);
  Sum root = root_of({more.high, more.low + square.low}), down = sum_of(b.ones_like(), root.high);
  Sum q = quotient_of(square, {down.high, down.low + root.low}), w = sum_of(b, q.high);
  Tensor near = log_of_one_and({w.high, w.low + q.low});
  Tensor y = where(large, log_of_twice(where(large, finite_or(a, kLarge), kLarge)), near);
  y = where(a < 1e-4, a - a * a * a / 6, y);
  return where(x.isfinite(), sign_of(x) * y, x);
}

// log(x + sqrt(x * x - 1)) = log1p(t + sqrt(t * t + 2 t)), t = x - 1.
Tensor acosh_wide(const Tensor& x) {
  Tensor large = x > kLarge, t = where(large | (x <= 1), 1, finite_or(x, 2) - 1);
  Sum square = product_of(t, t), more = sum_of(t * 2, square.high);
  Sum root = root_of({more.high, more.low + square.low}), w = sum_of(root.high, t);
  Tensor near = log_of_one_and({w.high, w.low + root.low});
  Tensor y = where(large, log_of_twice(where(large, finite_or(x, kLarge), kLarge)), near);
  // (x - 1).sqrt() is 0 or NaN up to 1, and infinity is left as it is.
  return where((x > 1) & x.isfinite(), y, (x - 1).sqrt());
}

// log1p(2a / (1 - a)) / 2.
Tensor atanh_wide(const Tensor& x) {
  Tensor a = magnitude(x), usual = (a < 1) & (a > 1e-4), b = where(usual, a, 0.5);
  Sum below = sum_of(b.ones_like(), -b), q = quotient_of({b * 2, b.zeros_like()}, below);
  Tensor y = sign_of(x) * log_of_one_and(q) * 0.5;
  Tensor small = x + x * x * x / 3, outside = x / where(a < 1, x.ones_like(), 1 - a);
  return where(usual, y, where(a < 1, small, where(a > 1, x.full_like(NAN), outside)));
}

// Below 0.46 1 - erf(x) loses nothing; elsewhere e^(-x * x) times a fit.
Tensor erfc_wide(const Tensor& x) {
  constexpr double kEnd = 27.5;  // from here on the result is 0
  Tensor near = x < 0.46, z = where(near | (x > kEnd), 1, x);
  Sum square = product_of(z, z), down = sum_of(z, z.full_like(1.5));
  Power e = power_of_e({-square.high, -square.low});
  Tensor t = (z - 1.5) / down.high;
  Sum q = quotient_of(erfc_fit(t, t * down.low / down.high), down);
  Sum p = product_of(e.value.high, q.high);
  Tensor y = p.high + (p.low + (e.value.low * q.high + e.value.high * q.low));
  Tensor half = nearest(e.n * 0.5);
  y = y * power_of_two(half) * power_of_two(e.n - half);
  return where(near, 1 - where(near, x, 0).erf(), where(x > kEnd, 0, y));
}

Tensor erfcx_wide(const Tensor& x) {
  Tensor near = x < 0.46, z = where(near | x.isinf(), 1, x);
  Sum down = sum_of(z, z.full_like(1.5));
  Tensor t = (z - 1.5) / down.high;
  Sum q = quotient_of(erfc_fit(t, t * down.low / down.high), down);
  Tensor low = where(near, x, 0), away = where(x.isinf(), 0, q.high + q.low);
  return where(near, (low * low).exp() * (1 - low.erf()), away);
}

}  // namespace mote
