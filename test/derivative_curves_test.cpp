// First and second derivatives of elementwise functions against closed forms in long double, at
// points of all magnitudes and close to all special ones. Each function's points are one kernel.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "test/amount.h"
#include "test/derivative_points.h"

using namespace mote;
using namespace mote::test;

namespace {

using Real = long double;
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr Real pi = std::numbers::pi_v<Real>, ln2 = std::numbers::ln2_v<Real>;

struct Curve {
  const char* name;
  Tensor (*f)(const Tensor& x);
  Real (*first)(Real x);
  Real (*second)(Real x);
  double lo = -inf, hi = inf;
  Slack slack = {};
};

Real sigmoid(Real x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Real bell(Real x) { return 2 / std::sqrt(pi) * std::exp(-x * x); }
Real normal(Real x) { return std::exp(-x * x / 2) / std::sqrt(2 * pi); }
Real step(Real x) { return x > 0 ? 1 : 0; }
Real sign(Real x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
Real square(Real x) { return x * x; }
Real none(Real) { return 0; }
Real one(Real) { return 1; }

// sin(u) / u by its series near 0, u = pi x.
Real sinc_first(Real x) {
  Real u = pi * x, sum = 0, term = 1;
  if (std::fabs(u) > 1) return (std::cos(u) - std::sin(u) / u) / x;
  for (int k = 1; k < 16; ++k)
    sum += 2 * k * (term *= -1 / (2.0L * k * (2 * k + 1)) * (k > 1 ? u * u : 1));
  return sum * u * pi;
}
Real sinc_second(Real x) {
  Real u = pi * x, sum = 0, term = 1;
  if (std::fabs(u) > 1)
    return pi * pi * (-std::sin(u) / u - 2 * std::cos(u) / (u * u) + 2 * std::sin(u) / (u * u * u));
  for (int k = 1; k < 16; ++k)
    sum += 2 * k * (2 * k - 1) * (term *= -1 / (2.0L * k * (2 * k + 1)) * (k > 1 ? u * u : 1));
  return sum * pi * pi;
}

// x tanh(log(1 + e^x)), with t the tangent and s the sigmoid.
Real mish_tangent(Real x) { return std::tanh(x > 30 ? x : std::log1p(std::exp(x))); }
Real mish_first(Real x) {
  Real t = mish_tangent(x), far = std::fabs(x) > 200;
  return far ? step(x) : t + x * (1 - t * t) * sigmoid(x);
}
Real mish_second(Real x) {
  Real t = mish_tangent(x), s = sigmoid(x), d = (1 - t * t) * s;
  if (std::fabs(x) > 200) return 0;
  return 2 * d + x * (-2 * t * d * s + (1 - t * t) * s * (1 - s));
}

Real gelu_tanh(Real x, int order) {
  const Real c = std::sqrt(2 / pi), a = 0.044715L;
  if (std::fabs(x) > 50) return order == 1 ? step(x) : 0;
  Real u = c * (x + a * x * x * x), t = std::tanh(u), d = c * (1 + 3 * a * x * x);
  Real q = 1 / square(std::cosh(u));
  if (order == 1) return (1 + t) / 2 + x / 2 * q * d;
  return q * d + x / 2 * (-2 * t * q * d * d + q * c * 6 * a * x);
}

Real power(Real x, Real n, int order) {
  Real factor = order == 1 ? n : n * (n - 1);
  return factor == 0 ? 0 : factor * std::pow(x, n - order);
}

Real softplus2(Real x, int order) {
  if (2 * x > 20) return order == 1 ? 1 : 0;
  Real s = sigmoid(2 * x);
  return order == 1 ? s : 2 * s * (1 - s);
}

#define F(expression) [](const Tensor& x) -> Tensor { return expression; }
#define D(expression) [](Real x) -> Real { return expression; }

// clang-format off
const Curve curves[] = {
    {"neg", F(x.neg()), D(x * 0 - 1), none},
    {"positive", F(x.positive()), one, none},
    {"abs", F(x.abs()), sign, none},
    {"square", F(x.square()), D(2 * x), D(x * 0 + 2)},
    {"sqrt", F(x.sqrt()), D(1 / (2 * std::sqrt(x))), D(-1 / (4 * x * std::sqrt(x))), 0},
    {"rsqrt", F(x.rsqrt()), D(-1 / (2 * x * std::sqrt(x))), D(3 / (4 * x * x * std::sqrt(x))), 0},
    {"reciprocal", F(x.reciprocal()), D(-1 / (x * x)), D(2 / (x * x * x))},
    {"exp", F(x.exp()), D(std::exp(x)), D(std::exp(x))},
    {"exp2", F(x.exp2()), D(ln2 * std::exp2(x)), D(ln2 * ln2 * std::exp2(x))},
    {"expm1", F(x.expm1()), D(std::exp(x)), D(std::exp(x))},
    {"log", F(x.log()), D(1 / x), D(-1 / (x * x)), 0},
    {"log2", F(x.log2()), D(1 / (x * ln2)), D(-1 / (x * x * ln2)), 0},
    {"log10", F(x.log10()), D(1 / (x * std::log(10.0L))), D(-1 / (x * x * std::log(10.0L))), 0},
    {"log1p", F(x.log1p()), D(1 / (1 + x)), D(-1 / square(1 + x)), -1},
    {"sin", F(x.sin()), D(std::cos(x)), D(-std::sin(x)), -1e4, 1e4},
    {"cos", F(x.cos()), D(-std::sin(x)), D(-std::cos(x)), -1e4, 1e4},
    {"tan", F(x.tan()), D(1 / square(std::cos(x))), D(2 * std::tan(x) / square(std::cos(x))), -1.5,
     1.5, {512, 4}},
    {"asin", F(x.asin()), D(1 / std::sqrt((1 - x) * (1 + x))),
     D(x / std::pow((1 - x) * (1 + x), 1.5L)), -1, 1},
    {"acos", F(x.acos()), D(-1 / std::sqrt((1 - x) * (1 + x))),
     D(-x / std::pow((1 - x) * (1 + x), 1.5L)), -1, 1},
    {"atan", F(x.atan()), D(1 / (1 + x * x)), D(-2 * x / square(1 + x * x))},
    {"sinh", F(x.sinh()), D(std::cosh(x)), D(std::sinh(x))},
    {"cosh", F(x.cosh()), D(std::sinh(x)), D(std::cosh(x))},
    {"tanh", F(x.tanh()), D(1 / square(std::cosh(x))), D(-2 * std::tanh(x) / square(std::cosh(x)))},
    {"asinh", F(x.asinh()), D(1 / std::sqrt(1 + x * x)), D(-x / std::pow(1 + x * x, 1.5L))},
    {"acosh", F(x.acosh()), D(1 / std::sqrt((x - 1) * (x + 1))),
     D(-x / std::pow((x - 1) * (x + 1), 1.5L)), 1},
    {"atanh", F(x.atanh()), D(1 / ((1 - x) * (1 + x))), D(2 * x / square((1 - x) * (1 + x))), -1,
     1},
    {"erf", F(x.erf()), bell, D(x * x > 2000 ? 0 : -2 * x * bell(x)), -inf, inf, {2048, 4}},
    {"erfc", F(x.erfc()), D(-bell(x)), D(x * x > 2000 ? 0 : 2 * x * bell(x)), -inf, inf, {2048, 4}},
    {"sinc", F(x.sinc()), sinc_first, sinc_second, -100, 100, {512, 64}},
    {"floor", F(x.floor()), none, none},
    {"ceil", F(x.ceil()), none, none},
    {"trunc", F(x.trunc()), none, none},
    {"round", F(x.round()), none, none},
    {"frac", F(x.frac()), one, none},
    {"sign", F(x.sign()), none, none},
    {"sgn", F(x.sgn()), none, none},
    {"deg2rad", F(x.deg2rad()), D(x * 0 + pi / 180), none},
    {"rad2deg", F(x.rad2deg()), D(x * 0 + 180 / pi), none},
    {"nan_to_num", F(x.nan_to_num()), one, none},
    {"sigmoid", F(x.sigmoid()), D(sigmoid(x) * sigmoid(-x)),
     D(sigmoid(x) * sigmoid(-x) * (1 - 2 * sigmoid(x)))},
    {"logsigmoid", F(x.logsigmoid()), D(sigmoid(-x)), D(-sigmoid(x) * sigmoid(-x))},
    {"relu", F(x.relu()), step, none},
    {"relu6", F(x.relu6()), D(x > 0 && x < 6), none},
    {"silu", F(x.silu()), D(x < -11000 ? 0 : sigmoid(x) * (1 + x * sigmoid(-x))),
     D(std::fabs(x) > 11000 ? 0 : sigmoid(x) * sigmoid(-x) * (2 + x * (1 - 2 * sigmoid(x))))},
    {"swish", F(x.swish()), D(x < -11000 ? 0 : sigmoid(x) * (1 + x * sigmoid(-x))),
     D(std::fabs(x) > 11000 ? 0 : sigmoid(x) * sigmoid(-x) * (2 + x * (1 - 2 * sigmoid(x))))},
    {"mish",        F(x.mish()),             mish_first, mish_second, -inf, inf, {512, 64}},
    {"selu", F(x.selu()),
     D(1.0507009873554804934L * (x > 0 ? 1 : 1.6732632423543772848L * std::exp(x))),
     D(x < 0 ? 1.0507009873554804934L * 1.6732632423543772848L * std::exp(x) : 0)},
    {"hardswish", F(x.hardswish()), D(x <= -3 ? 0 : x < 3 ? x / 3 + 0.5L : 1),
     D(x > -3 && x < 3 ? 1 / 3.0L : 0)},
    {"hardsigmoid", F(x.hardsigmoid()),      D(x > -3 && x < 3 ? 1 / 6.0L : 0), none},
    {"softsign", F(x.softsign()), D(1 / square(1 + std::fabs(x))),
     D(-2 * sign(x) / (square(1 + std::fabs(x)) * (1 + std::fabs(x))))},
    {"tanhshrink", F(x.tanhshrink()), D(square(std::tanh(x))),
     D(2 * std::tanh(x) / square(std::cosh(x)))},
    {"gelu", F(x.gelu()),
     D(x * x > 20000 ? step(x) : std::erfc(-x / std::sqrt(2.0L)) / 2 + x * normal(x)),
     D(x * x > 20000 ? 0 : (2 - x * x) * normal(x)), -inf, inf, {2048, 16}},
    {"gelu tanh", F(x.gelu("tanh")), D(gelu_tanh(x, 1)), D(gelu_tanh(x, 2)), -inf, inf, {64, 1024}},
    {"elu", F(x.elu(1.5)), D(x > 0 ? 1 : 1.5L * std::exp(x)), D(x < 0 ? 1.5L * std::exp(x) : 0)},
    {"celu", F(x.celu(2)), D(x > 0 ? 1 : std::exp(x / 2)), D(x < 0 ? std::exp(x / 2) / 2 : 0)},
    {"leaky_relu", F(x.leaky_relu(0.25)), D(x > 0 ? 1 : 0.25L), none},
    {"hardtanh", F(x.hardtanh(-1, 2)), D(x > -1 && x < 2), none},
    {"hardshrink", F(x.hardshrink()), D(x < -0.5L || x > 0.5L), none},
    {"softshrink", F(x.softshrink()), D(x < -0.5L || x > 0.5L), none},
    {"threshold", F(x.threshold(1, 20)), D(x > 1), none},
    {"softplus", F(x.softplus(2)), D(softplus2(x, 1)), D(softplus2(x, 2))},
    {"logit", F(x.logit()), D(1 / (x * (1 - x))), D((2 * x - 1) / square(x * (1 - x))), 0, 1,
     {64, 64}},
    {"logit eps", F(x.logit(0.25)), D(x < 0.25L || x > 0.75L ? 0 : 1 / (x * (1 - x))),
     D(x < 0.25L || x > 0.75L ? 0 : (2 * x - 1) / square(x * (1 - x))), -inf, inf, {64, 64}},
    {"clamp", F(x.clamp(-1, 2)), D(x >= -1 && x <= 2), none},
    {"clip", F(x.clip(-1, 2)), D(x >= -1 && x <= 2), none},
    {"clamp_min", F(x.clamp_min(-1)), D(x >= -1), none},
    {"clamp_max", F(x.clamp_max(2)), D(x <= 2), none},
    {"pow 0", F(x.pow(0)), none, none},
    {"pow 1", F(x.pow(1)), one, none},
    {"pow 2", F(x.pow(2)), D(2 * x), D(x * 0 + 2)},
    {"pow 3", F(x.pow(3)), D(power(x, 3, 1)), D(power(x, 3, 2))},
    {"pow 7", F(x.pow(7)), D(power(x, 7, 1)), D(power(x, 7, 2))},
    {"pow -1", F(x.pow(-1)), D(power(x, -1, 1)), D(power(x, -1, 2))},
    {"pow -2", F(x.pow(-2)), D(power(x, -2, 1)), D(power(x, -2, 2))},
    {"pow 1/2", F(x.pow(0.5)), D(power(x, 0.5L, 1)), D(power(x, 0.5L, 2)), 0},
    {"pow -1/2", F(x.pow(-0.5)), D(power(x, -0.5L, 1)), D(power(x, -0.5L, 2)), 0},
    {"pow 3/2", F(x.pow(1.5)), D(power(x, 1.5L, 1)), D(power(x, 1.5L, 2)), 0, inf, {4096, 4}},
    {"pow 5/2", F(x.pow(2.5)), D(power(x, 2.5L, 1)), D(power(x, 2.5L, 2)), 0, inf, {4096, 4}},
    {"pow -5/4", F(x.pow(-1.25)), D(power(x, -1.25L, 1)), D(power(x, -1.25L, 2)), 0, inf,
     {4096, 4}},
    {"pow 17", F(x.pow(17)), D(power(x, 17, 1)), D(power(x, 17, 2)), -inf, inf, {4096, 4}},
    {"pow of 2", F(pow(2.0, x)), D(ln2 * std::exp2(x)), D(ln2 * ln2 * std::exp2(x)), -inf, inf,
     {4096, 4}},
    {"pow of 1", F(pow(1.0, x)), none, none},
    {"pow of 0", F(pow(0.0, x)), none, none, 0},
    {"add", F(x.add(3)), one, none},
    {"sub", F(sub(3.0, x)), D(x * 0 - 1), none},
    {"mul", F(x.mul(3)), D(x * 0 + 3), none},
    {"div", F(div(3.0, x)), D(-3 / (x * x)), D(6 / (x * x * x))},
    {"floor_divide", F(x.floor_divide(4)), none, none, -1e9, 1e9},
    {"heaviside", F(heaviside(x, 2.0)), none, none},
    {"true_divide", F(x.true_divide(4)), D(x * 0 + 0.25L), none},
};
// clang-format on

struct Found {
  std::vector<double> first, second;
};

Found derive(const Curve& c, const Values& points, DType dtype, const std::string& device) {
  Tensor x = from_data(points, {points.size()}, {dtype, device}).realize();
  Tensor first = c.f(x).sum().gradient({x}, {}, true)[0];
  Tensor second = first.sum().gradient({x}, {}, true)[0];
  realize({first, second});
  return {first.to_vector<double>(), second.to_vector<double>()};
}

// How many derivatives; those that are wrong are reported, a few of each curve.
size_t check_curve(const Curve& c, size_t count, DType dtype, const std::string& device,
                   uint64_t seed) {
  Points points(seed, dtype);
  const Values x = points.many(count, c.lo, c.hi);
  const Found got = derive(c, x, dtype, device);
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i)
    for (int order : {1, 2}) {
      const double is = (order == 1 ? got.first : got.second)[i];
      const Real should = (order == 1 ? c.first : c.second)(static_cast<Real>(x[i]));
      if (is_near(is, should, dtype, c.slack) || ++wrong > 3) continue;
      FAIL_CHECK(device, " ", std::string(name(dtype)), " ", std::string(c.name), ", derivative ",
                 order, " at ", x[i], " is ", is, ", should be ", static_cast<double>(should),
                 " (seed ", seed, ")");
    }
  CHECK_MESSAGE(wrong == 0, std::string(c.name), ": ", wrong, " of ", 2 * x.size());
  return 2 * x.size();
}

TEST_CASE("derivative points: curves have their closed forms") { check_rows(curves, check_curve); }

TEST_SUITE_BEGIN("soak");

TEST_CASE("derivative points: curves have their closed forms at very many points") {
  const uint64_t seed = point_seed();
  for (uint64_t round = 0; round < 2; ++round)
    for (DType dtype : {DType::f32, DType::f64})
      check_rows(curves, check_curve, scaled<size_t>(2000), dtype, "CPU", seed + 1000 * round);
  check_rows(curves, check_curve, scaled<size_t>(400), DType::f64, "INTERP", seed);
}

TEST_SUITE_END();

}  // namespace
