// What mote/kernel.h promises: expressions over indices are the tensor programs they stand for, on
// every kind of device, fused and with derivatives; functions in C; and what mistakes print.
#include <doctest/doctest.h>
#include <mote/grad.h>
#include <mote/kernel.h>
#include <mote/mote.h>

#include <cmath>

#include "engine/realize.h"
#include "runtime/c_compiler.h"
#include "test/error_of.h"

using namespace mote;

namespace {

using Values = std::vector<float>;

Tensor uniform(const Sizes& shape, const char* device) {
  return rand(shape, {DType::f32, device}).realize().requires_grad_();
}

// Values and derivatives of two ways to compute the same.
void check_same(const char* what, const Tensor& ours, const Tensor& theirs,
                const std::vector<Tensor>& leaves) {
  CAPTURE(std::string(what));
  CHECK(ours.shape() == theirs.shape());
  auto near = [](const Tensor& a, const Tensor& b) {
    return (a - b).abs().max().item<float>() <= 1e-5f * (1 + b.abs().max().item<float>());
  };
  CHECK(near(ours, theirs));
  Tensor g = rand(ours.shape(), {ours.dtype(), ours.device()});
  const std::vector<Tensor> a = (ours * g).sum().gradient(leaves),
                            b = (theirs * g).sum().gradient(leaves);
  for (size_t i = 0; i < leaves.size(); ++i) CHECK(near(a[i], b[i]));
}

Tensor product(const Tensor& x, const Tensor& y) {
  return custom_kernel(
      "product", {x.size(0), y.size(1)}, {x, y}, [](const Indices& i, const Inputs& in) {
        return sum_over(in[0].size(1),
                        [&](const Position& k) { return in[0](i[0], k) * in[1](k, i[1]); });
      });
}

Tensor squared_distances(const Tensor& x, const Tensor& y) {
  return custom_kernel("distances", {x.size(0), y.size(0)}, {x, y},
                       [](const Indices& i, const Inputs& in) {
                         return sum_over(in[0].size(1), [&](const Position& k) {
                           return (in[0](i[0], k) - in[1](i[1], k)).square();
                         });
                       });
}

size_t kernels_of(const Tensor& t) { return explain({&t, 1}).kernels.size(); }

Tensor first_row(const Tensor& x, const KernelExpression& f) {
  return custom_kernel("odd", {x.size(0)}, {x}, f);
}

const char* scaled_text = R"(
#include <math.h>
void scaled(float* out, const float* x, const float* w, int64_t n, int64_t m) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) out[i * m + j] = expf(x[i * m + j]) * w[j];
}
)";
Tensor scaled(const Tensor& x, const Tensor& w) {
  const std::vector<int64_t> sizes = x.shape();
  return source_kernel("scaled", scaled_text, sizes, DType::f32, {x, w}, sizes);
}

}  // namespace

TEST_CASE("custom_kernel: values that can be counted on fingers") {
  Tensor x = tensor({
      {1.f, 2.f },
      {3.f, 5.f },
      {0.f, -1.f}
  });
  CHECK(squared_distances(x, x).to_vector<float>() == Values{0, 13, 10, 13, 0, 45, 10, 45, 0});
  Tensor digits = custom_kernel("digits", {3, 4}, {}, [](const Indices& i, const Inputs&) {
    return ((i[0] * 7 + i[1] - 5) / 3 * 10 + (i[0] * 7 + i[1] - 5) % 3).to(DType::i32);
  });
  CHECK(digits.to_vector<int32_t>() ==
        std::vector<int32_t>{-19, -18, -10, -9, 2, 10, 11, 12, 30, 31, 32, 40});
}

