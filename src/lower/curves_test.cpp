#include <doctest/doctest.h>

#include <bit>
#include <cstdlib>
#include <random>

#include "lower/block_eval_test.h"
#include "lower/decompose.h"
#include "test/amount.h"

using namespace mote;

namespace {

struct CurveRow {
  Op op;
  double (*of_float)(double);  // exact enough for a float, and cheap
  long double (*of_double)(long double);
  double ulps, double_ulps;  // the bounds
};
const CurveRow curve_rows[] = {
#define CURVE(op, function, meaning, f32, f64, derivative)                                    \
  {Op::op, [](double x) { return std::function(x); },                                         \
   [](long double x) { return std::function(x); }, f32, f64},
#include "ir/curves.def"
#undef CURVE
};

// The distance of a result from the exact value in units of the result's last place. Infinite where
// one is NaN and the other is not, or an infinity or a zero's sign is wrong.
template <class T>
double ulps_off(T got, long double exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isnan(rounded) || std::isnan(got))
    return std::isnan(rounded) && std::isnan(got) ? 0 : INFINITY;
  if (got == rounded) {
    if (got == 0 && std::signbit(got) != std::signbit(rounded)) return INFINITY;
    if (std::isinf(got)) return 0;
  }
  const T largest = std::numeric_limits<T>::max();
  if (std::isinf(got) || std::isinf(rounded)) {
    if (!(std::fabs(got) >= largest && std::fabs(rounded) >= largest)) return INFINITY;
    return std::signbit(got) == std::signbit(rounded) ? 1 : INFINITY;
  }
  const int places = std::numeric_limits<T>::digits;
  int exponent = std::max(rounded == 0 ? INT_MIN : std::ilogb(rounded),
                          std::numeric_limits<T>::min_exponent - 1);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) *
                             std::ldexp(1.0L, places - 1 - exponent));
}

template <class T>
std::vector<T> edges() {
  using L = std::numeric_limits<T>;
  std::vector<T> v{0,
                   L::denorm_min(),
                   L::min(),
                   L::epsilon(),
                   1,
                   L::max(),
                   L::infinity(),
                   L::quiet_NaN(),
                   T(M_PI),
                   T(M_PI_2),
                   T(M_PI_4),
                   T(M_LN2),
                   T(M_SQRT2),
                   T(M_SQRT1_2),
                   T(0.978),
                   T(0.975),
                   T(9.5),
                   T(20),
                   4,
                   6,
                   104,
                   89,
                   746,
                   710,
                   88.7228,
                   T(709.7827),
                   T(-103.9721),
                   T(-87.3365),
                   T(-745.1332),
                   T(-708.3964)};
  for (int i = -1080; i <= 1024; ++i)
    for (T mantissa : {T(1), T(2) / 3, T(M_SQRT1_2)}) v.push_back(std::ldexp(mantissa, i));
  for (int i = 1; i < 2000; ++i) v.push_back(T(i) * T(0.5));
  for (int i = 1; i < 2000; ++i) v.push_back(T(i) * T(M_PI_4));
  std::vector<T> all;
  for (T x : v)
    for (T y : {x, std::nextafter(x, T(0)), std::nextafter(x, L::infinity())}) {
      all.push_back(y);
      all.push_back(-y);
    }
  return all;
}

// Half of the inputs are any bit patterns, half spread over where the curve bends.
template <class T>
T random_input(std::mt19937_64& random) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  uint64_t r = random();
  if (r & 1) return std::bit_cast<T>(static_cast<Bits>(r >> 1) ^ static_cast<Bits>(r << 31));
  static constexpr double spans[] = {1, 2, 4, 10, 100, 150, 750, 1100, 1e6, 0.05, 1, 2, 4, 8, 3, 6};
  double unit = static_cast<double>(random() >> 11) * 0x1p-53;
  double span = spans[r >> 1 & 15];
  return static_cast<T>(((r >> 8 & 1) ? unit : -unit) * span);
}

template <class T>
struct Worst {
  double ulps = 0;
  T at = 0, got = 0;
};

template <class T>
Worst<T> measure(const CurveRow& row, BlockEval& graph, size_t count) {
  std::mt19937_64 random(17);
  std::vector<T> first = edges<T>();
  Worst<T> worst;
  for (size_t done = 0; done < count + first.size(); done += BlockEval::kBlock) {
    T* x = graph.input<T>(0);
    for (size_t i = 0; i < BlockEval::kBlock; ++i)
      x[i] = done + i < first.size() ? first[done + i] : random_input<T>(random);
    graph.run();
    const T* y = graph.result<T>();
    for (size_t i = 0; i < BlockEval::kBlock; ++i) {
      long double exact =
          sizeof(T) == 4 ? row.of_float(static_cast<double>(x[i])) : row.of_double(x[i]);
      double off = ulps_off<T>(y[i], exact);
      if (off > worst.ulps) worst = {off, x[i], y[i]};
    }
  }
  return worst;
}

template <class T>
void check_curves(DType dtype, size_t count) {
  for (bool fma : {true, false})
    for (const CurveRow& row : curve_rows) {
      Target target;
      target.fma = fma;
      Arena arena;
      ArenaScope scope(arena);
      BlockEval graph(decompose_curve(row.op, input(0, dtype), target));
      Worst<T> w = measure<T>(row, graph, fma ? count : count / 4);
      std::printf("%-5s %s %s  max %.3f ulp at %a, %zu ops\n", name(row.op), name(dtype),
                  fma ? "fused" : "split", w.ulps, static_cast<double>(w.at), graph.ops());
      const std::string op = name(row.op);
      CHECK_MESSAGE(w.ulps <= (sizeof(T) == 4 ? row.ulps : row.double_ulps), op, " of ",
                    static_cast<double>(w.at), " gives ", static_cast<double>(w.got));
    }
}

// The fast loops of the evaluator mean what ir/eval says, and every op is plain.
template <class T>
void check_evaluator(DType dtype) {
  for (const CurveRow& row : curve_rows) {
    Arena arena;
    ArenaScope scope(arena);
    BlockEval graph(decompose_curve(row.op, input(0, dtype), Target{}));
    std::mt19937_64 random(19);
    std::vector<T> first = edges<T>();
    for (size_t base = 0; base < test::scaled(first.size()); base += BlockEval::kBlock) {
      for (size_t i = 0; i < BlockEval::kBlock; ++i)
        graph.input<T>(0)[i] = base + i < first.size() ? first[base + i] : random_input<T>(random);
      graph.run();
      std::vector<T> fast(graph.result<T>(), graph.result<T>() + BlockEval::kBlock);
      graph.run_reference();
      size_t wrong = 0;
      for (size_t i = 0; i < BlockEval::kBlock; ++i)
        wrong += !same_bits({dtype, 0, fast[i]}, {dtype, 0, graph.result<T>()[i]});
      CHECK(wrong + graph.unsafe() == 0);
    }
  }
}

}  // namespace

TEST_CASE("curves: the evaluator of these tests agrees with ir/eval") {
  check_evaluator<float>(DType::f32);
  check_evaluator<double>(DType::f64);
}

TEST_CASE("curves: f32 within their bounds") {
  check_curves<float>(DType::f32, test::scaled<size_t>(2'000'000));
}

TEST_CASE("curves: f64 within their bounds") {
  check_curves<double>(DType::f64, test::scaled<size_t>(200'000));
}
