// First and second derivatives of functions of two operands against closed forms in long double.
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
constexpr Real ln2 = std::numbers::ln2_v<Real>;

// Derivatives by x, y, and those of their sum.
struct Slopes {
  Real x, y, xx, xy, yy;
};
struct Pair {
  const char* name;
  Tensor (*f)(const Tensor& x, const Tensor& y);
  Slopes (*slopes)(Real x, Real y);
  double lo, hi, lo2, hi2;
  Slack slack = {};
};

constexpr Real unknown = std::numeric_limits<Real>::quiet_NaN();

// PyTorch has no derivative by the exponent for x < 0, and 0 for x = 0 <= y.
Slopes pow_slopes(Real x, Real y) {
  auto times = [](Real factor, Real value) { return factor == 0 ? 0 : factor * value; };
  Real p = std::pow(x, y), l = std::log(x);
  Slopes s{times(y, std::pow(x, y - 1)), p * l, unknown, unknown, unknown};
  if (x == 0) s.y = y >= 0 ? 0 : unknown;
  if (x <= 0 || p > 1e306L) return s;  // or the value itself is beyond the range
  s.xx = times(y * (y - 1), std::pow(x, y - 2));
  s.xy = std::pow(x, y - 1) * (1 + y * l);
  s.yy = p * l * l;
  return s;
}

Slopes atan2_slopes(Real y, Real x) {
  if (x == 0 && y == 0) return {0, 0, unknown, unknown, unknown};
  Real r = x * x + y * y;
  return {x / r, -y / r, -2 * x * y / (r * r), (y * y - x * x) / (r * r), 2 * x * y / (r * r)};
}

Slopes hypot_slopes(Real x, Real y) {
  if (x == 0 && y == 0) return {0, 0, unknown, unknown, unknown};
  Real h = std::hypot(x, y), a = x / h, b = y / h;
  // Of very different operands the second derivatives are small beside the parts they are made of.
  if (std::fabs(a * b) < 1e-2L) return {a, b, unknown, unknown, unknown};
  return {a, b, b * b / h, -a * b / h, a * a / h};
}

Slopes logaddexp_slopes(Real x, Real y, Real base) {
  Real d = (x - y) * base, s = 1 / (1 + std::exp(-d)), r = 1 / (1 + std::exp(d));
  return {s, r, s * r * base, -s * r * base, s * r * base};
}

Slopes xlogy_slopes(Real x, Real y) {
  if (y == 0) return {x == 0 ? 0 : -inf, x == 0 ? 0 : x * inf, unknown, unknown, unknown};
  return {std::log(y), x / y, 0, 1 / y, -x / (y * y)};
}

#define F(expression) [](const Tensor& x, const Tensor& y) -> Tensor { return expression; }
#define D(...) [](Real x, Real y) -> Slopes { return {__VA_ARGS__}; }

