#include <doctest/doctest.h>
#include <mote/error.h>
#include <mote/optim.h>

#include <cmath>
#include <memory>

#include "engine/realize.h"

using namespace mote;

namespace {

// Minimises the sum of (p - 3)^2 and compares every step with the formula in double precision.
template <class Formula>
void follow(optim::Optimizer& opt, Tensor& p, double start, Formula formula) {
  double expected = start;
  for (int t = 1; t <= 5; ++t) {
    opt.zero_grad();
    Tensor loss = ((p - 3) * (p - 3)).sum();
    loss.backward();
    realize(opt.step());
    expected = formula(expected, 2 * (expected - 3), t);
    CHECK(p.to_vector<float>()[1] == doctest::Approx(expected).epsilon(1e-6));
  }
}

Tensor two(double start) { return full({2}, start).requires_grad_(); }

}  // namespace

TEST_CASE("optim: SGD with momentum, nesterov and weight decay") {
  Tensor p = two(1);
  optim::SGD opt({p}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  double buffer = 0;
  follow(opt, p, 1, [&](double x, double g, int) {
    g += 0.01 * x;
    buffer = 0.9 * buffer + g;
    return x - 0.1 * (g + 0.9 * buffer);
  });
}

TEST_CASE("optim: Adam and AdamW") {
  for (bool decoupled : {false, true}) {
    Tensor p = two(1);
    std::unique_ptr<optim::Optimizer> opt;
    std::vector<Tensor> params = {p};
    if (decoupled)
      opt.reset(new optim::AdamW(params, {.lr = 0.1, .weight_decay = 0.05}));
    else
      opt.reset(new optim::Adam(params, {.lr = 0.1, .weight_decay = 0.05}));
    double m = 0, v = 0;
    follow(*opt, p, 1, [&](double x, double g, int t) {
      if (decoupled) x *= 1 - 0.1 * 0.05;
      else g += 0.05 * x;
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      double root = std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8;
      return x - 0.1 / (1 - std::pow(0.9, t)) * m / root;
    });
  }
}

TEST_CASE("optim: later steps, also with another learning rate, make no new kernel") {
  Tensor p = two(1);
  optim::Adam opt({p});
  auto step = [&] {
    opt.zero_grad();
    ((p - 3) * (p - 3)).sum().backward();
    realize(opt.step());
  };
  step();
  step();
  opt.set_lr(0.5);
  step();
  EngineCounts before = engine_counts();
  opt.set_lr(0.25);
  step();
  step();
  EngineCounts after = engine_counts();
  CHECK(after.kernels_compiled == before.kernels_compiled);
  CHECK(after.schedule_hits - before.schedule_hits == 2);
}

TEST_CASE("optim: misuse") {
  CHECK_THROWS_WITH_AS(optim::Adam({}), doctest::Contains("at least one parameter"), Error);
  CHECK_THROWS_WITH_AS(optim::Adam({zeros({2})}), doctest::Contains("is not marked"), Error);
}
