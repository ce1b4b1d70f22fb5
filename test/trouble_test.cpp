// Shapes of trouble: graphs that are deep, wide or repeated, and memory over many steps.
#include <doctest/doctest.h>
#include <mote/mote.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <cmath>
#include <fstream>
#include <iterator>

#include "engine/realize.h"
#include "ir/graph.h"
#include "test/amount.h"

using namespace mote;

namespace {

// Of all threads of this process: others may keep the cores busy.
double seconds_of(auto f) {
  const std::clock_t start = std::clock();
  f();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Two layers with dropout, trained by Adam; the learning rate and the step count are tensors.
struct Training {
  Tensor w1 = weight({8, 16}), w2 = weight({16, 4});
  std::vector<Tensor> m, v;
  Tensor rate = zeros({1}).contiguous(), count = zeros({1}).contiguous();

  static Tensor weight(const Sizes& shape) {
    return (randn(shape) * 0.3).realize().requires_grad_();
  }
  Training() {
    for (const Tensor& w : {w1, w2}) {
      m.push_back(zeros(w.sizes()).contiguous().realize());
      v.push_back(zeros(w.sizes()).contiguous().realize());
    }
    realize({rate, count});
  }
  Tensor step(const Tensor& x, const Tensor& y, double learning_rate) {
    Tensor loss = x.matmul(w1).relu().dropout(0.2).matmul(w2).cross_entropy(y);
    w1.zero_grad(), w2.zero_grad();
    loss.backward();
    rate.assign(from_data(std::vector<float>{static_cast<float>(learning_rate)}, {1}));
    count.add_(1);
    std::vector<Tensor> all{loss, rate, count};
    Tensor w[] = {w1, w2};
    for (size_t i = 0; i < 2; ++i) {
      Tensor g = w[i].grad().detach();
      m[i].assign(m[i] * 0.9 + g * 0.1);
      v[i].assign(v[i] * 0.999 + g * g * 0.001);
      Tensor by = (m[i] / (1 - full({1}, 0.9).pow(count))) /
                  ((v[i] / (1 - full({1}, 0.999).pow(count))).sqrt() + 1e-8);
      w[i].assign(w[i].detach() - by * rate);
      all.insert(all.end(), {w[i], m[i], v[i]});
    }
    realize(all);
    return loss;
  }
};

Tensor inputs(int step) {
  std::vector<float> values;
  for (int i = 0; i < 32 * 8; ++i) values.push_back(std::sin(static_cast<float>(i * 7 + step)));
  return from_data(values, {32, 8});
}
Tensor labels() {
  std::vector<int64_t> values;
  for (int i = 0; i < 32; ++i) values.push_back(i % 4);
  return from_data(values, {32});
}

}  // namespace

TEST_CASE("a million additions before one realize") {
  Tensor x = zeros({4}).contiguous();
  double built = seconds_of([&] {
    for (int i = 0; i < 1'000'000; ++i) x = x + 1;
  });
  double ran = seconds_of([&] { CHECK(x.to_vector<int>() == std::vector<int>(4, 1'000'000)); });
  double freed = seconds_of([&] { x = {}; });
  MESSAGE("built in ", built, " s, run in ", ran, " s, freed in ", freed, " s");
}

TEST_CASE("a value used twice at each of 64 levels") {
  std::vector<double> expected(128);
  for (size_t i = 0; i < 128; ++i) expected[i] = static_cast<double>(i % 3);
  Tensor x = from_data(expected, {128}, {.dtype = float64});
  double took = seconds_of([&] {
    for (int i = 0; i < 64; ++i) x = x + x.roll(1);
    x.realize();
  });
  for (int k = 0; k < 64; ++k) {
    std::vector<double> next(128);
    for (size_t i = 0; i < 128; ++i) next[i] = expected[i] + expected[(i + 127) % 128];
    expected = next;
  }
  std::vector<double> got = x.to_vector<double>();
  for (size_t i = 0; i < 128; ++i) CHECK(got[i] == doctest::Approx(expected[i]));
  CHECK(took < 1);
}

TEST_CASE("one tensor with 10,000 consumers") {
  Tensor x = (arange(16.0) * 2).contiguous();
  std::vector<Tensor> each;
  for (int i = 0; i < 10'000; ++i)
    each.push_back(x + from_data(std::vector<float>{static_cast<float>(i)}, {1}));
  double took = seconds_of([&] { realize(each); });
  for (int i = 0; i < 10'000; i += 999)
    CHECK(each[static_cast<size_t>(i)].sum().item<float>() == 240 + 16.f * static_cast<float>(i));
  MESSAGE("realized in ", took, " s");
  Tensor sum = x * 0;
  for (int i = 0; i < 10'000; ++i) sum = sum + (x - i).relu();
  double one = seconds_of([&] { CHECK(sum.sum().item<float>() == 2600); });
  MESSAGE("summed in ", one, " s");
}

TEST_CASE("kernels have a bounded number of loops and ops") {
  Tensor x = rand({100, 8}).realize(), total = zeros({});
  std::vector<float> values = x.square().sum(1).to_vector<float>();
  double expected = 0;
  for (int i = 0; i < 100; ++i) {
    total = total + x(i).square().sum();
    expected += static_cast<double>(values[static_cast<size_t>(i)]);
  }
  CHECK(total.item<float>() == doctest::Approx(expected));

  Tensor w = (rand({16, 16}) * 0.1).realize().requires_grad_(), h = rand({4, 16}).realize();
  for (int i = 0; i < 64; ++i) h = h.matmul(w).tanh();
  h.sum().backward();
  w.grad().realize();

  Tensor wave = rand({16}).realize();
  for (int i = 0; i < 300; ++i) wave = wave.sin() + wave;
  for (const KernelReport& k : explain(std::vector<Tensor>{wave}).kernels)
    CHECK(k.text.size() < 200'000);
  wave.realize();
}

// Every shape has kernels of its own, which plans keep.
static void run_shapes(int shapes) {
  auto maps = [] {
    std::ifstream file("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  };
  auto before = maps();
  uint64_t compiled = 0;
  constexpr int first = 5;  // the compiler and threads have maps as well
  for (int n = 1; n <= first + shapes; ++n) {
    if (n == first) before = maps(), compiled = engine_counts().kernels_compiled;
    Tensor x = ones({n, 3}).contiguous().realize();
    CHECK((x + 1).softmax(0).sum().item<float>() == doctest::Approx(3));
    CHECK((x * x).cumsum(0).max().item<float>() == static_cast<float>(n));
  }
  const uint64_t kernels = engine_counts().kernels_compiled - compiled;
#if !defined(__SANITIZE_ADDRESS__)  // which has maps of its own
  CHECK(maps() < before + 40);
#endif
  MESSAGE(shapes, " shapes, ", kernels, " kernels, ", maps() - before, " more memory maps");
}

TEST_CASE("kernels of many shapes take few memory maps") { run_shapes(25); }

TEST_CASE("kernels of a thousand shapes take few memory maps" * doctest::test_suite("soak")) {
  run_shapes(1000);
}

TEST_CASE("a cat of 5,000 inputs") {
  std::vector<Tensor> parts;
  for (int i = 0; i < 5'000; ++i) parts.push_back(from_data(std::vector<int>{i, -i}, {2}));
  double took = seconds_of([&] {
    std::vector<int> all = cat(parts).to_vector<int>();
    REQUIRE(all.size() == 10'000);
    for (int i = 0; i < 5'000; i += 7) {
      CHECK(all[static_cast<size_t>(2 * i)] == i);
      CHECK(all[static_cast<size_t>(2 * i + 1)] == -i);
    }
  });
  MESSAGE("took ", took, " s");
}

TEST_CASE("the second step of a training loop compiles nothing") {
  manual_seed(1);
  Training training;
  Tensor y = labels();
  training.step(inputs(0), y, 0.01);
  const EngineCounts before = engine_counts();
  for (int i = 1; i < 6; ++i) training.step(inputs(i), y, 0.01 / i);
  const EngineCounts after = engine_counts();
  CHECK(after.kernels_compiled == before.kernels_compiled);
  CHECK(after.schedules - before.schedules == after.schedule_hits - before.schedule_hits);
  CHECK(after.kernels_run > before.kernels_run);
  CHECK(training.count.item<float>() == 6);
}

TEST_CASE("ten thousand training steps keep nodes and memory flat") {
  const int steps = test::scaled(10'000);
  manual_seed(2);
  Training training;
  Tensor y = labels();
  float first = 0, last = 0;
  uint64_t nodes = 0;
  int64_t bytes = 0;
  double took = seconds_of([&] {
    for (int i = 0; i < steps; ++i) {
      Tensor loss = training.step(inputs(i % 10), y, 0.003);
      if (i == 0) first = loss.item<float>();
      if (i == steps / 5) nodes = tensor_graph::live_nodes(), bytes = resident_bytes();
      if (i == steps - 1) last = loss.item<float>();
    }
  });
  CHECK(tensor_graph::live_nodes() <= nodes + 4);
#if !defined(__SANITIZE_ADDRESS__)  // which keeps freed memory back
  CHECK(resident_bytes() < bytes + (4 << 20));
#endif
  CHECK(last < first);
  MESSAGE(steps, " steps in ", took, " s");
}