// clang-format off
const Pair pairs[] = {
    {"add", F(add(x, y)), D(1, 1 + 0 * (x - x + y - y), 0, 0, 0), -inf, inf, -inf, inf},
    {"sub", F(sub(x, y)), D(1, -1 + 0 * (x - x + y - y), 0, 0, 0), -inf, inf, -inf, inf},
    {"mul", F(mul(x, y)), D(y, x, 0, 1, 0), -inf, inf, -inf, inf},
    {"div", F(div(x, y)), D(1 / y, -x / (y * y), 0, -1 / (y * y), 2 * x / (y * y * y)), -1e9, 1e9,
     1e-9, 1e9},
    {"maximum", F(maximum(x, y)),
     D(x > y ? 1 : x == y ? 0.5L : 0, x < y ? 1 : x == y ? 0.5L : 0, 0, 0, 0), -inf, inf, -inf,
     inf},
    {"minimum", F(minimum(x, y)),
     D(x < y ? 1 : x == y ? 0.5L : 0, x > y ? 1 : x == y ? 0.5L : 0, 0, 0, 0), -inf, inf, -inf,
     inf},
    {"fmax", F(fmax(x, y)), D(x >= y ? 1.0L : 0, x < y ? 1.0L : 0, 0, 0, 0), -inf, inf, -inf, inf},
    {"fmin", F(fmin(x, y)), D(x <= y ? 1.0L : 0, x > y ? 1.0L : 0, 0, 0, 0), -inf, inf, -inf, inf},
    {"copysign", F(copysign(x, y)),
     D(x == 0 ? 0 : (x < 0) == std::signbit(y) ? 1.0L : -1.0L, 0, 0, 0, 0), -inf, inf, -inf, inf},
    {"pow", F(pow(x, y)), pow_slopes, 0, inf, -40, 40, {1 << 15, 4}},
    {"pow near 1", F(pow(x, y)), pow_slopes, 0, 4, -4, 4, {4096, 4}},
    {"atan2", F(atan2(x, y)), atan2_slopes, -inf, inf, -inf, inf},
    {"hypot", F(hypot(x, y)), hypot_slopes, -inf, inf, -inf, inf},
    {"logaddexp", F(logaddexp(x, y)), [](Real x, Real y) {return logaddexp_slopes(x, y, 1);},
     -inf, inf, -inf, inf, {64, 64}},
    {"logaddexp2", F(logaddexp2(x, y)), [](Real x, Real y) { return logaddexp_slopes(x, y, ln2); },
     -inf, inf, -inf, inf, {64, 64}},
    {"xlogy",      F(xlogy(x, y)),      xlogy_slopes, -1e9, 1e9, 0, inf},
};
// clang-format on

size_t check_pair(const Pair& p, size_t count, DType dtype, const std::string& device,
                  uint64_t seed) {
  Points points(seed, dtype);
  Values a = points.many(count, p.lo, p.hi), b = points.many(count, p.lo2, p.hi2);
  for (size_t i = 0; i < count; i += 5)
    if (a[i] >= p.lo2 && a[i] <= p.hi2) b[i] = a[i];  // ties
  const Options as{dtype, device};
  Tensor x = from_data(a, {count}, as).realize(), y = from_data(b, {count}, as).realize();
  std::vector<Tensor> first = p.f(x, y).sum().gradient({x, y}, {}, true);
  std::vector<Tensor> second = (first[0] + first[1]).sum().gradient({x, y}, {}, true);
  realize({first[0], first[1], second[0], second[1]});
  const Values got[] = {first[0].to_vector<double>(), first[1].to_vector<double>(),
                        second[0].to_vector<double>(), second[1].to_vector<double>()};
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    const Slopes s = p.slopes(a[i], b[i]);
    const Real want[] = {s.x, s.y, s.xx + s.xy, s.xy + s.yy};
    // The two second derivatives that are added may cancel.
    const Real added[] = {0, 0, std::fabs(s.xx) + std::fabs(s.xy),
                          std::fabs(s.xy) + std::fabs(s.yy)};
    for (int k = 0; k < 4; ++k) {
      Slack slack = p.slack;
      if (std::isfinite(added[k])) slack.absolute += static_cast<double>(slack.relative * added[k]);
      if (k > 1 && !(added[k] < 1e30L)) continue;
      if (is_near(got[k][i], want[k], dtype, slack) || ++wrong > 3) continue;
      FAIL_CHECK(device, " ", std::string(name(dtype)), " ", std::string(p.name), ", ", k, ", at ",
                 a[i], ", ", b[i], " is ", got[k][i], ", should be ", static_cast<double>(want[k]),
                 " (seed ", seed, ")");
    }
  }
  CHECK_MESSAGE(wrong == 0, std::string(p.name), ": ", wrong, " of ", 4 * count);
  return 4 * count;
}

TEST_CASE("derivative points: pairs have their closed forms") { check_rows(pairs, check_pair); }

TEST_SUITE_BEGIN("soak");

TEST_CASE("derivative points: pairs have their closed forms at very many points") {
  const uint64_t seed = point_seed();
  for (DType dtype : {DType::f32, DType::f64})
    check_rows(pairs, check_pair, scaled<size_t>(4000), dtype, "CPU", seed);
}

TEST_SUITE_END();

}  // namespace
