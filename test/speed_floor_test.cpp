// A floor under the speed of default kernels, so that the thing is usable. Long: runs in soak.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "base/flags.h"
#include "base/threads.h"
#include "engine/realize.h"
#include "nn/training_step.h"

using namespace mote;

namespace {

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// How much more two threads do in the same time than one. The best of several tries.
double speedup(const std::function<std::function<void()>()>& make_work) {
  double best = 0;
  auto first = make_work(), second = make_work();
  for (int i = 0; i < 7; ++i) {
    const double alone = seconds_of(first);
    const double both = seconds_of([&] {
      std::thread other(second);
      first();
      other.join();
    });
    best = std::max(best, 2 * alone / both);
  }
  return best;
}

}  // namespace

TEST_CASE("speed floor: two threads replay at once" * doctest::test_suite("soak")) {
  const int threads = thread_count();
  set_thread_count(1);
  const double machine = speedup([] {
    return [] {
      volatile float x = 1;
      for (int i = 0; i < 50'000'000; ++i) x = x * 0.999f + 0.001f;
    };
  });
  const double replays = speedup([] {
    Tensor w = full({64, 64}, 0.01).contiguous().realize(), x = rand({64, 64}).realize();
    auto step = std::make_shared<decltype(jit(std::function<Tensor(const Tensor&)>()))>(
        jit(std::function<Tensor(const Tensor&)>([w](const Tensor& given) {
          Tensor state = w;
          state.assign((state + given.matmul(state)).tanh());
          return state.sum();
        })));
    for (int i = 0; i < 4; ++i) (*step)(x);
    return [step, x] {
      for (int i = 0; i < 3000; ++i) (*step)(x);
    };
  });
  set_thread_count(threads);
  MESSAGE("two threads: " << machine << " of plain arithmetic, " << replays << " of replays");
  if (machine >= 1.8) CHECK(replays >= 1.8);
}

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
