#include "tensor/given.h"

#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cmath>

#include "engine/realize.h"

using namespace mote;

namespace {

Tensor points() { return tensor({-1.5, -0.25, 0.0, 0.5, 2.0}, {float64}).realize(); }

std::vector<double> derivative(const Tensor& y, const Tensor& x, int order) {
  Tensor out = y;
  for (int i = 0; i < order; ++i) out = out.sum().gradient({x})[0];
  return out.to_vector<double>();
}

}  // namespace

TEST_SUITE("given derivatives") {
  TEST_CASE("can be taken any number of times") {
    for (int order = 1; order <= 4; ++order) {
      Tensor x = points();
      std::vector<double> sinh = derivative(x.sinh(), x, order), at = x.to_vector<double>();
      for (size_t i = 0; i < at.size(); ++i)
        CHECK(sinh[i] == doctest::Approx(order % 2 ? std::cosh(at[i]) : std::sinh(at[i])));
    }
    Tensor x = points();
    std::vector<double> third = derivative(x.asinh(), x, 3), at = x.to_vector<double>();
    for (size_t i = 0; i < at.size(); ++i)
      CHECK(third[i] ==
            doctest::Approx((2 * at[i] * at[i] - 1) / std::pow(1 + at[i] * at[i], 2.5)));
  }

  TEST_CASE("see through values that were realized meanwhile") {
    Tensor w = points().requires_grad_(), h = w * 2, y = h.asinh();
    h.realize();
    Tensor first = y.sum().gradient({w})[0], second = first.sum().gradient({w})[0];
    std::vector<double> got = second.to_vector<double>(), at = w.to_vector<double>();
    for (size_t i = 0; i < at.size(); ++i) {
      const double u = 2 * at[i];
      CHECK(got[i] == doctest::Approx(-4 * u / std::pow(1 + u * u, 1.5)));
    }
  }

  TEST_CASE("are no part of what runs forwards") {
    Tensor x = empty({512, 512}, {.device = "NULL"}).realize();
    ScheduleReport with = explain(std::vector{x.log1p()});
    ScheduleReport back = explain(x.log1p().gradient({x}, x.ones_like()));
    CHECK(with.kernels.size() == 1);
    CHECK(back.kernels.size() == 1);
    CHECK(back.total.ops <= 4 * 512 * 512);  // 1 / (1 + x), not what log1p is made of
  }

  TEST_CASE("of a power see the exponents that padding makes 0") {
    Tensor x = full({4}, 2., {DType::f64}).requires_grad_();
    x.pow(full({2}, 3., {DType::f64}).pad({1, 1})).sum().backward();
    CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 12, 12, 0});
  }

  TEST_CASE("work with symbolic sizes") {
    Sym n = Variable("given_n", 1, 8).bind(3);
    Tensor all = tensor({1.0, 2.0, 4.0, 7.0, 7.0, 7.0, 7.0, 7.0}, {float64}).realize();
    Tensor x = all(Slice(0, n));
    std::vector<double> power = (x.pow(1.5)).sum().gradient({all})[0].to_vector<double>();
    std::vector<double> fold = x.logsumexp(0).gradient({all})[0].to_vector<double>();
    std::vector<double> norm = x.norm(3, 0).gradient({all})[0].to_vector<double>();
    CHECK(power[2] == doctest::Approx(3));
    CHECK(power[3] == 0);
    CHECK(fold[0] == doctest::Approx(1 / (1 + std::exp(1) + std::exp(3))));
    CHECK(norm[1] == doctest::Approx(4 / std::pow(73, 2.0 / 3)));
  }

  TEST_CASE("are captured") {
    Tensor w = points().requires_grad_();
    auto step = jit([&](const Tensor& x) {
      Tensor loss = (w * x).asinh().sum();
      loss.backward();
      Tensor g = w.grad() * 1;
      w.zero_grad();
      return g;
    });
    for (int i = 1; i <= 4; ++i) {
      std::vector<double> got = step(full({5}, i, float64).realize()).to_vector<double>();
      std::vector<double> at = w.to_vector<double>();
      for (size_t k = 0; k < at.size(); ++k)
        CHECK(got[k] == doctest::Approx(i / std::sqrt(1 + i * i * at[k] * at[k])));
    }
  }
}
