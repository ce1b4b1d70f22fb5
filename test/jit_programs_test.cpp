// Random captured functions: what jit gives is bit for bit what JIT=0 gives, in the results and in
// every tensor outside, whatever arguments and state share.
#include <doctest/doctest.h>
#include <mote/jit.h>
#include <mote/mote.h>
#include <mote/optim.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/flags.h"
#include "test/amount.h"

using namespace mote;

namespace {

struct Numbers {
  std::mt19937_64 engine;
  explicit Numbers(uint64_t seed) : engine(seed) {}
  int below(size_t n) { return static_cast<int>(engine() % n); }
  bool one_in(size_t n) { return below(n) == 0; }
  template <class T>
  T& of(std::vector<T>& list) {
    return list[static_cast<size_t>(below(list.size()))];
  }
};

// A module that is an argument.
struct Part {
  Tensor scale;
  Switch training = true;
  MOTE_FIELDS(scale)
  Tensor operator()(const Tensor& x) const { return training ? x * scale : x - scale; }
};

struct Given {
  Tensor x, y;  // written by some functions
  Tensor leaf;  // marked
  Part part;
  MOTE_FIELDS(x, y, leaf, part)
};

// One line of the captured function.
struct Line {
  int op, a, b, s;
};
constexpr int kOps = 28;

std::vector<Line> random_body(uint64_t seed) {
  Numbers random(seed);
  std::vector<Line> body;
  const int count = 2 + random.below(5);
  for (int i = 0; i < count; ++i)
    body.push_back({random.below(kOps), random.below(64), random.below(64), random.below(64)});
  return body;
}

// All that the function knows, and all that its caller does.
struct World {
  Numbers random;
  int64_t side;
  std::vector<Tensor> state, views, params, arguments, leaves, kept;
  std::vector<Part> parts;
  Tensor base, lazy, lazy_of_leaf, old_gradient, row;
  nn::Dropout drop{0.5};
  std::unique_ptr<optim::Optimizer> opt;
  std::vector<Line> body;
  std::string log;
  Jit<std::function<Tensor(const Tensor&)>> inner;

  // Sums of many elements are sensitive to what they are fused with.
  World(uint64_t seed, uint64_t body_seed)
      : random(seed),
        side(body_seed % 5 ? 3 : 37),
        body(random_body(body_seed)),
        inner([this](const Tensor& x) {
          state[0].mul_(0.5);
          return x + state[0].mean();
        }) {
    manual_seed(seed);
    for (int i = 0; i < 3; ++i) state.push_back(fresh());
    views = {state[0].t(), state[1](Slice(0, 2)), state[2].view({side * side})};
    for (int i = 0; i < 2; ++i) params.push_back(fresh().requires_grad_());
    for (int i = 0; i < 3; ++i) arguments.push_back(fresh());
    for (int i = 0; i < 2; ++i) leaves.push_back(fresh().requires_grad_());
    for (int i = 0; i < 2; ++i) parts.push_back({fresh(), i == 0});
    base = fresh(2 * side);
    lazy = fresh() * 0.5;
    row = fresh().view({side * side}).clone();
    const bool flat = body_seed % 2;
    if (!flat) leaves.push_back(params[1]);
    if (body_seed % 3)
      opt = std::make_unique<optim::Adam>(params, optim::AdamOptions{.lr = 0.1, .flat = flat});
    else
      opt = std::make_unique<optim::SGD>(
          params, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .flat = flat});
    lazy_of_leaf = params[0] * 0.5;
    if (body_seed % 4 == 1) {
      (params[0] * params[1]).sum().backward();
      old_gradient = opt->params[0].grad();
    }
  }

  Tensor fresh(int64_t rows = 0) {
    std::vector<float> v;
    rows = rows ? rows : side;
    for (int64_t i = 0; i < rows * side; ++i)
      v.push_back(static_cast<float>(random.below(2000)) / 1000 - 1);
    return from_data(v, {rows, side});
  }

  // ---- the function

  std::vector<Tensor> run(const Given& given) {
    std::vector<Tensor> v = {given.x, given.y};
    for (const Line& l : body) line(l, v, given);
    std::vector<Tensor> out = {v.back()};
    const Line& last = body.back();
    if (last.b % 4 == 0) out.push_back(given.x);
    if (last.b % 4 == 1) out.push_back(given.x(0));
    if (last.b % 8 == 2) out.push_back(state[static_cast<size_t>(last.s) % 3]);
    if (last.b % 8 == 3) out.push_back(views[static_cast<size_t>(last.s) % 3]);
    return out;
  }

