// Kernels that stage rows, against the interpreter of tensor graphs: attention in the sizes that
// make several at once, softmax of long rows, and what a mask hides.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/realize.h"

#include <mote/mote.h>

using namespace mote;

namespace {

Tensor on(const char* device, const Tensor& t) { return t.to(device).contiguous().realize(); }

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to(float32).to_vector<float>(),
                           y = b.to(float32).to_vector<float>();
  REQUIRE(x.size() == y.size());
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) return HUGE_VAL;
    if (!std::isnan(x[i]) && x[i] != y[i])
      most = std::max(most, std::fabs(static_cast<double>(x[i]) - y[i]));
  }
  return most;
}

struct Heads {
  int64_t heads, queries, keys, features;
};

struct Inputs {
  Tensor q, k, v;
  explicit Inputs(const Heads& s, DType d = float32)
      : q(randn({1, s.heads, s.queries, s.features}).to(d).realize()),
        k(randn({1, s.heads, s.keys, s.features}).to(d).realize()),
        v(randn({1, s.heads, s.keys, s.features}).to(d).realize()) {}
  Tensor attend(const char* device, AttentionOptions o = {}) const {
    if (o.attn_mask.defined()) o.attn_mask = on(device, o.attn_mask);
    return on(device, q).scaled_dot_product_attention(on(device, k), on(device, v), o);
  }
};

const Heads shapes[] = {
    {2, 64, 64, 16}, {3, 100, 100, 24}, {2, 70, 130, 16}, {12, 128, 128, 64}, {1, 65, 33, 40},
};

}  // namespace

TEST_SUITE("attention") {
  TEST_CASE("one kernel gives what the reference gives") {
    manual_seed(5);
    for (const Heads& s : shapes) {
      CAPTURE(s.queries);
      const Inputs in(s);
      std::vector<Tensor> out{in.attend("CPU")};
      CHECK(explain(out).kernels.size() == 1);
      CHECK(largest_difference(out[0], in.attend("INTERP")) < 2e-6);
      if (s.queries != s.keys) continue;
      CHECK(largest_difference(in.attend("CPU", {.is_causal = true}),
                               in.attend("INTERP", {.is_causal = true})) < 2e-6);
    }
  }

  TEST_CASE("with masks, narrow floats and shared heads") {
    manual_seed(6);
    const Heads s{4, 96, 96, 32};
    const Inputs in(s), half(s, float16);
    Tensor seen = rand({96, 96}).gt(0.3).realize(), bias = randn({96, 96}).realize();
    for (const Tensor& mask : {seen, bias})
      CHECK(largest_difference(in.attend("CPU", {.attn_mask = mask}),
                               in.attend("INTERP", {.attn_mask = mask})) < 2e-6);
    CHECK(largest_difference(half.attend("CPU", {.is_causal = true}),
                             half.attend("INTERP", {.is_causal = true})) < 2e-3);
    Inputs shared(s);
    shared.k = shared.k.narrow(1, 0, 2).contiguous().realize();
    shared.v = shared.v.narrow(1, 0, 2).contiguous().realize();
    CHECK(largest_difference(shared.attend("CPU", {.enable_gqa = true}),
                             shared.attend("INTERP", {.enable_gqa = true})) < 2e-6);
  }

  TEST_CASE("rows without anything to see, infinities and large scores") {
    manual_seed(7);
    Inputs in({2, 64, 64, 16});
    Tensor seen = (arange(0, 64).reshape({64, 1}).gt(arange(0, 64))).realize();  // row 0: nothing
    CHECK(largest_difference(in.attend("CPU", {.attn_mask = seen}),
                             in.attend("INTERP", {.attn_mask = seen})) < 2e-6);
    in.q = (in.q * 1e3).realize();
    CHECK(largest_difference(in.attend("CPU", {.is_causal = true}),
                             in.attend("INTERP", {.is_causal = true})) < 2e-6);
    in.q = (in.q * std::numeric_limits<float>::infinity()).realize();
    CHECK(largest_difference(in.attend("CPU", {.is_causal = true}),
                             in.attend("INTERP", {.is_causal = true})) < 2e-6);
  }

  TEST_CASE("gradients") {
    manual_seed(8);
    const Inputs in({2, 64, 64, 16});
    auto gradients = [&](const char* device) {
      Tensor q = on(device, in.q).detach(), k = on(device, in.k).detach(),
             v = on(device, in.v).detach();
      for (Tensor* t : {&q, &k, &v}) t->requires_grad_();
      (q.scaled_dot_product_attention(k, v, {.is_causal = true}) * q).sum().backward();
      return std::vector<Tensor>{q.grad(), k.grad(), v.grad()};
    };
    const std::vector<Tensor> ours = gradients("CPU"), theirs = gradients("INTERP");
    for (size_t i = 0; i < ours.size(); ++i)
      CHECK(largest_difference(ours[i], theirs[i]) < 2e-5);
  }

  TEST_CASE("softmax of long rows, and what is made of it") {
    manual_seed(9);
    Tensor x = randn({40, 1500}).realize(), y = on("INTERP", x);
    CHECK(largest_difference(x.softmax(-1), y.softmax(-1)) < 1e-6);
    CHECK(largest_difference(x.softmax(-1) * x.exp(), y.softmax(-1) * y.exp()) < 1e-5);
    Tensor w = randn({1500, 8}).realize();
    Tensor product = y.softmax(-1).matmul(on("INTERP", w));
    CHECK(largest_difference(x.softmax(-1).matmul(w), product) < 1e-5);
    CHECK(largest_difference(x.flip({1}).softmax(-1) + x.softmax(-1),
                             y.flip({1}).softmax(-1) + y.softmax(-1)) < 1e-6);
  }

  TEST_CASE("a row that is staged is whole, wherever along an axis of one element it is asked for") {
    manual_seed(10);
    const Tensor x = randn({3, 1, 2}).realize();
    auto rows = [](const Tensor& t) {
      Tensor sum = t.matmul(t.transpose(1, 2));
      Tensor row = cat({sum.expand({3, 1, 2}), (sum * sum + 1).sqrt(), sum.abs()}, 2);
      return cat({row, row, row}, 1);
    };
    CHECK(largest_difference(rows(x), rows(on("INTERP", x))) < 1e-6);
  }
}
