// Long chains of movement: what they cost the host grows with their length, not with its square.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <ctime>
#include <string>

using namespace mote;

namespace {

struct Chain {
  const char* name;
  Tensor (*step)(const Tensor& t, int64_t i);
};

Tensor write_first(Tensor t, int64_t i) {
  t.narrow(0, 0, 1).fill_(i);
  return t;
}

Tensor flipped(const Tensor& t, int64_t) { return t.flip(0).transpose(0, 1); }
Tensor reshaped(const Tensor& t, int64_t) { return t.reshape({2, 8}).t().reshape({4, 4}); }
Tensor padded(const Tensor& t, int64_t) { return t.narrow(1, 0, 3).pad({1, 0}); }
Tensor expanded(const Tensor& t, int64_t i) { return t.expand({2, 4, 4}).select(0, i % 2); }
Tensor repeated(const Tensor& t, int64_t) { return t.repeat({2, 1}).narrow(0, 1, 4); }
Tensor rolled(const Tensor& t, int64_t) { return t.roll(1, 0); }
Tensor viewed(const Tensor& t, int64_t) {
  return t(Slice(None, None, -1)).unsqueeze(0).select(0, 0).t();
}
Tensor read(const Tensor& t, int64_t i) {
  Tensor v = viewed(t, i);
  v.sum();
  return v;
}
Tensor written(const Tensor& t, int64_t i) {
  Tensor v = viewed(t, i);
  return i % 50 ? v : write_first(v, i);
}

// Every step gives a tensor of shape (4, 4).
// clang-format off
const Chain chains[] = {
    {"flip and transpose", flipped}, {"permute and reshape", reshaped}, {"cut and pad", padded},
    {"expand and select", expanded}, {"repeat and narrow", repeated}, {"roll", rolled},
    {"views", viewed}, {"views that are read", read}, {"views that are written", written},
};
// clang-format on

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of building and scheduling a chain of so many steps, realized at its foot or not.
double seconds(const Chain& c, int64_t steps, bool realized) {
  Tensor t = arange(16, {DType::f32, "NULL"}).reshape({4, 4}) + 1;
  if (realized) t.realize();
  double start = cpu_seconds();
  for (int64_t i = 0; i < steps; ++i) t = c.step(t, i);
  t.realize();
  return cpu_seconds() - start;
}

void check_growth(int64_t steps) {
  for (const Chain& c : chains)
    for (bool realized : {false, true}) {
      seconds(c, steps, realized);  // kernels are compiled
      double few = 1e9, many = 1e9;
      for (int i = 0; i < 3; ++i) {
        few = std::min(few, seconds(c, steps, realized));
        many = std::min(many, seconds(c, 4 * steps, realized));
      }
      INFO(std::string(c.name) << ": " << steps << " steps " << few * 1e3
                               << " ms, four times as many " << many * 1e3 << " ms");
      CHECK(many <= 8 * few + 1e-3);
    }
}

}  // namespace

TEST_SUITE("host work") {
  TEST_CASE("a chain of movement costs what its length says") { check_growth(500); }

  TEST_CASE("results of long chains are right") {
    for (const Chain& c : chains) {
      Tensor x = arange(16, {DType::f32, "INTERP"}).reshape({4, 4}) + 1, stepwise = x.clone();
      Tensor t = x;
      for (int64_t i = 0; i < 300; ++i) {
        t = c.step(t, i);
        stepwise = c.step(stepwise, i).clone().realize();
      }
      INFO(std::string(c.name));
      CHECK(t.to_vector<float>() == stepwise.to_vector<float>());
    }
  }

  TEST_CASE("the gradient of a long chain") {
    Tensor x = (arange(16, {DType::f32, "INTERP"}).reshape({4, 4}) + 1).requires_grad_(), t = x;
    for (int i = 0; i < 1000; ++i) t = t.flip(0).transpose(0, 1);
    (t * t.detach()).sum().backward();
    CHECK(x.grad().to_vector<float>() == x.to_vector<float>());
  }
}

TEST_SUITE("soak") {
  TEST_CASE("chains of 200,000 steps of movement") {
    check_growth(5'000);
    for (const Chain& c : chains)
      MESSAGE(std::string(c.name) << ": " << seconds(c, 200'000, true) << " s");
  }
}
