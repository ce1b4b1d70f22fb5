// Functions of f32 computed in f64: what f64 rounds on the way is far below the last place of the
// result, so nothing is carried along, and fits need some 2^-34.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "tensor/wide.h"

namespace mote {

namespace {

constexpr double kHalfPi = std::numbers::pi / 2;
constexpr double kLarge = 1e16;

// Minimax fits in relative error, highest power first.
constexpr double kAtan[] = {  // atan(t) / t in t^2, t <= 1
    -0x1.670670a3854dcp-11, 0x1.3de898e732893p-8, -0x1.07f8f6274113cp-6, 0x1.183e89716df85p-5,
    -0x1.bca75dceeace7p-5,  0x1.28c8d15163e2cp-4, -0x1.6fd49dbc7d09cp-4, 0x1.c6610fdc74035p-4,
    -0x1.24893261e571ep-3,  0x1.9999238d8f7e6p-3, -0x1.5555542695f25p-2, 0x1.ffffffff7ec3ep-1};
constexpr double kAsin[] = {  // asin(s) / s in s^2, s <= 1/2
    0x1.1e52946ff9712p-5, 0x1.d96cc43aa9bd4p-8, 0x1.94dfa0d0aac87p-6, 0x1.ed07e41a52f78p-6,
    0x1.6ddf1389c403dp-5, 0x1.33328d4f47fddp-4, 0x1.55555658bc1cdp-3, 0x1.ffffffffdece6p-1};
constexpr double kErfc[] = {  // (z + 3) e^(z * z) erfc(z) in (z - 3) / (z + 3), 0 <= z <= 10.2
    -0x1.f2e881ebe70e5p-23, 0x1.4a3f145110154p-15, 0x1.949b4ad677c6fp-14,  -0x1.2cb57419b54d8p-12,
    -0x1.1e46ce625be5ap-11, 0x1.8e2413c92972cp-9,  -0x1.3dda18ac8fe85p-10, -0x1.b78bd87ded1dep-6,
    0x1.e995ed85098bfp-4,   -0x1.3deb1ee9c1454p-2, 0x1.2e32694c16b04p-1,   -0x1.c44c4721342cfp-1,
    0x1.12f21ddd9d112p+0};

// The angle of the point (right, up), both >= 0.
Tensor steepness(const Tensor& up, const Tensor& right) {
  Tensor steep = right < up, low = where(steep, right, up), high = where(steep, up, right);
  Tensor t = low / where(high == 0, 1, high);
  t = where(low == std::numeric_limits<double>::infinity(), 1, t);
  Tensor angle = t * polynomial(t * t, kAtan);
  return where(steep, kHalfPi - angle, angle);
}

struct ArcSine {
  Tensor far, value;  // far: of |x| > 1/2, 2 asin(sqrt((1 - |x|) / 2)) = acos(|x|); else asin(|x|)
};
ArcSine arc_sine(const Tensor& size) {
  Tensor far = size > 0.5, rest = (1 - size) * 0.5;
  Tensor z = where(far, rest, size * size), s = where(far, rest.sqrt() * 2, size);
  return {far, s * polynomial(z, kAsin)};
}

// log(x + root), where x is so large that the root is x: log(2x). Squares stay within f32, for
// devices that have no f64.
Tensor log_of_sum(const Tensor& x, const Tensor& root) {
  Tensor large = x > kLarge;
  return where(large, x, x + root).log() + where(large, x.full_like(std::numbers::ln2), 0);
}

}  // namespace

Tensor atan_narrow(const Tensor& x) { return sign_of(x) * steepness(magnitude(x), x.ones_like()); }

Tensor atan2_narrow(const Tensor& y, const Tensor& x) {
  Tensor angle = steepness(y.abs(), x.abs());
  angle = where(x.signbit(), std::numbers::pi - angle, angle);
  return where(y.signbit(), -angle, angle);
}

Tensor asin_narrow(const Tensor& x) {
  auto [far, value] = arc_sine(magnitude(x));
  return sign_of(x) * where(far, kHalfPi - value, value);
}

Tensor acos_narrow(const Tensor& x) {
  auto [far, value] = arc_sine(magnitude(x));
  Tensor turn = where(far, x.full_like(std::numbers::pi), kHalfPi);
  Tensor left = x < 0, sum = where(left == far, turn - value, turn + value);
  return where(far & !left, value, sum);
}

Tensor log10_narrow(const Tensor& x) { return x.log() * std::numbers::log10e; }

// x - x^3 / 6 + ... where 1 + x would lose too much of it.
Tensor asinh_narrow(const Tensor& x) {
  Tensor a = magnitude(x), z = a * a, y = log_of_sum(a, (z + 1).sqrt());
  Tensor small = a + a * z * polynomial(z, std::array{-15.0 / 336, 3.0 / 40, -1.0 / 6});
  return sign_of(x) * where(a < 0x1p-8, small, y);
}

Tensor acosh_narrow(const Tensor& x) {
  Tensor y = log_of_sum(x, ((x - 1) * (x + 1)).sqrt());
  return where(x < 1, x.full_like(NAN), y);
}

Tensor atanh_narrow(const Tensor& x) {
  Tensor a = magnitude(x), z = a * a, y = ((1 + a) / (1 - a)).log() * 0.5;
  Tensor small = a + a * z * polynomial(z, std::array{1.0 / 7, 1.0 / 5, 1.0 / 3});
  return sign_of(x) * where(a < 0x1p-8, small, y);
}

Tensor erfc_narrow(const Tensor& x) {
  constexpr double kEnd = 10.2;  // from here on f32 has 0
  Tensor a = magnitude(x), z = where(a > kEnd, kEnd, a), inverse = 1.0 / (z + 3);
  Tensor y = (z * -z).exp() * (inverse * polynomial(1 - inverse * 6, kErfc));
  return where(x < 0, 2 - y, y);
}

}  // namespace mote
