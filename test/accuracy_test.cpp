// How far functions of f64 and f32 are from the exact result, in units of the last place.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <chrono>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "test/amount.h"

using namespace mote;

namespace {

using Exact = long double;

struct Function {
  const char* name;
  Tensor (*ours)(const Tensor& x);
  Exact (*exact)(Exact x);
  double f64_ulps, f32_ulps;  // the bounds of docs/semantics.md
};

Exact exact_sigmoid(Exact x) {
  Exact e = std::exp(-std::fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
Exact exact_logsigmoid(Exact x) { return (x < 0 ? x : 0) - std::log1p(std::exp(-std::fabs(x))); }

// Beyond 2^20 tan is the quotient of sin and cos.
constexpr double kFar = 0x1p20;
Tensor near_tan(const Tensor& x) { return where(x.abs() <= kFar, x, 0).tan(); }
Tensor far_tan(const Tensor& x) { return where(x.abs() <= kFar, 0, x).tan(); }
Exact exact_near_tan(Exact x) { return std::fabs(x) <= kFar ? std::tan(x) : 0; }
Exact exact_far_tan(Exact x) { return std::fabs(x) <= kFar ? 0 : std::tan(x); }

#define WITH(name, exact, f64, f32)                                  \
  {                                                                  \
#name, [](const Tensor& x) { return x.name(); }, exact, f64, f32 \
  }
#define FUNCTION(name, f64, f32) \
  WITH(                          \
      name, [](Exact x) -> Exact { return std::name(x); }, f64, f32)

// clang-format off
const Function functions[] = {
    FUNCTION(sqrt, 0.5, 0.5), FUNCTION(exp, 2, 1), FUNCTION(exp2, 2, 1), FUNCTION(expm1, 2, 2),
    FUNCTION(log, 2, 1), FUNCTION(log2, 2, 1), FUNCTION(log10, 2, 1), FUNCTION(log1p, 2, 2),
    FUNCTION(sin, 2, 2), FUNCTION(cos, 2, 2), FUNCTION(asin, 2, 1), FUNCTION(acos, 2, 1),
    FUNCTION(atan, 2, 1), FUNCTION(sinh, 2, 3), FUNCTION(cosh, 2, 3), FUNCTION(tanh, 2, 1),
    FUNCTION(asinh, 2, 1), FUNCTION(acosh, 2, 1), FUNCTION(atanh, 2, 1), FUNCTION(erf, 2, 1),
    FUNCTION(erfc, 2, 1),
    {"tan", near_tan, exact_near_tan, 2, 3}, {"tan (far)", far_tan, exact_far_tan, 4, 3},
    WITH(rsqrt, [](Exact x) { return 1 / std::sqrt(x); }, 2, 2),
    WITH(reciprocal, [](Exact x) { return 1 / x; }, 0.5, 0.5),
    WITH(sigmoid, exact_sigmoid, 3, 3), WITH(logsigmoid, exact_logsigmoid, 3, 3),
    WITH(deg2rad, [](Exact x) { return x * (3.14159265358979323846264338327950288L / 180); }, 2, 2),
    WITH(rad2deg, [](Exact x) { return x * (180 / 3.14159265358979323846264338327950288L); }, 2, 2),
};
// clang-format on

// The distance of a result from the exact value; infinite where a NaN, an infinity or the sign of a
// zero is wrong.
template <class T>
double ulps_off(T got, Exact exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isnan(rounded) || std::isnan(got))
    return std::isnan(rounded) && std::isnan(got) ? 0 : INFINITY;
  if (got == rounded && std::isinf(got)) return 0;
  const T largest = std::numeric_limits<T>::max();
  if (std::isinf(got) || std::isinf(rounded)) {
    bool near = std::fabs(got) >= largest && std::fabs(rounded) >= largest;
    return near && std::signbit(got) == std::signbit(rounded) ? 1 : INFINITY;
  }
  const int places = std::numeric_limits<T>::digits;
  int exponent = std::max(rounded == 0 ? INT_MIN : std::ilogb(rounded),
                          std::numeric_limits<T>::min_exponent - 1);
  return static_cast<double>(std::fabs(static_cast<Exact>(got) - exact) *
                             std::ldexp(1.0L, places - 1 - exponent));
}

// Points where formulas break, and random ones: of all magnitudes, near 1, and of usual sizes.
template <class T>
std::vector<T> points(size_t count, uint64_t seed) {
  using L = std::numeric_limits<T>;
  std::vector<T> out;
  for (T v : {T(0),
              L::denorm_min(),
              L::min(),
              L::epsilon(),
              L::epsilon() / 2,
              T(1e-8),
              T(1e-4),
              T(0.22),
              T(0.25),
              T(0.46),
              T(0.5),
              T(0.66),
              T(1) - L::epsilon() / 2,
              T(1),
              T(1) + L::epsilon(),
              T(M_PI),
              T(M_PI_2),
              T(M_PI_4),
              T(M_LN2),
              T(2),
              T(2.4142),
              T(6),
              T(9),
              T(10),
              T(19),
              T(20),
              T(22),
              T(26),
              T(27.2),
              T(36.7),
              T(37.5),
              T(88.7),
              T(89.4),
              T(100),
              T(709.78),
              T(710.4),
              T(745.2),
              T(1e8),
              T(1e17),
              L::max(),
              L::infinity()})
    for (T s : {v, -v}) out.push_back(s);
  out.push_back(L::quiet_NaN());
  std::mt19937_64 random(seed);
  auto real = [&](double lo, double hi) {
    return std::uniform_real_distribution<double>(lo, hi)(random);
  };
  while (out.size() < count) {
    T sign = random() % 2 ? T(1) : T(-1);
    switch (random() % 8) {
      case 0:
        out.push_back(sign * std::ldexp(T(real(1, 2)),
                                        static_cast<int>(real(L::min_exponent, L::max_exponent))));
        break;
      case 1:
        out.push_back(sign * (T(1) + sign * std::ldexp(T(real(1, 2)),
                                                       -static_cast<int>(real(2, 2 + L::digits)))));
        break;
      case 2:
        out.push_back(sign * std::ldexp(T(real(1, 2)), -static_cast<int>(real(0, 30))));
        break;
      case 3: out.push_back(T(real(-1, 1))); break;
      case 4: out.push_back(T(real(-30, 30))); break;
      case 5: out.push_back(T(real(-745, 745))); break;
      case 6: out.push_back(T(real(-100, 100))); break;
      default: out.push_back(T(real(-4, 4)));
    }
  }
  return out;
}

template <class T>
void measure(const char* device, size_t count, uint64_t seed) {
  std::vector<T> x = points<T>(count, seed);
  for (const Function& f : functions) {
    Tensor in = from_data(x, {static_cast<int64_t>(x.size())}, {.device = device});
    std::vector<T> got = f.ours(in).template to_vector<T>();
    double worst = 0;
    T at = 0, is = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double off = ulps_off(got[i], f.exact(x[i]));
      if (off > worst) worst = off, at = x[i], is = got[i];
    }
    double bound = sizeof(T) == 8 ? f.f64_ulps : f.f32_ulps;
    char text[200];
    std::snprintf(text, sizeof text, "%s of %s on %s: %.3f ulp at %.17g, gives %.17g", f.name,
                  sizeof(T) == 8 ? "f64" : "f32", device, worst, static_cast<double>(at),
                  static_cast<double>(is));
    if (std::getenv("SHOW_ULPS")) std::printf("%s\n", text);
    if (worst > bound) FAIL_CHECK(std::string(text));
  }
}

// Rows of numbers of spread 1 around a mean, as the dtype holds them.
struct Rows {
  Tensor x;
  std::vector<Exact> mean, var;  // of each row, unbiased
};
Rows rows_around(double mean, int64_t rows, int64_t columns, DType dtype, const char* device,
                 uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> v(static_cast<size_t>(rows * columns));
  for (double& e : v) e = mean + normal(random);
  Rows out;
  out.x = from_data(v, {rows, columns}, {dtype, device}).realize();
  v = out.x.to_vector<double>();
  for (auto row = v.begin(); row != v.end(); row += columns) {
    Exact sum = 0, squares = 0, n = static_cast<Exact>(columns);
    for (int64_t i = 0; i < columns; ++i) sum += row[i];
    for (int64_t i = 0; i < columns; ++i) squares += (row[i] - sum / n) * (row[i] - sum / n);
    out.mean.push_back(sum / n);
    out.var.push_back(squares / (n - 1));
  }
  return out;
}

double epsilon_of(DType d) {
  return d == DType::f64 ? 0x1p-52 : d == DType::f32 ? 0x1p-23 : d == DType::f16 ? 0x1p-10 : 0x1p-7;
}

// The largest |a / b - 1|; where both are 0 there is no difference.
double relative_error(const std::vector<double>& got, const std::vector<Exact>& want,
                      double power) {
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    Exact exact = std::pow(want[i], static_cast<Exact>(power));
    if (got[i] == exact) continue;
    worst = std::max(worst, static_cast<double>(std::fabs(got[i] / exact - 1)));
  }
  return worst;
}

}  // namespace