TEST_CASE("custom_kernel: expressions are the tensor programs they stand for") {
  for (const char* device : {"CPU", "INTERP", "SIMT"}) {
    CAPTURE(std::string(device));
    manual_seed(11);
    Tensor x = uniform({6, 5}, device), y = uniform({5, 7}, device);
    check_same("product", product(x, y), x.matmul(y), {x, y});
    check_same("stencil",
               custom_kernel("stencil", {6, 5}, {x},
                             [](const Indices& i, const Inputs& in) {
                               return in[0].or_zero(i[0] - 1, i[1]) - 2 * in[0](i[0], i[1]) +
                                      in[0].or_zero(i[0] + 1, i[1] + 1);
                             }),
               x.pad({0, 0, 1, 0}).narrow(0, 0, 6) - 2 * x +
                   x.pad({0, 1, 0, 1}).narrow(0, 1, 6).narrow(1, 1, 5),
               {x});
    Tensor softmax = custom_kernel("softmax", {6, 5}, {x}, [](const Indices& i, const Inputs& in) {
      auto row = [&](const Position& k) { return in[0](i[0], k); };
      Tensor top = max_over(in[0].size(1), row).detach();
      Tensor all = sum_over(5, [&](const Position& k) { return (row(k) - top).exp(); });
      return (row(i[1]) - top).exp() / all;
    });
    check_same("softmax", softmax, x.softmax(1), {x});
    Tensor z = uniform({2, 4, 11}, device), w = uniform({3, 4, 2}, device);
    Tensor conv = custom_kernel("conv", {2, 3, 5}, {z, w}, [](const Indices& i, const Inputs& in) {
      return sum_over(4, [&](const Position& c) {
        return sum_over(2, [&](const Position& k) {
          return in[0](i[0], c, i[2] * 2 + k * 2) * in[1](i[1], c, k);
        });
      });
    });
    check_same("conv", conv, z.conv1d(w, {}, {.stride = 2, .dilation = 2}), {z, w});
    Tensor diagonal = custom_kernel(
        "diagonal", {5}, {x}, [](const Indices& i, const Inputs& in) { return in[0](i[0], i[0]); });
    check_same("diagonal", diagonal, x.diagonal(), {x});
    Tensor list = tensor({0, 3, -1, 3}, {DType::i64, device});
    Tensor rows = custom_kernel("rows", {4, 5}, {x, list}, [](const Indices& i, const Inputs& in) {
      return in[0](in[1](i[0]), i[1]).exp();
    });
    check_same("rows", rows, x.index_select(0, list).exp(), {x});
    Tensor tril = custom_kernel("tril", {6, 5}, {x}, [](const Indices& i, const Inputs& in) {
      return where(i[0] >= i[1], in[0](i[0], i[1]) * (i[0] + 1).to(DType::f32), 0);
    });
    Tensor factor = arange(1, 7, 1, {DType::f32, device}).unsqueeze(1);
    check_same("tril", tril, (x * factor).tril(), {x});
    check_same("least of a product",
               custom_kernel("least", {6}, {x},
                             [](const Indices& i, const Inputs& in) {
                               return prod_over(
                                   5, [&](const Position& k) { return in[0](i[0], k) + 0.5; });
                             }),
               (x + 0.5).prod(1), {x});
  }
}

TEST_CASE("custom_kernel: derivatives against differences, of second order too") {
  manual_seed(3);
  Tensor x = rand({3, 2}, {DType::f64, {}}).realize().requires_grad_();
  Tensor y = rand({4, 2}, {DType::f64, {}}).realize();
  auto f = [&](const Tensor& t) { return (-squared_distances(t, y)).exp().sum(); };
  Tensor direction = randn({3, 2}, {DType::f64, {}}).realize();
  auto slope = [&](const Tensor& t) { return (f(t).gradient({t})[0] * direction).sum(); };
  auto moved = [&](double by) { return (x.detach() + direction * by).realize().requires_grad_(); };
  const double h = 1e-5;
  const double first = (f(moved(h)) - f(moved(-h))).item<double>() / (2 * h);
  CHECK(slope(x).item<double>() == doctest::Approx(first).epsilon(1e-8));
  const double second = (slope(moved(h)) - slope(moved(-h))).item<double>() / (2 * h);
  CHECK((slope(x).gradient({x})[0] * direction).sum().item<double>() ==
        doctest::Approx(second).epsilon(1e-7));
}

