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

// Every step gives a tensor of shape (4, 4).
const Chain chains[] = {
    {"flip and transpose",     [](const Tensor& t, int64_t) { return t.flip(0).transpose(0, 1); }                           },
    {"permute and reshape",
     [](const Tensor& t,                           int64_t) {
       return t.reshape({2, 8}).t().reshape({4, 4});
     }                                                                                              },
    {"cut and pad",
     [](const Tensor& t,                           int64_t) {
       return t.narrow(1, 0, 3).pad({1, 0});
     }                                                                                              },
    {"expand and select",
     [](const Tensor& t,                           int64_t i) {
       return t.expand({2, 4, 4}).select(0, i % 2);
     }                                                                                              },
    {"repeat and narrow",
     [](const Tensor& t,                           int64_t) {
       return t.repeat({2, 1}).narrow(0, 1, 4);
     }                                                                                              },
    {"roll",                   [](const Tensor& t, int64_t) { return t.roll(1, 0); }                                        },
    {"views",
     [](const Tensor& t,                           int64_t) { return t(Slice(None, None, -1)).unsqueeze(0).squeeze(0).t(); }},
    {"views that are read",
     [](const Tensor& t,                           int64_t i) {
       Tensor v = t(Slice(None, None, -1)).unsqueeze(0).select(0, 0).t();
       return i % 2 ? v : (v.sum(), v);
     }                                                                                              },
    {"views that are written",
     [](const Tensor& t,                           int64_t i) {
       Tensor v = t(Slice(None, None, -1)).t();
       return i % 50 ? v : write_first(v, i);
     }                                                                                              },
};

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
  TEST_CASE("chains of 200,000 steps of movement") { check_growth(50'000); }
}