TEST_SUITE("accuracy") {
  TEST_CASE("var and std do not depend on the mean") {
    for (const char* device : {"CPU", "INTERP"})
      for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
        for (double mean : {0.0, -1e3, 1e6, 1e9})
          for (auto [rows, columns] : {
                   std::pair<int64_t, int64_t>{1, 1000  },
                    {7, 33    },
                    {3, 20'000}
          }) {
            if (mean > 6e4 && dtype == DType::f16) continue;
            if (columns > 1000 && device == std::string("INTERP")) continue;
            Rows r = rows_around(mean, rows, columns, dtype, device, 7);
            INFO(std::string(device)
                 << " " << std::string(name(dtype)) << " mean " << mean << ", rows of " << columns);
            // In f64 the data's own mean is rounded.
            double most = 2 * epsilon_of(dtype);
            if (dtype == DType::f64) most = 1e-12 + 1e-18 * mean * mean;
            CHECK(relative_error(r.x.var(1).to_vector<double>(), r.var, 1) <= most);
            CHECK(relative_error(r.x.std(1).to_vector<double>(), r.var, 0.5) <= most);
            CHECK(relative_error(r.x.t().var(0).to_vector<double>(), r.var, 1) <= most);
          }
  }

  TEST_CASE("norms are off by what rounding the mean gives") {
    for (double mean : {0.0, 1e3, 1e6}) {
      Tensor x = rows_around(mean, 32, 1024, DType::f32, "CPU", 8).x, wide = x.to_double();
      auto check = [&](const char* what, Tensor (*norm)(const Tensor&)) {
        INFO(std::string(what) << " mean " << mean);
        double off = (norm(x).to_double() - norm(wide)).abs().max().item<double>();
        CHECK(off <= 2e-6 + 2 * 0x1p-23 * mean);
      };
      check("layer_norm", [](const Tensor& t) { return t.layer_norm(1024); });
      check("group_norm", [](const Tensor& t) { return t.group_norm(4); });
      check("instance_norm", [](const Tensor& t) {
        return t.reshape({4, 8, 1024}).instance_norm();
      });
      check("batch_norm",
            [](const Tensor& t) { return t.t().batch_norm({}, {}, {}, {}, {.training = true}); });
    }
  }

  TEST_CASE("functions of f64 are within 2 ulp") {
    auto count = test::scaled<size_t>(20'000);
    measure<double>("CPU", count, 1);
    measure<double>("INTERP", count / 10, 2);
  }
  TEST_CASE("functions of f32 are within their bounds") {
    auto count = test::scaled<size_t>(20'000);
    measure<float>("CPU", count, 3);
    measure<float>("INTERP", count / 10, 4);
  }
}

TEST_SUITE("soak") {
  TEST_CASE("functions of f64 and f32 are within their bounds, at many points") {
    auto count = test::scaled<size_t>(500'000);
    measure<double>("CPU", count, 5);
    measure<float>("CPU", count, 6);
    measure<double>("INTERP", count / 50, 7);
    MESSAGE(count << " points of each of " << std::size(functions) << " functions, twice");
  }
}
