// backward, grad, gradient and their errors, as a user sees them.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <string>
#include <thread>
#include <vector>

#include "ir/graph.h"
#include "ir/provenance.h"
#include "tensor/impl.h"

using namespace mote;

namespace {

using Values = std::vector<float>;

Tensor leaf(const Values& values, const Sizes& shape) {
  Tensor t = from_data(values, shape, {.device = "INTERP"});
  return t.requires_grad_();
}
Values values(const Tensor& t) { return t.to_vector<float>(); }

std::string error_of(void (*f)()) {
  try {
    f();
  } catch (const Error& e) {
    std::string text = e.what();
    return text.substr(0, text.rfind(" ("));
  }
  return "no error";
}

}  // namespace

TEST_SUITE("tensor grad") {
  TEST_CASE("backward: a leaf that is realized between two uses of it counts once for each") {
  for (const Sizes& shape : {Sizes{2}, Sizes{2, 1}, Sizes{1, 2}}) {
    Tensor x = tensor({2.f, 3.f}).reshape(shape).clone().requires_grad_();
    Tensor before = x.square();
    x.realize();
    (before + x).sum().backward();
    CHECK(x.grad().to_vector<float>() == std::vector<float>{5, 7});
  }
}

TEST_CASE("backward fills the leaves' gradients and adds to them") {
    Tensor x = leaf({1, 2, 3}, {3}), y = leaf({4, 5, 6}, {3}), z = leaf({1}, {1});
    CHECK(!x.grad().defined());
    (x * y).sum().backward();
    CHECK(values(x.grad()) == Values{4, 5, 6});
    CHECK(values(y.grad()) == Values{1, 2, 3});
    CHECK(!z.grad().defined());
    Tensor seen = x.grad();
    (x * x).sum().backward();
    CHECK(values(x.grad()) == Values{6, 9, 12});
    CHECK(values(seen) == Values{6, 9, 12});
    x.zero_grad();
    CHECK(!x.grad().defined());
    (x * 2).sum().backward();
    CHECK(values(x.grad()) == Values{2, 2, 2});
  }

  TEST_CASE("a loss that a leaf does not change has the gradient 0, not none") {
    for (const char* device : {"CPU", "INTERP"}) {
      auto gradient = [&](const Values& start, Tensor (*loss)(const Tensor&)) {
        Tensor x = from_data(start, static_cast<int64_t>(start.size()), {.device = device});
        loss(x.requires_grad_()).backward();
        return x.grad().defined() ? values(x.grad()) : Values{-1};
      };
      CHECK(gradient({1, 2}, [](const Tensor& x) { return x.pow(0).sum(); }) == Values{0, 0});
      CHECK(gradient({1, 2}, [](const Tensor& x) { return x.sign().sum(); }) == Values{0, 0});
      CHECK(gradient({1, 2}, [](const Tensor& x) { return x.floor().sum(); }) == Values{0, 0});
      CHECK(gradient({1, 2}, [](const Tensor& x) { return x(Slice(0, 0)).sum(); }) ==
            Values{0, 0});
      CHECK(gradient({1, 2}, [](const Tensor& x) { return x(Slice(0, 0)).prod(); }) ==
            Values{0, 0});
      CHECK(gradient({1, 2}, [](const Tensor& x) { return x(Slice(0, 0)).pad({1, 1}).sum(); }) ==
            Values{0, 0});
      CHECK(gradient({1, 2}, [](const Tensor& x) {
              return x(Slice(0, 0)).reshape({2, 0}).matmul(zeros({0, 3}, {.device = x.device()}))
                  .sum();
            }) == Values{0, 0});
      CHECK(gradient({}, [](const Tensor& x) { return x.sum(); }) == Values{});
      CHECK(gradient({}, [](const Tensor& x) {
              return cat({x, ones({2}, {.device = x.device()})}).sum();
            }) == Values{});
      CHECK(gradient({}, [](const Tensor& x) { return (x * 2).exp().sum(); }) == Values{});
    }
    CHECK(leaf({-2, 0, 3}, {3}).sign().to_vector<float>() == Values{-1, 0, 1});
    CHECK(leaf({-2, 0, 3}, {3}).pow(0).to_vector<float>() == Values{1, 1, 1});
    CHECK(error_of([] { (leaf({1}, {1}) > 0).to_float().sum().backward(); })
              .find("depends on no marked tensor") != std::string::npos);
    CHECK(error_of([] { leaf({1}, {1}).detach().pow(0).sum().backward(); })
              .find("depends on no marked tensor") != std::string::npos);
  }

  TEST_CASE("a gradient is a tensor like any other") {
    Tensor x = leaf({1, 2}, {2});
    x.square().sum().backward();
    x.grad().mul_(10);
    CHECK(values(x.grad()) == Values{20, 40});
    x.sum().backward();
    CHECK(values(x.grad()) == Values{21, 41});
    x.grad().realize();
    x.sum().backward();
    CHECK(values(x.grad()) == Values{22, 42});
  }

  TEST_CASE("shapes, seeds and views") {
    Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
    x.t().backward(from_data(Values{1, 2, 3, 4, 5, 6}, {3, 2}, {.device = "INTERP"}));
    CHECK(x.grad().shape() == std::vector<int64_t>{2, 3});
    CHECK(values(x.grad()) == Values{1, 3, 5, 2, 4, 6});
    CHECK(!x.t().grad().defined());
    Tensor half = leaf({1, 2, 3, 4}, {4});
    half(Slice(1, 3)).sum().backward();
    CHECK(values(half.grad()) == Values{0, 1, 1, 0});
    Tensor reshaped =
        from_data(Values{1, 2, 3, 4}, {4}, {.device = "INTERP"}).reshape({2, 2}).requires_grad_();
    (reshaped * reshaped).sum().backward();
    CHECK(values(reshaped.grad()) == Values{2, 4, 6, 8});
    Tensor ones_leaf = ones({2}, {.device = "INTERP"}).requires_grad_();
    (ones_leaf * ones({2}, {.device = "INTERP"})).sum().backward();
    CHECK(values(ones_leaf.grad()) == Values{1, 1});
  }

  TEST_CASE("requires_grad, detach and marks") {
    Tensor x = leaf({1, 2}, {2});
    CHECK(x.requires_grad());
    CHECK((x * 2).requires_grad());
    CHECK(!x.detach().requires_grad());
    CHECK(!(x > 1).requires_grad());
    (x * x.detach()).sum().backward();
    CHECK(values(x.grad()) == Values{1, 2});
    Tensor y = (x * 2).requires_grad_();  // computed from a leaf: already required, stays computed
    y.sum().backward();
    CHECK(values(x.grad()) == Values{3, 4});
    Tensor own = x.detach().requires_grad_();
    (own * own * x).sum().backward();
    CHECK(values(own.grad()) == Values{2, 8});
    x.requires_grad_(false);
    CHECK(!x.requires_grad());
    CHECK(!x.grad().defined());
  }

  TEST_CASE("what was detached before it was realized is no part of the graph") {
    Tensor x = leaf({1, 2}, {2}), y = (x * 3).detach();
    y.realize();
    (x * y).sum().backward();
    CHECK(values(x.grad()) == Values{3, 6});
  }

  TEST_CASE("a step of descent written in place") {
    Tensor w = leaf({1, 2}, {2});
    for (int step = 0; step < 3; ++step) {
      w.zero_grad();
      w.square().sum().backward();
      w.assign(w - w.grad() * 0.25);
      if (step == 1) w.realize();
    }
    CHECK(values(w) == Values{0.125, 0.25});
    CHECK(w.requires_grad());
  }

  TEST_CASE("gradients flow through what was written in place") {
    Tensor x = leaf({1, 2, 3}, {3});
    Tensor y = x * 2;
    y(Slice(0, 2)) = x(Slice(1, 3)) * x(Slice(0, 2));
    y.sum().backward();
    CHECK(values(x.grad()) == Values{2, 4, 4});
  }

  TEST_CASE("gradient needs no marks, and any order works") {
    Tensor x = from_data(Values{1, 2, 3}, {3}, {.device = "INTERP"});
    Tensor y = x * x * x;
    Tensor first = y.sum().gradient({x})[0], second = first.sum().gradient({x})[0];
    Tensor third = second.sum().gradient({x})[0];
    CHECK(values(first) == Values{3, 12, 27});
    CHECK(values(second) == Values{6, 12, 18});
    CHECK(values(third) == Values{6, 6, 6});
    Tensor other = from_data(Values{1}, {1}, {.device = "INTERP"});
    CHECK(values(y.sum().gradient({other}, {}, true)[0]) == Values{0});
    CHECK(values(y.sum().gradient({y})[0]) == Values{1, 1, 1});
    y.realize();
    CHECK(values((y * 2).sum().gradient({y})[0]) == Values{2, 2, 2});
  }

  TEST_CASE("symbolic sizes") {
    Tensor x = leaf({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
    Sym n = Variable("n", 1, 4).bind(3);
    Tensor cut = x(Slice(1, n));
    (cut * cut).sum().backward();
    CHECK(values(x.grad()) == Values{0, 0, 6, 8, 10, 12, 0, 0});
    x.zero_grad();
    x(Slice(0, n)).prod(0).sum().backward();
    CHECK(values(x.grad()) == Values{15, 24, 5, 12, 3, 8, 0, 0});
    x.zero_grad();
    x(Slice(0, n)).amax().backward();
    CHECK(values(x.grad()) == Values{0, 0, 0, 0, 0, 1, 0, 0});
  }

  TEST_CASE("leaves and their graphs die with their handles") {
    uint64_t before = tensor_graph::live_nodes();
    {
      Tensor x = leaf({1, 2}, {2});
      (x * x).sum().backward();
      CHECK(x.grad().defined());
    }
    CHECK(tensor_graph::live_nodes() == before);
  }

  TEST_CASE("a leaf may die elsewhere before backward runs") {
    Tensor kept = leaf({1, 2}, {2}), loss;
    {
      Tensor gone = leaf({3, 4}, {2});
      loss = (kept * gone).sum();
    }
    std::thread([&] { loss.backward(); }).join();
    CHECK(values(kept.grad()) == Values{3, 4});
  }

  TEST_CASE("misuse") {
    CHECK(error_of([] {
            leaf({1, 2}, {2}).backward();
          }) ==
          "[backward] the gradient can be left out only if the tensor has one element, got shape "
          "(2); reduce it (sum, mean) or pass a gradient of that shape");
    CHECK(error_of([] {
            Tensor loss = leaf({1, 2}, {2}).sum();
            loss.realize();
            loss.backward();
          }) ==
          "[backward] this tensor was already realized, its graph is gone; call backward() "
          "before realize/item");
    CHECK(
        error_of([] {
          Tensor x = leaf({1, 2}, {2}), y = x * 2;
          y.realize();
          y.sum().backward();
        }) ==
        "[backward] it depends on a tensor of 2 elements that was already realized, whose graph is "
        "gone; call backward() before realize/item, or detach() that tensor");
    CHECK(error_of([] {
            Tensor y = leaf({1, 2}, {2}) * 2;
            y.add_(1).realize();
            y.sum().backward();
          }) ==
          "[backward] it depends on a tensor of 2 elements that was already realized, whose "
          "graph is gone; call backward() before realize/item, or detach() that tensor");
    CHECK(error_of([] { from_data(Values{1}, {}, {.device = "INTERP"}).backward(); }) ==
          "[backward] this tensor of shape () depends on no marked tensor; call requires_grad_() "
          "on the leaves first");
  }
}
