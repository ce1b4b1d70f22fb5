// Loops that read from one place after another are cut, and give what they gave whole.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <functional>

#include "engine/realize.h"

using namespace mote;

namespace {

struct Case {
  const char* name;
  size_t kernels;  // that it becomes
  Tensor (*make)(const Tensor& x);
};

// x is (6, 100, 200).
const Case cases[] = {
    {"roll",         2, [](const Tensor& x) { return x.roll({33}, {2}); }          },
    {"roll twice",   4,
     [](const Tensor& x) {
       return x.roll({-7, 190}, {1, 2});
     }                                                                             },
    {"reflect",      9,
     [](const Tensor& x) {
       return x.pad({3, 2, 5, 1}, "reflect");
     }                                                                             },
    {"replicate",    9,
     [](const Tensor& x) {
       return x.pad({2, 2, 2, 2}, "replicate");
     }                                                                             },
    {"circular",     9,
     [](const Tensor& x) {
       return x.pad({2, 3, 1, 4}, "circular");
     }                                                                             },
    {"three",        3,
     [](const Tensor& x) {
       return cat({x, x * 2, x.flip({2})}, 2);
     }                                                                             },
    {"two",          1,
     [](const Tensor& x) {
       return cat({x, x * 2}, 2);
     }                                                                             },
    {"short rows",   1,
     [](const Tensor& x) {
       Tensor y = x.reshape({-1, 2});
       return cat({y, y * 2, y + 1}, 1);
     }                                                                             },
    {"then a curve", 2, [](const Tensor& x) { return x.roll({33}, {2}).exp() + x; }},
};

Tensor input(const char* device) {
  return arange(6 * 100 * 200, {.dtype = DType::f32, .device = device}).reshape({6, 100, 200}) *
         1e-5;
}

}  // namespace

TEST_SUITE("pieces") {
  TEST_CASE("copies from several places are cut, and are right") {
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      Tensor x = input("CPU").realize();
      CHECK(explain(std::vector{c.make(x)}).kernels.size() == c.kernels);
      std::vector<float> got = c.make(x).to_vector<float>();
      std::vector<float> want = c.make(input("INTERP").realize()).to_vector<float>();
      REQUIRE(got.size() == want.size());
      double worst = 0;
      for (size_t i = 0; i < got.size(); ++i)
        worst = std::max(worst, static_cast<double>(std::abs(got[i] - want[i])));
      CHECK(worst <= 1e-6);
    }
  }

  TEST_CASE("what is small stays one kernel") {
    Tensor x = arange(60, {.dtype = DType::f32, .device = "CPU"}).reshape({3, 20}).realize();
    CHECK(explain(std::vector{x.roll({5}, {1})}).kernels.size() == 1);
  }
}