TEST_CASE("custom_kernel: one kernel with its neighbours, and as many as a tensor program") {
  Tensor x = rand({64, 32}).realize(), y = rand({48, 32}).realize();
  Tensor v = rand({64}).realize();
  Tensor blur = custom_kernel("blur", {64}, {v * 2}, [](const Indices& i, const Inputs& in) {
    return in[0].or_zero(i[0] - 1) + in[0](i[0]) + in[0].or_zero(i[0] + 1);
  });
  CHECK(kernels_of(blur.exp()) == 1);
  CHECK(kernels_of((squared_distances(x * 2, y) + 1).sqrt()) ==
        kernels_of((((x * 2).unsqueeze(1) - y).square().sum(2) + 1).sqrt()));
  Tensor w = rand({32, 16}).realize();
  CHECK(kernels_of(product(x, w).relu()) == kernels_of(x.matmul(w).relu()));
  Tensor leaf = rand({64, 32}).realize().requires_grad_();
  auto backward = [&](const Tensor& loss) { return kernels_of(loss.gradient({leaf})[0]); };
  CHECK(backward(product(leaf, w).square().sum()) == backward(leaf.matmul(w).square().sum()));
}

TEST_CASE("custom_kernel: in a jit, and with symbolic sizes") {
  auto f = jit([](const Tensor& x, const Tensor& y) { return squared_distances(x, y).sum(1); });
  for (int i = 0; i < 4; ++i) {
    Tensor x = rand({5, 3}).realize(), y = rand({7, 3}).realize();
    Tensor wanted = (x.unsqueeze(1) - y).square().sum(Axes{1, 2});
    CHECK((f(x, y) - wanted).abs().max().item<float>() < 1e-5);
  }
  Variable n("n", 1, 8);
  Tensor x = rand({8}).realize();
  for (int64_t k : {3, 8}) {
    const Sym bound = n.bind(k);
    Tensor part = x.narrow(0, 0, bound);
    Tensor sums = custom_kernel("sums", {bound}, {part}, [&](const Indices& i, const Inputs& in) {
      return sum_over(bound, [&](const Position& j) { return where(j <= i[0], in[0](j), 0); });
    });
    CHECK(sums.sum().item<float>() ==
          doctest::Approx(x.narrow(0, 0, k).cumsum(0).sum().item<float>()));
  }
}

TEST_CASE("custom_kernel: what mistakes print") {
  Tensor x = rand({6, 5}).realize(), other = rand({6}).realize();
  auto says = [&](const char* part, const KernelExpression& f) {
    const std::string said = error_of([&] { first_row(x, f); });
    CHECK_MESSAGE(said.find(part) != std::string::npos, said);
    CHECK_MESSAGE(said.starts_with("[odd] "), said);
    CHECK_MESSAGE(said.find("kernel_test.cpp:") != std::string::npos, said);
  };
  using I = const Indices&;
  using In = const Inputs&;
  says("input 0, of shape (6, 5), is read with 1 positions",
       [](I i, In in) { return in[0](i[0]); });
  says("axis 0 of input 0, of shape (6, 5), is read at positions from 1 to 6",
       [](I i, In in) { return in[0](i[0] + 1, 0); });
  says("made of more than single elements", [](I i, In in) { return in[0](i[0], 0).softmax(0); });
  says("made of more than single elements",
       [&](I i, In in) { return in[0](i[0], 0) * other.exp(); });
  says("made of more than single elements", [](I i, In in) {
    return sum_over(2, [&](const Position&) { return in[0](i[0], 0).flip(-1); });
  });
  says("uses the index of a sum outside", [](I i, In in) {
    Tensor inside;
    sum_over(5, [&](const Position& k) { return inside = in[0](i[0], k); });
    return inside;
  });
  says("a position is an element of a tensor of integers, got one of f32",
       [](I i, In in) { return in[0](in[0](i[0], 0), 0); });
  says("made of more than single elements", [](I i, In in) { return in[0](i[0], 0).sum(); });
  Tensor mean = other.mean();
  first_row(
      x, [&](I i, In in) { return in[0](i[0], 0) * mean; });  // one number may come from anywhere
  says("the result is undefined", [](I, In) { return Tensor(); });
  says("the result uses the index", [](I i, In in) { return in[0](i[0], 0).unsqueeze(0); });
  CHECK(error_of([] {
          sum_over(3, [](const Position&) { return Tensor(); });
        }).find("[sum_over] is for the expression of a custom_kernel") == 0);
  Tensor list = tensor({1, 9, 0});
  const std::string late = error_of([&] {
    custom_kernel("pick", {3}, {x, list}, [](I i, In in) {
      return in[0](in[1](i[0]), 0);
    }).realize();
  });
  CHECK_MESSAGE(late.find("[pick] index 9 is out of range for an axis of size 6") == 0, late);
}