  void line(const Line& l, std::vector<Tensor>& v, const Given& given) {
    auto pick = [&](int i) -> Tensor { return v[static_cast<size_t>(i) % v.size()]; };
    Tensor x = given.x, y = given.y, a = pick(l.a), b = pick(l.b);
    Tensor& s = state[static_cast<size_t>(l.s) % 3];
    Tensor& w = params[static_cast<size_t>(l.s) % 2];
    Tensor view = views[static_cast<size_t>(l.s) % 3];
    const Tensor grad = opt->params[0].grad();
    switch (l.op) {
      case 0: v.push_back(a * b + s); break;
      case 1: v.push_back((a - b * 0.3).tanh()); break;
      case 2: v.push_back(a.matmul(b.t()).tanh() + b.sum(0, true)); break;
      case 3: v.push_back(a + view.sum() * 0.1); break;
      case 4: s.add_((a * 0.25).tanh()); break;
      case 5: s.assign((s * 0.5 + a * b).tanh()); break;
      case 6: s(l.a % 3) = b(l.b % 3) * 0.5; break;
      case 7: view.mul_(0.75); break;
      case 8: x.mul_(0.5); break;
      case 9: y.assign((y + x * a).tanh()); break;
      case 10: x(1).add_(s(0)); break;
      case 11: v.push_back(a + rand({side, side}) * 0.1); break;
      case 12: v.push_back(drop(a)); break;
      case 13: (a.detach() * w).tanh().sum().backward(); break;
      case 14:
        opt->zero_grad();
        (a.detach().matmul(w) - b.detach()).square().mean().backward();
        opt->step();
        break;
      case 15: v.push_back((a * s + b).realize()); break;
      case 16:
        if (grad.defined()) v.push_back(a + grad.sum());
        break;
      case 17: v.push_back(a * lazy + x.t()); break;
      case 18:
        if (grad.defined()) opt->step();
        break;
      case 19: (a.detach() * given.leaf).square().sum().backward(); break;
      case 20:
        v.push_back(a + given.leaf.detach().mean());
        given.leaf.detach().mul_(0.5);
        break;
      case 21: v.push_back(given.part(a)); break;
      case 22: given.part.scale.detach().add_(0.25); break;
      case 23: v.push_back(inner(a)); break;
      case 24: v.push_back(a + lazy_of_leaf.detach()); break;
      case 25:
        if (old_gradient.defined()) v.push_back(a + old_gradient.mean());
        break;
      case 26: row.add_(a.reshape({side * side}) * 0.125); break;
      default: v.push_back(a * 0.5 + y * x); break;
    }
  }

  // ---- the caller

  Tensor argument() {
    const int kind = random.below(18);
    log += " argument " + std::to_string(kind);
    switch (kind) {
      case 0: return random.of(state);
      case 1: return random.of(state).t();
      case 2:
      case 3: return base(slice());
      case 4: return arguments[0] * 2 + state[0];
      case 5: return kept.empty() ? fresh() : square(random.of(kept));
      case 6: return arguments[1].t();
      case 7: return params[0].detach();
      case 8: return square(opt->params[0].grad());
      case 9: return fresh();
      case 10: return fresh().view({side * side}).view({side, side});
      case 11: return leaves[0].detach().t();
      case 12: return parts[0].scale;
      case 13: return row.view({side, side});
      default: return random.of(arguments);
    }
  }
  Slice slice() {
    const int64_t from = random.below(static_cast<size_t>(side) + 1);
    return Slice(from, from + side);
  }
  Tensor square(const Tensor& t) {
    return t.defined() && t.dim() == 2 && t.size(0) == side ? t : fresh();
  }

  void between() {
    const int kind = random.below(18);
    log += " between " + std::to_string(kind);
    switch (kind) {
      case 0: state[0].add_(0.125); break;
      case 1: random.of(arguments).mul_(0.5); break;
      case 2: drop.training = random.one_in(2); break;
      case 3: random.one_in(2) ? train(drop) : eval(drop); break;
      case 4: base.add_(rand({2 * side, side})); break;
      case 5: opt->zero_grad(); break;
      case 6: (params[0] * state[1].detach()).sum().backward(); break;
      case 7: opt->set_lr(0.05); break;
      case 8:
        if (!kept.empty()) random.of(kept).mul_(0.5);
        break;
      case 9: kept.clear(); break;
      case 10: state[1].assign(state[2] * base(Slice(0, side))); break;
      case 11: lazy.realize(); break;
      case 12: lazy_of_leaf.realize(); break;
      case 13: parts[0].training = !parts[0].training; break;
      case 14: leaves[0].zero_grad(); break;
      case 15: kept.push_back(arguments[0].sum(0, true) * state[0]); break;
      case 16:
        if (Tensor g = opt->params[0].grad(); g.defined()) kept.push_back(g);
        break;
      default: break;
    }
  }

