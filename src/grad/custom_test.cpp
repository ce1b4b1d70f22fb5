// What mote/grad.h promises: scopes without history, derivatives of one's own, hooks, checkpoints.
#include <doctest/doctest.h>
#include <mote/error.h>
#include <mote/grad.h>
#include <mote/jit.h>
#include <mote/nn.h>
#include <mote/optim.h>

#include <cmath>

#include "engine/realize.h"

using namespace mote;

namespace {

using Values = std::vector<float>;
using Tensors = std::vector<Tensor>;

Tensor leaf(const char* device = "CPU") {
  return tensor({1.0, -2.0, 3.0}, {DType::f32, device}).requires_grad_();
}
Values values(const Tensor& t) { return t.to_vector<float>(); }

}  // namespace

TEST_CASE("no_grad: results have no history, leaves stay leaves") {
  for (const char* device : {"CPU", "INTERP"}) {
    Tensor w = leaf(device), h = w * 2;
    {
      auto scope = no_grad();
      CHECK(!is_grad_enabled());
      CHECK(w.requires_grad());
      for (const Tensor& t : {w * 2, w[0], w.reshape({3, 1}), h + 1, h.flip(0), w.sum()})
        CHECK(!t.requires_grad());
      CHECK(values(w * 2 + 1) == Values{3, -3, 7});
      Tensor view = w[0];
      view.fill_(5);  // writes the leaf
      Tensor copy = zeros({3}, {DType::f32, device});
      copy.assign(w);
      CHECK(!copy.requires_grad());
      CHECK(values(copy) == Values{5, -2, 3});
      Tensor fresh = zeros({2}, {DType::f32, device}).requires_grad_();
      {
        auto inner = enable_grad();
        (fresh * 3).sum().backward();
      }
      CHECK(values(fresh.grad()) == Values{3, 3});
      (h * h).detach();
    }
    CHECK(is_grad_enabled());
    CHECK((w * 2).requires_grad());
    CHECK(values(w) == Values{5, -2, 3});
  }
}

TEST_CASE("no_grad: a captured function is called anew in another scope") {
  Tensor w = leaf();
  int calls = 0;
  auto f = jit([&](const Tensor& x) {
    ++calls;
    return w * x;
  });
  Tensor x = tensor(2.0).realize();
  for (int i = 0; i < 4; ++i) f(x);
  CHECK(calls == 2);
  auto scope = no_grad();
  CHECK(values(f(x)) == Values{2, -4, 6});
  CHECK(calls == 3);
}

TEST_CASE("custom_function: its inputs get what backward says, once asked") {
  for (const char* device : {"CPU", "INTERP"}) {
    Tensor a = leaf(device), b = leaf(device);
    int asked = 0;
    Tensor y = custom_function(
        {a, b}, [](const Tensors& in) { return in[0].round() * in[1]; },
        [&](const BackwardCall& call) {
          ++asked;
          CHECK(call.inputs.size() == 2);
          return Tensors{call.gradient * 10 + call.output, {}};
        });
    (y * 2).sum().backward();
    CHECK(asked == 1);
    CHECK(values(y) == Values{1, 4, 9});
    CHECK(values(a.grad()) == Values{21, 24, 29});
    CHECK(values(b.grad()) == Values{0, 0, 0});
  }
}

TEST_CASE("custom_function: backward has derivatives, and wrong ones are errors") {
  Tensor x = leaf();
  auto cube = [&](bool right) {
    return custom_function(
        {x}, [](const Tensors& in) { return in[0] * in[0] * in[0]; },
        [right](const BackwardCall& c) {
          Tensor g = c.gradient * c.inputs[0] * c.inputs[0] * 3;
          return right ? Tensors{g} : Tensors{g.sum()};
        });
  };
  Tensor once = cube(true).sum().gradient({x})[0], twice = once.sum().gradient({x})[0];
  CHECK(values(once) == Values{3, 12, 27});
  CHECK(values(twice) == Values{6, -12, 18});
  CHECK_THROWS_WITH_AS(cube(false).sum().backward(),
                       doctest::Contains("gave input 0 of shape (3) a gradient of shape ()"),
                       Error);
}

TEST_CASE("custom_function: what it holds goes with the last graph that names it") {
  struct Token {
    int& count;
    explicit Token(int& c) : count(c) { ++count; }
    Token(const Token& o) : count(o.count) { ++count; }
    ~Token() { --count; }
  };
  int alive = 0;
  {
    Tensor x = leaf();
    Token token(alive);
    Tensor y = custom_function(
        {x}, [](const Tensors& in) { return in[0] * 1; },
        [token](const BackwardCall& c) { return Tensors{c.gradient}; });
    y.sum().backward();
    CHECK(alive > 1);
    x.grad().realize();
    y.realize();
  }
  CHECK(alive == 0);
}

