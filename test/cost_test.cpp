// What is chosen beside what else was proposed: all of it is run.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/random.h"
#include "engine/kernel_cache.h"
#include "engine/workbench.h"
#include "optimize/optimize.h"
#include "runtime/device.h"
#include "test/amount.h"

using namespace mote;

namespace {

double fastest(Workbench& bench, const std::shared_ptr<const Kernel>& kernel) {
  double least = bench.time(kernel, 1);
  if (least > 0.3) return least;
  const int times = std::max(1, static_cast<int>(5e-4 / least));
  for (int i = 0; i < 7; ++i) least = std::min(least, bench.time(kernel, times));
  return least;
}

struct Ranked {
  int kernels = 0, proposals = 0, far_off = 0;
  double worst = 1;
};

// The time of the chosen loops by that of the best proposal.
void rank(const Flat& flat, Device& on, const std::string& what, Ranked& out) {
  constexpr double kFarOff = 1.3;
  Arena arena;
  ArenaScope scope(arena);
  UOp body = unflatten_graph(flat);
  if (!Workbench::cannot_try(body, on).empty()) return;
  Workbench bench(body, on);
  double chosen = 0, best = HUGE_VAL;
  for (const Tuned& way : proposals(body, on.target(), 12)) {
    const double seconds = fastest(bench, compile_kernel(flat, way.actions, on));
    if (chosen == 0) chosen = seconds;
    best = std::min(best, seconds);
    ++out.proposals;
  }
  ++out.kernels;
  out.worst = std::max(out.worst, chosen / best);
  if (chosen < kFarOff * best) return;
  ++out.far_off;
  std::printf("%s: %.3f ms, another way takes %.3f\n", what.c_str(), chosen * 1e3, best * 1e3);
}

void rank_kernels(const std::string& what, Ranked& out, const std::function<Tensor()>& f) {
  constexpr double kSmall = 3e5;
  clear_kernel_cache();
  f().realize();
  for (const KnownKernel& k : known_kernels())
    if (k.kernel->estimate.ops + k.kernel->estimate.bytes > kSmall)
      rank(k.body, device(k.device), what, out);
}

Tensor drawn(const Sizes& shape) { return mote::rand(shape).realize(); }

void rank_products(Random& random, Ranked& out) {
  auto size = [&](int64_t least, int64_t most) {
    return static_cast<int64_t>(std::exp2(random.between(std::log2(least), std::log2(most))));
  };
  const int64_t b = random.below(3) ? 1 : size(2, 32), m = size(1, 1024), n = size(16, 2048),
                k = size(16, 1024);
  const Tensor x = drawn({b, m, k}), y = drawn({b, k, n}), turned = drawn({b, n, k});
  const std::string what = "product " + std::to_string(b) + "x" + std::to_string(m) + "x" +
                           std::to_string(n) + "x" + std::to_string(k);
  rank_kernels(what, out, [&] { return matmul(x, y); });
  rank_kernels(what + " of rows", out, [&] { return matmul(x, turned.transpose(1, 2)); });
  rank_kernels(what + " activated", out, [&] { return gelu(matmul(x, y) + 1.0f); });
}

void rank_convolutions(Random& random, Ranked& out) {
  static constexpr int64_t kChannels[] = {3, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512},
                           kSides[] = {7, 8, 13, 14, 16, 28, 32, 56},
                           kWindows[] = {1, 3, 3, 3, 5, 7};
  auto one_of = [&](std::span<const int64_t> list) {
    return list[static_cast<size_t>(random.below(static_cast<int64_t>(list.size())))];
  };
  int64_t from = one_of(kChannels), to = one_of(kChannels), side = one_of(kSides);
  const int64_t window = one_of(kWindows), stride = random.below(4) ? 1 : 2,
                batch = 1 + random.below(4);
  while (from * to * side * side * window * window * batch > int64_t{1} << 31)
    side = (side + 1) / 2;
  Tensor x = drawn({batch, from, side, side}), w = drawn({to, from, window, window});
  const std::string what = "convolution " + std::to_string(batch) + "x" + std::to_string(from) +
                           "-" + std::to_string(to) + " at " + std::to_string(side) + " window " +
                           std::to_string(window) + " stride " + std::to_string(stride);
  const ConvOptions options{.stride = stride, .padding = window / 2};
  rank_kernels(what, out, [&] { return conv2d(x, w, {}, options); });
  x.requires_grad_(), w.requires_grad_();
  (conv2d(x, w, {}, options).square()).sum().backward();
  rank_kernels(what + ", x", out, [&] { return x.grad(); });
  rank_kernels(what + ", w", out, [&] { return w.grad(); });
}

void rank_loops(Random& random, Ranked& out) {
  const int64_t m = 64 + random.below(2000), n = 32 + random.below(2000);
  const Tensor x = drawn({m, n}), y = drawn({8, 32, 28, 28}), v = drawn({m});
  const std::string what = std::to_string(m) + "x" + std::to_string(n);
  rank_kernels("transpose " + what, out, [&] { return x.transpose(0, 1).contiguous(); });
  rank_kernels("sums of columns " + what, out, [&] { return x.sum(0); });
  rank_kernels("sums of rows " + what, out, [&] { return x.sum(1); });
  rank_kernels("softmax " + what, out, [&] { return x.softmax(1); });
  rank_kernels("softmax of columns " + what, out, [&] { return x.softmax(0); });
  rank_kernels("row by matrix " + what, out, [&] { return matmul(v, x); });
  rank_kernels("sums of channels", out, [&] { return y.sum({0, 2, 3}); });
}

}  // namespace

TEST_CASE("what is chosen is near the best of what is proposed" * doctest::test_suite("soak")) {
  const uint64_t seed = test::seed_or(12);
  const int64_t rounds = test::scaled<int64_t>(14);
  MESSAGE("seed ", seed, ", ", rounds, " rounds");
  Random random(seed, 5);
  Ranked ranked;
  for (int64_t i = 0; i < rounds; ++i) {
    rank_products(random, ranked);
    rank_convolutions(random, ranked);
    rank_loops(random, ranked);
  }
  MESSAGE(ranked.kernels, " kernels, ", ranked.proposals, " proposals; ", ranked.far_off,
          " of those chosen take 1.3 times the best or more, at most ", ranked.worst);
  CHECK(ranked.far_off * 10 <= ranked.kernels);
}