TEST_CASE("source_kernel: a function in C among kernels") {
  if (!c_compiler_available()) {
    MESSAGE("skipped: there is no C compiler");
    return;
  }
  manual_seed(4);
  Tensor x = randn({6, 5}).realize(), w = rand({5}).realize();
  auto check = [](const Tensor& a, const Tensor& b) {
    CHECK((a - b).abs().max().item<float>() <= 1e-5f * (1 + b.abs().max().item<float>()));
  };
  Tensor plain = scaled(x, w);
  CHECK(kernels_of(plain) == 1);  // it writes the result itself
  check(plain, x.exp() * w);
  check(scaled(x * 2 + 1, w.flip(0)) + x, (x * 2 + 1).exp() * w.flip(0) + x);
  check(scaled(ones({2, 5}), w), ones({2, 5}).exp() * w);
  check(scaled(x.narrow(0, 1, 3), w), x.narrow(0, 1, 3).exp() * w);
  Tensor y = rand({5, 6}).realize();
  check(scaled(y.t(), w), y.t().exp() * w);
  Tensor same = x.clone().realize();
  same.assign(scaled(same, w));
  check(same, x.exp() * w);
  Tensor part = zeros({8, 5}).realize();
  part.narrow(0, 1, 6).assign(scaled(x, w));
  check(part, (x.exp() * w).pad({0, 0, 1, 1}));
  auto f = jit([&](const Tensor& a) { return scaled(scaled(a * 0.1, w), w).relu(); });
  for (int i = 0; i < 4; ++i) {
    Tensor a = randn({6, 5}).realize();
    check(f(a), (((a * 0.1).exp() * w).exp() * w).relu());
  }
  Tensor leaf = x.clone().realize().requires_grad_();
  CHECK_FALSE(scaled(leaf, w).requires_grad());
  custom_function(
      {leaf, w}, [](auto& in) { return scaled(in[0], in[1]); },
      [](const BackwardCall& b) {
        return std::vector<Tensor>{b.gradient * b.output, {}};
      })
      .sum()
      .backward();
  check(leaf.grad(), x.exp() * w);
  Tensor counts = source_kernel(
      "counts", "void counts(int64_t* o, const uint8_t* m) { o[0] = m[0] + 2 * m[1]; }", {},
      DType::i64, {tensor({1.f, 3.f}) > 2});
  CHECK(counts.item<int64_t>() == 2);
}

TEST_CASE("source_kernel: what mistakes print") {
  if (!c_compiler_available()) return;
  Tensor x = rand({6, 5}).realize();
  auto said = [&](const char* name, const char* text) {
    return error_of([&] { source_kernel(name, text, {1}, DType::f32, {x}); });
  };
  auto holds = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  holds(said("f", "void f(float* o, const float* x) {\n  o[0] = y;\n}"), "f:2:");
  holds(said("f", "void g(int);\nvoid f(float* o, const float* x) { g(1); }"), "unknown symbol g");
  holds(said("a b", ""), "[source_kernel] the name of the function in C is \"a b\"");
  for (const char* device : {"INTERP", "SIMT", "NULL"}) {
    Tensor there = zeros({6, 5}, {DType::f32, device}), w = zeros({5}, {DType::f32, device});
    holds(error_of([&] { scaled(there, w); }), "takes no programs as text");
    holds(error_of([&] { scaled(there, w); }), device);
  }
}