TEST_CASE("register_hook: of leaves and of values on the way") {
  Tensor w = leaf(), seen;
  register_hook(w, [](const Tensor& g) { return g * 2; });
  register_hook(w, [&](const Tensor& g) {
    seen = g;
    return Tensor();
  });
  Tensor h = w * 3;
  Tensor view = h.reshape({3, 1});
  register_hook(view, [](const Tensor& g) { return g.clamp(-1, 1); });
  (view * tensor({{5.0}, {0.5}, {-7.0}})).sum().backward();
  CHECK(values(w.grad()) == Values{6, 3, -6});
  CHECK(values(seen) == Values{6, 3, -6});
  remove_hooks(w);
  w.zero_grad();
  (w * 2).sum().backward();
  CHECK(values(w.grad()) == Values{2, 2, 2});
  Tensor plain = tensor({1.0});
  CHECK_THROWS_WITH_AS(register_hook(plain, [](const Tensor& g) { return g; }),
                       doctest::Contains("depends on no marked leaf"), Error);
}

namespace {

constexpr int64_t kBatch = 64, kWidth = 128;
constexpr int kBlocks = 8;

// Blocks that keep several activations each.
struct Deep {
  std::vector<nn::Linear> up, down;
  MOTE_FIELDS(up, down)
  explicit Deep(const Options& o) {
    for (int i = 0; i < kBlocks; ++i) {
      up.emplace_back(kWidth, 4 * kWidth, true, o);
      down.emplace_back(4 * kWidth, kWidth, true, o);
    }
  }
  Tensor loss(Tensor x, bool checkpointed) const {
    for (size_t i = 0; i < up.size(); ++i) {
      auto block = [&, i](const Tensors& in) {
        return in[0] + down[i](up[i](in[0]).gelu().tanh());
      };
      x = checkpointed ? checkpoint(block, {x}) : block({x});
    }
    return x.square().mean();
  }
};

ScheduleReport step_report(bool checkpointed) {
  const Options null{DType::f32, "NULL"};
  Deep net(null);
  Tensor x = zeros({kBatch, kWidth}, null);
  Tensor loss = net.loss(x, checkpointed);
  loss.backward();
  Tensors wanted = {loss};
  for (const Tensor& p : parameters(net)) wanted.push_back(p.grad());
  return explain(wanted);
}

}  // namespace

TEST_CASE("checkpoint: the same gradients") {
  for (const char* device : {"CPU", "INTERP"}) {
    manual_seed(3);
    const Options o{DType::f32, device};
    nn::Linear a(4, 6, true, o), b(6, 4, true, o);
    Tensor x = uniform({3, 4}, -1, 1, o).requires_grad_();
    realize({a.weight, a.bias, b.weight, b.bias, x});
    std::vector<Values> found[2];
    for (int on = 0; on < 2; ++on) {
      auto f = [&](const Tensors& in) { return b(a(in[0]).tanh()) * in[1]; };
      auto outer = [&](const Tensors& in) {
        return on ? checkpoint(f, {in[0].sin(), in[0]}) : f({in[0].sin(), in[0]});
      };
      Tensor y = on ? checkpoint(outer, {x}) : outer({x});
      (y * y).sum().backward();
      for (Tensor* t : {&x, &a.weight, &a.bias, &b.weight, &b.bias}) {
        found[on].push_back(values(t->grad()));
        t->zero_grad();
      }
    }
    for (size_t i = 0; i < found[0].size(); ++i)
      for (size_t j = 0; j < found[0][i].size(); ++j)
        CHECK(found[1][i][j] == doctest::Approx(found[0][i][j]).epsilon(1e-5));
  }
}

TEST_CASE("checkpoint: captured, it trains as without") {
  std::vector<Values> ends;
  for (int kind = 0; kind < 4; ++kind) {
    const bool on = kind & 1, jitted = kind & 2;
    manual_seed(3);
    nn::Linear a(4, 6), b(6, 4);
    optim::SGD opt({a.weight, b.weight}, {.lr = 0.1});
    auto step = [&](const Tensor& x) {
      opt.zero_grad();
      auto f = [&](const Tensors& in) { return b(a(in[0]).tanh()); };
      Tensor loss = (on ? checkpoint(f, {x * 2}) : f({x * 2})).square().mean();
      loss.backward();
      opt.step();
      return loss;
    };
    auto captured = jit(step);
    for (int i = 0; i < 5; ++i) {
      Tensor x = full({3, 4}, 0.1 * i);
      if (jitted)
        captured(x);
      else
        realize({step(x), a.weight, b.weight});
    }
    ends.push_back(values(a.weight));
  }
  for (size_t i = 1; i < ends.size(); ++i)
    for (size_t j = 0; j < ends[0].size(); ++j)
      CHECK(ends[i][j] == doctest::Approx(ends[0][j]).epsilon(1e-4));
}

TEST_CASE("checkpoint: dropout draws once") {
  manual_seed(1);
  nn::Dropout dropout{0.5};
  Tensor x = ones({64}).requires_grad_();
  Tensor y = checkpoint([&](const Tensors& in) { return dropout(in[0] * in[0]); }, {x});
  Tensor loss = y.sum();
  loss.backward();
  realize({y, x.grad()});
  CHECK(values(x.grad()) == values(y * 2));
  float sum = y.sum().item<float>();
  CHECK(sum > 0);
  CHECK(sum < 128);
}

TEST_CASE("checkpoint: keeps less in memory") {
  const ScheduleReport kept = step_report(false), anew = step_report(true);
  MESSAGE("arena ", kept.arena_bytes, " bytes, with checkpoints ", anew.arena_bytes, "; kernels ",
          kept.kernels.size(), " and ", anew.kernels.size());
  CHECK(anew.arena_bytes * 2 < kept.arena_bytes);
}
