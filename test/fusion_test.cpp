// What is computed together takes no longer than its parts, realized one after the other.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cmath>
#include <ctime>
#include <functional>
#include <string>

#include "base/flags.h"
#include "base/random.h"
#include "test/amount.h"

using namespace mote;

namespace {

// Of all threads: other processes do not count.
double seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

using Part = std::function<Tensor(const Tensor&)>;
// Gives its parts to `part`, which may realize them, in the order in which they are needed.
using Program = std::function<Tensor(const Part& part)>;

struct Pairs {
  int programs = 0, slower = 0;
};

void compare(const std::string& what, Pairs& out, const Program& program) {
  constexpr int kRuns = 9;
  constexpr double kSlower = 1.15, kMoment = 20e-6;
  const Tensor none = zeros({1}).contiguous().realize();
  auto together = jit([&](const Tensor&) { return program([](const Tensor& t) { return t; }); });
  auto apart = jit([&](const Tensor&) {
    return program([](const Tensor& t) { return Tensor(t).realize(); });
  });
  double least[2] = {HUGE_VAL, HUGE_VAL};
  for (int i = 0; i < kRuns + 2; ++i) {
    const double start = seconds();
    together(none).flatten()[0].item<float>();
    const double middle = seconds();
    apart(none).flatten()[0].item<float>();
    const double end = seconds();
    if (i < 2) continue;
    least[0] = std::fmin(least[0], middle - start), least[1] = std::fmin(least[1], end - middle);
  }
  ++out.programs;
  if (least[0] < kSlower * least[1] + kMoment) return;
  ++out.slower;
  MESSAGE(what, ": ", least[0] * 1e3, " ms, its parts take ", least[1] * 1e3);
}

Tensor drawn(const Sizes& shape) { return mote::rand(shape).realize(); }

void compare_pairs(Random& random, Pairs& out) {
  auto size = [&](int64_t least, int64_t most) {
    return static_cast<int64_t>(std::exp2(random.between(std::log2(least), std::log2(most))));
  };
  const int64_t m = size(1, 1024), k = size(16, 1024), n = size(16, 1024);
  const Tensor x = drawn({m, k}), y = drawn({m, k}), a = drawn({k, n}), b = drawn({k, n}),
               c = drawn({n, k}), z = drawn({m, n});
  const std::string by = " " + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
  compare("gated product" + by, out,
          [&](const Part& p) { return p(p(matmul(x, a)).silu() * matmul(x, b)); });
  compare("product of products" + by, out,
          [&](const Part& p) { return p(p(matmul(x, a)).tanh() * matmul(y, b)); });
  compare("rows and columns" + by, out,
          [&](const Part& p) { return p(p(matmul(x, a)) + matmul(y, c.t())); });
  compare("product and norm" + by, out, [&](const Part& p) {
    return p(p(matmul(x, a) + z).layer_norm({n}));
  });
  compare("sums of columns" + by, out, [&](const Part& p) { return p(p(z.sum(0)) * (z * z).sum(0)); });
  compare("spread of columns" + by, out,
          [&](const Part& p) { return p((z - p(z.mean(0))).square().sum(0)); });
  compare("spread of rows" + by, out,
          [&](const Part& p) { return p((z - p(z.mean(1, true))).square().sum(1)); });
}

}  // namespace

TEST_CASE("what is fused takes no longer than its parts" * doctest::test_suite("soak")) {
  const uint64_t seed = test::seed_or(7);
  MESSAGE("seed ", seed);
  FlagScope one(Flag::THREADS, 1);
  Random random(seed, 9);
  Pairs pairs;
  for (int64_t i = 0; i < test::scaled<int64_t>(20); ++i) compare_pairs(random, pairs);
  MESSAGE(pairs.slower, " of ", pairs.programs, " are slower");
  CHECK(pairs.slower * 20 <= pairs.programs);
}
