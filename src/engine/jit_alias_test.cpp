// What arguments, state, gradients and results share, and what changes between calls: a jit gives
// what the function gives.
#include <doctest/doctest.h>
#include <mote/jit.h>
#include <mote/mote.h>
#include <mote/optim.h>

#include <functional>
#include <thread>

#include "base/flags.h"
#include "tensor/impl.h"
#include "test/error_of.h"
#include "test/seconds.h"

using namespace mote;

namespace {

using Floats32 = std::vector<float>;

Tensor row(const Floats32& v) { return from_data(v, {static_cast<int64_t>(v.size())}); }
Floats32 values(const Tensor& t) { return t.to_vector<float>(); }

// The same program with and without jit; what it returns must agree.
void same_both_ways(const std::function<std::vector<Floats32>()>& program) {
  FlagScope off(Flag::JIT, 0);
  const std::vector<Floats32> plain = program();
  FlagScope on(Flag::JIT, 1);
  CHECK(program() == plain);
}

struct Plain {  // a module of a user's own
  Tensor scale;
  bool training = true;
  MOTE_FIELDS(scale)
  Tensor operator()(const Tensor& x) const { return training ? x * scale : x; }
};

}  // namespace

TEST_SUITE("jit") {
  TEST_CASE("jit: an argument that is also state, then another, and back") {
    Tensor s = row({1, 2}), o = row({100, 200}), p = row({7, 7});
    int calls = 0;
    auto f = jit([&](const Tensor& v) {
      ++calls;
      s.add_(1);
      return v * 1;
    });
    for (float i = 2; i < 5; ++i) CHECK(values(f(s)) == Floats32{i, i + 1});
    CHECK(calls == 2);
    CHECK(values(f(o)) == Floats32{100, 200});
    CHECK(values(o) == Floats32{100, 200});
    CHECK(values(s) == Floats32{5, 6});
    CHECK(values(f(p)) == Floats32{7, 7});
    CHECK(values(f(s)) == Floats32{7, 8});
    calls = 0;
    for (int i = 0; i < 5; ++i) f(o), f(p), f(s);
    CHECK(values(s) == Floats32{22, 23});
    CHECK(values(o) == Floats32{100, 200});
    CHECK(calls == 0);
  }

  TEST_CASE("jit: a view of state as an argument, also in another shape") {
    Tensor s = row({1, 2, 3, 4}), o = row({8, 9});
    auto f = jit([&](const Tensor& v) {
      s.mul_(2);
      return v + 1;
    });
    for (float i = 2; i < 100; i *= 2)
      CHECK(values(f(s(Slice(0, 2)))) == Floats32{i + 1, 2 * i + 1});
    CHECK(values(f(o)) == Floats32{9, 10});
    auto g = jit([&](const Tensor& v) {
      s.assign(s * 0 + 1);
      return v * 2;
    });
    for (int i = 0; i < 4; ++i) CHECK(values(g(s.view({2, 2}))) == Floats32(4, 2));
    CHECK(values(g(row({5, 5, 5, 5}).view({2, 2}))) == Floats32(4, 10));
    CHECK(values(s) == Floats32(4, 1));
  }

  TEST_CASE("jit: arguments that share memory with each other") {
    same_both_ways([] {
      auto f = jit([](Tensor a, const Tensor& b) {
        a.add_(1);
        return b * 10 + a;
      });
      Tensor x = row({1, 2, 3, 4}), y = row({5, 6, 7, 8});
      std::vector<Floats32> out;
      auto call = [&](const Tensor& a, const Tensor& b) { out.push_back(values(f(a, b))); };
      for (int i = 0; i < 3; ++i) call(x, y);
      for (int i = 0; i < 3; ++i) call(y, x);
      for (int i = 0; i < 3; ++i) call(x, x);
      call(x, y);
      for (int i = 0; i < 3; ++i) call(x, x.flip(0));
      for (int i = 0; i < 3; ++i) call(x.flip(0), x);
      auto g = jit([](Tensor a, const Tensor& b) {
        a.add_(b);
        return a.sum() + b.sum();
      });
      for (int64_t i = 0; i < 3; ++i) out.push_back(values(g(x(Slice(0, 2)), x(Slice(i, i + 2)))));
      for (int i = 0; i < 3; ++i) out.push_back(values(g(x(Slice(0, 2)), x(Slice(1, 3)))));
      for (int i = 0; i < 3; ++i) out.push_back(values(g(y(Slice(0, 2)), x(Slice(1, 3)))));
      out.push_back(values(x));
      out.push_back(values(y));
      return out;
    });
  }

  TEST_CASE("jit: two buffers that change places are captured, not called forever") {
    Tensor a = row({1, 2}), b = row({0, 0});
    int calls = 0;
    auto f = jit([&](const Tensor& from, Tensor to) {
      ++calls;
      to.assign(from + 1);
    });
    for (int i = 0; i < 10; ++i) {
      f(a, b);
      std::swap(a, b);
    }
    CHECK(values(a) == Floats32{11, 12});
    CHECK(calls == 2);
  }

  TEST_CASE("jit: gradients as arguments, and leaves that are") {
    same_both_ways([] {
      Tensor w = row({1, 2}).requires_grad_(), other = row({3, 4});
      auto f = jit([&](const Tensor& g) {
        (w * 3).sum().backward();
        return g + w.grad();
      });
      std::vector<Floats32> out;
      (w * 1).sum().backward();
      for (int i = 0; i < 3; ++i) out.push_back(values(f(w.grad())));
      for (int i = 0; i < 3; ++i) out.push_back(values(f(other)));
      w.zero_grad();
      for (int i = 0; i < 3; ++i) out.push_back(values(f(other)));
      out.push_back(values(f(w.grad())));
      std::vector<Tensor> leaves;
      auto g = jit([](const Tensor& leaf) { (leaf * leaf).sum().backward(); });
      for (float i = 0; i < 4; ++i) leaves.push_back(row({i, 1}).requires_grad_());
      for (int i = 0; i < 2; ++i)
        for (Tensor& leaf : leaves) g(leaf);
      for (const Tensor& leaf : leaves) out.push_back(values(leaf.grad()));
      auto through = jit([](const Tensor& part) { (part * 2).sum().backward(); });
      for (int i = 0; i < 4; ++i) through(leaves[0](Slice(i % 2, i % 2 + 1)));
      out.push_back(values(leaves[0].grad()));
      return out;
    });
  }

  TEST_CASE("jit: a gradient that is kept is state, also when the leaf has another") {
    same_both_ways([] {
      Tensor w = row({1, 2}).requires_grad_();
      (w * 5).sum().backward();
      Tensor kept = w.grad();
      auto f = jit([&] {
        (w * w).sum().backward();
        return kept * 1;
      });
      std::vector<Floats32> out;
      for (int i = 0; i < 3; ++i) out.push_back(values(f()));
      w.zero_grad();
      (w * 7).sum().backward();
      for (int i = 0; i < 3; ++i) out.push_back(values(f()));
      out.push_back(values(w.grad()));
      return out;
    });
  }

  TEST_CASE("jit: state that shares its memory gets its own when it is written") {
    same_both_ways([] {
      Tensor x = row({1, 2}), shared = x * 2, pending = shared + 1;
      int made = 0;
      auto f = jit([&](const Tensor& by) {
        if (++made > 1) shared.add_(by);
        return shared * 1;
      });
      f(x);
      shared.realize();
      std::vector<Floats32> out;
      for (int i = 0; i < 4; ++i) out.push_back(values(f(x)));
      out.push_back(values(shared));
      out.push_back(values(pending));
      return out;
    });
  }

  TEST_CASE("jit: a result that is a view of an argument or of state is written through alike") {
    same_both_ways([] {
      Tensor s = row({1, 2, 3, 4}), x = row({5, 6, 7, 8}), y = row({5, 6, 7, 8, 9});
      auto f = jit([&](const Tensor& v) {
        s.add_(v);
        return std::vector<Tensor>{v(Slice(0, 2)), s(Slice(1, 3))};
      });
      std::vector<Floats32> out;
      for (int64_t i = 0; i < 8; ++i) {
        std::vector<Tensor> r = i % 3 ? f(x) : f(y(Slice(i % 2, i % 2 + 4)));
        for (Tensor& t : r) t.mul_(0.5);
      }
      for (const Tensor& t : {s, x, y}) out.push_back(values(t));
      return out;
    });
  }

  TEST_CASE("jit: requires_grad_ of state that changes is noticed") {
    same_both_ways([] {
      Tensor w = row({1, 2}).requires_grad_(), v = row({3, 4}).requires_grad_();
      auto f = jit([&] { (w * v).sum().backward(); });
      for (int i = 0; i < 3; ++i) f();
      w.requires_grad_(false);
      for (int i = 0; i < 3; ++i) f();
      std::vector<Floats32> out = {values(v.grad())};
      CHECK_FALSE(w.grad().defined());
      w.requires_grad_();
      for (int i = 0; i < 3; ++i) f();
      out.push_back(values(w.grad()));
      return out;
    });
  }

  TEST_CASE("jit: changed training flags are noticed, wherever they are") {
    nn::Dropout drop{0.5};
    Tensor x = ones({64}).contiguous();
    int calls = 0;
    auto f = jit([&](const Tensor& v) {
      ++calls;
      return drop(v);
    });
    auto is_quiet = [&] { return values(f(x)) == Floats32(64, 1); };
    for (int i = 0; i < 3; ++i) f(x);
    eval(drop);
    for (int i = 0; i < 3; ++i) CHECK(is_quiet());
    drop.training = true;
    bool dropped = false;
    for (int i = 0; i < 3; ++i) dropped |= !is_quiet();
    CHECK(dropped);
    CHECK(calls == 4);  // twice for each setting
    drop.training = false;
    CHECK(is_quiet());
    CHECK(calls == 4);

    Plain plain{tensor(3.f)};  // with a bool
    auto g = jit([&](const Tensor& v) { return plain(v); });
    for (float want : {192.f, 64.f, 192.f}) {
      train(plain, want == 192);
      for (int i = 0; i < 3; ++i) CHECK(g(x).sum().item<float>() == want);
    }
    auto h = jit([](const Plain& m, const Tensor& v) { return m(v); });
    Plain quiet{tensor(5.f), false};
    for (int i = 0; i < 3; ++i) {
      CHECK(h(plain, x).sum().item<float>() == 192);
      CHECK(h(quiet, x).sum().item<float>() == 64);
    }
  }

  TEST_CASE("jit: plain bools that are as they were fit the capture") {
    Tensor scale = tensor(3.f), x = ones({8}).contiguous();
    Plain plain{scale}, other{scale};
    int calls = 0;
    auto f = jit([&](const Tensor& v) {
      ++calls;
      return plain(v);
    });
    auto sum = [&] { return f(x).sum().item<float>(); };
    for (int i = 0; i < 3; ++i) CHECK(sum() == 24);
    CHECK(calls == 2);
    for (int i = 0; i < 4; ++i) {  // elsewhere, and back
      eval(other), train(other);
      CHECK(sum() == 24);
    }
    CHECK(calls == 2);
    for (int i = 0; i < 8; ++i) {  // here: each state is captured once
      train(plain, i % 4 < 2);
      CHECK(sum() == (i % 4 < 2 ? 24 : 8));
    }
    CHECK(calls == 4);
    // A new module in the place of another: train() says what it is, though it changes nothing.
    eval(plain);
    plain = Plain{scale};
    train(plain);
    CHECK(sum() == 24);
  }

  TEST_CASE("jit: a switch that changes no kernel does not have the function called forever") {
    nn::Dropout drop{0};
    Tensor x = row({1, 2});
    int calls = 0;
    auto f = jit([&](const Tensor& v) {
      ++calls;
      return drop(v) + 1;
    });
    for (int i = 0; i < 12; ++i) {
      drop.training = i % 2;
      CHECK(values(f(x)) == Floats32{2, 3});
    }
    CHECK(calls <= 4);
  }

  TEST_CASE("jit: a copy of a switch is a switch of its own") {
    nn::Dropout a, b = a;
    a.training = false;
    CHECK(b.training);
    b = a;
    CHECK_FALSE(b.training);
    a.training = true;
    CHECK_FALSE(b.training);
  }

  TEST_CASE("jit: what is pending outside is finished once, whatever is asked for in between") {
    same_both_ways([] {
      manual_seed(3);
      Tensor data = randn({64, 33}), mean = data.mean(0), w = row({1, 2}).requires_grad_();
      Tensor doubled = w * 2;
      auto f = jit([&](const Tensor& x) { return ((x - mean) * doubled.detach().sum()).sum(0); });
      std::vector<Floats32> out;
      for (int i = 0; i < 8; ++i) {
        Tensor x = data * 0.1 + i;
        if (i == 4) mean.realize();
        if (i == 6) doubled.realize();
        out.push_back(values(f(x)));
      }
      return out;
    });
  }

  TEST_CASE("jit: a tensor put in the place of another is noticed, whoever has captured it") {
    Tensor w = row({1, 2}), x = row({1, 1});
    nn::Dropout drop{0.5};
    auto f = jit([&](const Tensor& v) { return drop(v * w); });
    auto g = jit([&](const Tensor& v) { return v + w; });
    for (int i = 0; i < 6; ++i) {  // two lists of f, one of g
      drop.training = i % 2;
      f(x), g(x);
    }
    w = row({5, 5});
    const std::string replaced = "nothing else holds a tensor that the function reads";
    CHECK(error_of([&] { f(x); }).find(replaced) != std::string::npos);
    CHECK(error_of([&] { g(x); }).find(replaced) != std::string::npos);
    g.reset();
    for (int i = 0; i < 3; ++i) CHECK(values(g(x)) == Floats32{6, 6});
  }

  TEST_CASE("jit: a result that is an argument's tensor and the function's own") {
    same_both_ways([] {
      std::vector<Floats32> out;
      Tensor s = from_data(Floats32{1, 2, 3, 4}, {2, 2}), view = s.t();
      Tensor o = from_data(Floats32{5, 6, 7, 8}, {2, 2});
      auto f = jit([&](const Tensor& x) { return std::vector<Tensor>{x + 1, view}; });
      for (const Tensor& x : {view, view, o, o.t(), view, o, o.t(), o.t()})
        for (const Tensor& r : f(x)) out.push_back(values(r));
      return out;
    });
  }

  TEST_CASE("jit: writes of other threads are finished first") {
    same_both_ways([] {
      std::vector<Floats32> out;
      Tensor s = row({0, 0}), x = row({1, 1});
      s.assign(ones({2})).realize();
      auto f = jit([&](const Tensor& v) { return v + s; });
      auto calls = [&] {
        for (int i = 0; i < 4; ++i) {
          s.assign(full({2}, i));
          out.push_back(values(f(x)));
        }
      };
      std::thread(calls).join();
      calls();
      std::thread([&] { s.add_(5); }).join();  // left pending by a thread that has ended
      out.push_back(values(f(x)));
      return out;
    });
  }

  TEST_CASE("jit: a module that is moved keeps its switch") {
    std::vector<nn::Dropout> list;
    list.emplace_back(0.5);
    Tensor x = ones({64}).contiguous();
    auto f = jit([&](const Tensor& v) { return list[0](v); });
    for (int i = 0; i < 3; ++i) f(x);
    for (int i = 0; i < 20; ++i) list.emplace_back(0.5);
    for (int i = 0; i < 3; ++i) f(x);
    eval(list[0]);
    for (int i = 0; i < 3; ++i) CHECK(values(f(x)) == Floats32(64, 1));
  }

  TEST_CASE("jit: many arguments cost time in proportion") {
    auto first = jit([](const std::vector<Tensor>& all) {
      std::vector<Tensor> out = all;
      out[0] = all[0] + all[1];
      return out;
    });
    std::vector<Tensor> all;
    for (int i = 0; i < 40000; ++i) all.push_back(row({static_cast<float>(i)}));
    first(all);
    CHECK(test::seconds_of([&] { first(all); }) < 1);  // captures
    CHECK(values(first(all)[0]) == Floats32{1});
    all[7] = row({2});
    CHECK(values(first(all)[7]) == Floats32{2});
    CHECK(test::seconds_of([&] { first(all); }) < 1);
  }

  TEST_CASE("jit: views that a function makes of a large view, before it writes") {
    auto f = jit([](Tensor x) {
      std::vector<Tensor> kept;
      for (int64_t i = 0; i < 64; ++i) kept.push_back(x(Slice(0, 1024 - i)));
      kept.push_back(x.diagonal());
      x.add_(1);
      return kept[0].select(0, 1).sum() + kept.back().sum();
    });
    Tensor x = zeros({1024, 1030}).contiguous().realize();
    float sum = 0;
    CHECK(test::seconds_of([&] { sum = f(x.t()(Slice(3, 1027))).item<float>(); }) < 3);
    CHECK(sum == 2048);
  }

  TEST_CASE("jit: many situations, more than are remembered") {
    same_both_ways([] {
      std::vector<Tensor> all;
      for (float i = 0; i < 4; ++i) all.push_back(row({i, i + 1}));
      auto f = jit([&](Tensor a, const Tensor& b, const Tensor& c) {
        all[3].add_(a);
        a.mul_(0.5);
        return a + b * c;
      });
      std::vector<Floats32> out;
      for (size_t i = 0; i < 200; ++i)
        out.push_back(values(f(all[i % 4], all[i / 4 % 4], all[i / 16 % 4])));
      for (const Tensor& t : all) out.push_back(values(t));
      return out;
    });
  }
}