  std::vector<Tensor> all() {
    std::vector<Tensor> out = kept;
    for (auto* list : {&state, &views, &params, &arguments, &leaves})
      out.insert(out.end(), list->begin(), list->end());
    for (const Tensor& t :
         {base, lazy, lazy_of_leaf, row, parts[0].scale, parts[1].scale, rand({2})})
      out.push_back(t);
    for (auto* list : {&opt->params, &leaves})
      for (const Tensor& p : *list)
        if (p.grad().defined()) out.push_back(p.grad());
    for (const Tensor& t : tensors(*opt)) out.push_back(t);
    return out;
  }
};

using Bits = std::vector<uint32_t>;

Bits bits(const Tensor& t) {
  std::vector<float> v = t.to_vector<float>();
  Bits out(v.size());
  std::memcpy(out.data(), v.data(), v.size() * sizeof(float));
  return out;
}

struct Outcome {
  std::vector<Bits> trace;  // the results of every call, then all that is outside
  std::string error, log;
  int calls = 0;  // of the function itself
};

constexpr int kCalls = 8;

Outcome run_program(uint64_t seed, uint64_t body_seed, bool use_jit) {
  FlagScope mode(Flag::JIT, use_jit);
  Outcome out;
  World w(seed, body_seed);
  auto f = jit([&](const Given& given) {
    ++out.calls;
    w.log += " *";
    return w.run(given);
  });
  Given given{w.argument(), w.argument(), w.random.of(w.leaves), w.random.of(w.parts)};
  try {
    const size_t calm = seed % 2 ? 1 : 3;  // some callers change little
    for (int i = 0; i < kCalls; ++i) {
      if (w.random.one_in(2 * calm)) w.between();
      w.log += "\n  call";
      if (w.random.one_in(4 * calm)) {
        w.log += " swapped";
        std::swap(given.x, given.y);
      }
      if (w.random.one_in(4 * calm)) given.x = w.argument();
      if (w.random.one_in(4 * calm)) given.y = w.random.one_in(3) ? given.x : w.argument();
      if (w.random.one_in(5 * calm)) given.leaf = w.random.of(w.leaves);
      if (w.random.one_in(5 * calm)) given.part = w.random.of(w.parts);
      std::vector<Tensor> results = f(given);
      for (const Tensor& r : results) out.trace.push_back(bits(r));
      if (w.random.one_in(2)) w.kept.push_back(w.random.of(results));
    }
    for (const Tensor& t : w.all()) out.trace.push_back(bits(t));
  } catch (const Error& e) { out.error = e.what(); }
  for (const Line& l : w.body)
    w.log += "\n  op " + std::to_string(l.op) + " a " + std::to_string(l.a) + " b " +
             std::to_string(l.b) + " s " + std::to_string(l.s % 6);
  out.log = w.log;
  return out;
}

struct Tally {
  int programs = 0, replays = 0, refused = 0, wrong = 0;
};

// Few bodies and many callers: most kernels are found in the caches.
void compare(uint64_t seed, uint64_t body_seed, Tally& tally) {
  Outcome plain = run_program(seed, body_seed, false),
          captured = run_program(seed, body_seed, true);
  ++tally.programs;
  tally.replays += kCalls - captured.calls;
  INFO("seed ", seed, ", body ", body_seed);
  if (!plain.error.empty() || !captured.error.empty()) {
    ++tally.refused;
    CAPTURE(captured.log);
    CHECK(plain.error == captured.error);
    return;
  }
  if (plain.trace == captured.trace) return;
  ++tally.wrong;
  size_t at = 0;
  while (plain.trace[at] == captured.trace[at]) ++at;
  FAIL_CHECK("value ", at, " of ", plain.trace.size(), " differs;", captured.log);
}

Tally compare_programs(int count, uint64_t bodies) {
  Tally tally;
  const uint64_t first = test::seed_or(1);
  for (uint64_t i = 0; i < static_cast<uint64_t>(count) && tally.wrong < 10; ++i)
    compare(first + i, (first + i) % bodies, tally);
  MESSAGE("seed ", first, ": ", tally.programs, " programs, ", tally.replays, " of ",
          tally.programs * kCalls, " calls replayed, ", tally.refused, " refused");
  return tally;
}

}  // namespace

TEST_SUITE("jit") {
  TEST_CASE("jit: random functions give the bits of JIT=0, whatever shares memory") {
    Tally tally = compare_programs(test::scaled(300), 20);
    CHECK(tally.replays * 5 > tally.programs * kCalls);
    CHECK(tally.refused * 50 <= tally.programs);
  }
}

TEST_SUITE("soak") {
  TEST_CASE("jit: many random functions give the bits of JIT=0") {
    Tally tally = compare_programs(test::scaled(20000), 400);
    CHECK(tally.replays * 5 > tally.programs * kCalls);
    CHECK(tally.refused * 50 <= tally.programs);
  }
}
