// A floor under the speed of default kernels, so that the thing is usable. Long: runs in soak.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <chrono>

#include "base/flags.h"
#include "engine/realize.h"
#include "nn/training_step.h"

using namespace mote;

TEST_CASE("speed floor: f32 GEMM of 1024 reaches 20 GFLOPS" * doctest::test_suite("soak")) {
  const int64_t n = 1024;
  Tensor a = rand({n, n}).realize(), b = rand({n, n}).realize();
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    auto start = std::chrono::steady_clock::now();
    matmul(a, b).realize();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  double gflops = 2.0 * n * n * n / best / 1e9;
  MESSAGE("GEMM 1024: " << gflops << " GFLOPS");
  CHECK(gflops >= 20);
}

TEST_CASE("speed floor: a step of the MNIST conv net" * doctest::test_suite("soak")) {
  manual_seed(1);
  models::MnistNet net;
  optim::Adam adam(parameters(net));
  Tensor images = rand({512, 1, 28, 28}).realize(), labels = randint(0, 10, {512}).realize();
  realize(tensors(net));
  FlagScope no_disk(Flag::CACHE, 0);
  clear_caches();
  double first = 0, best = 1e9;
  for (int i = 0; i < 4; ++i) {
    auto start = std::chrono::steady_clock::now();
    realize(training_step(net, adam, images, labels));
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i == 0) first = took;
    best = std::min(best, took);
  }
  MESSAGE("MNIST step, batch 512: first " << first << " s, then " << best << " s");
  CHECK(first <= 2);
  CHECK(best <= 3);
}
