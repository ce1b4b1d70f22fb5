#include <doctest/doctest.h>
#include <mote/jit.h>
#include <mote/linalg.h>
#include <mote/models.h>
#include <mote/mote.h>
#include <mote/optim.h>

#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/flags.h"
#include "engine/realize.h"
#include "runtime/device.h"
#include "tensor/impl.h"
#include "test/error_of.h"
#include "test/odd_devices.h"

using namespace mote;

namespace {

using Floats32 = std::vector<float>;

Floats32 ramp(size_t n, float from = 0) {
  Floats32 v(n);
  std::iota(v.begin(), v.end(), from);
  return v;
}
Tensor row(const Floats32& v, const std::string& device = "CPU") {
  return from_data(v, {static_cast<int64_t>(v.size())}, {.device = device});
}
Floats32 values(const Tensor& t) { return t.to_vector<float>(); }

bool has(const std::string& s, const std::string& part) { return s.find(part) != s.npos; }

struct Pair {
  Tensor images;
  std::optional<Tensor> mask;
  MOTE_FIELDS(images, mask)
};

struct Model {
  Tensor weight, scale, count;
  MOTE_FIELDS(weight, scale, count)
};

}  // namespace

TEST_SUITE("jit") {
  TEST_CASE("jit: runs once, captures once, then replays") {
    add_odd_devices();
    for (const char* device : {"CPU", "LATE", "FAR", "INTERP", "INTERP_PROGRAM"}) {
      CAPTURE(device);
      int calls = 0;
      auto f = jit([&](const Tensor& x) {
        ++calls;
        return (x * 2 + 1).sum();
      });
      for (int i = 0; i < 6; ++i) {
        Tensor x = row(ramp(8, static_cast<float>(i)), device);
        CHECK(f(x).item<float>() == 2 * (28 + 8 * i) + 8);
      }
      CHECK(calls == (std::string(device) == "INTERP" ? 6 : 2));
      CHECK(f.captured() == (std::string(device) != "INTERP"));
      f.reset();
      CHECK(f(row(ramp(3), device)).item<float>() == 9);
      CHECK(f(row(ramp(3, 1), device)).item<float>() == 15);
      CHECK(f(row(ramp(3, 2), device)).item<float>() == 21);
    }
  }

  TEST_CASE("jit: JIT=0 calls the function every time") {
    FlagScope off(Flag::JIT, 0);
    int calls = 0;
    Tensor sum = zeros({}).contiguous();
    auto f = jit([&](const Tensor& x) {
      ++calls;
      sum.add_(x.sum());
    });
    for (int i = 0; i < 4; ++i) f(row(ramp(3)));
    CHECK(calls == 4);
    CHECK_FALSE(f.captured());
    CHECK(sum.item<float>() == 12);
  }

  TEST_CASE("jit: no graph is built or scheduled in a replay") {
    Tensor w = ones({16}).contiguous().realize();
    auto f = jit([&](const Tensor& x) {
      w.assign(w * 0.5 + x);
      return w.sum();
    });
    Tensor x = row(ramp(16));
    for (int i = 0; i < 3; ++i) f(x);
    EngineCounts before = engine_counts();
    for (int i = 0; i < 10; ++i) f(x);
    EngineCounts after = engine_counts();
    CHECK(after.schedules == before.schedules);
    CHECK(after.kernels_run > before.kernels_run);
    CHECK(after.nodes - before.nodes < 200);
  }

  TEST_CASE("jit: arguments of every walkable kind") {
    Variable n("n", 1, 8);
    auto f = jit([](const Pair& p, const std::map<std::string, std::vector<Tensor>>& more,
                    const std::tuple<Tensor, Sym>& last) {
      Tensor s = p.images.sum() + more.at("a")[1] * 10;
      if (p.mask) s = s + *p.mask * 100;
      Tensor front = get<0>(last)(Slice(0, get<1>(last)));
      return std::make_pair(s, std::map<std::string, Tensor>{
                                   {"front", front.sum()}
      });
    });
    for (int i = 1; i < 6; ++i) {
      float v = static_cast<float>(i);
      Pair p{row({v, v}), tensor(v)};
      std::map<std::string, std::vector<Tensor>> more{
          {"a", {tensor(0.f), tensor(v + 1)}}
      };
      auto [s, named] = f(p, more, std::make_tuple(row(ramp(8)), n.bind(i)));
      CHECK(s.item<float>() == 2 * v + 10 * (v + 1) + 100 * v);
      CHECK(named.at("front").item<int>() == i * (i - 1) / 2);
    }
  }

  TEST_CASE("jit: pending arguments, views of other parts, whole views") {
    Tensor all = row(ramp(64)).reshape({16, 4});
    auto f = jit([](const Tensor& batch) { return (batch * batch.sum(1, true)).sum(0); });
    auto plain = [](const Tensor& batch) { return values((batch * batch.sum(1, true)).sum(0)); };
    for (int64_t i = 0; i < 8; ++i) {
      Tensor part = all(Slice(i, i + 4));
      CHECK(values(f(part)) == plain(part));
      CHECK(part.is_view());
      CHECK(values(f(all(Slice(0, 4)) + i)) == plain(all(Slice(0, 4)) + i));
      CHECK(values(f(all(Slice(i, i + 4)).t())) == plain(all(Slice(i, i + 4)).t()));
      CHECK(values(f(row(ramp(16, 3)).view({4, 4}))) == plain(row(ramp(16, 3)).view({4, 4})));
    }
  }

  TEST_CASE("jit: arguments written in place") {
    auto f = jit([](Tensor x, const Tensor& by) { x.add_(by); });
    Tensor by = row({1, 10}), a = row({0, 0}), b = row({5, 5}), whole = row({1, 2});
    Tensor view = whole.view({2}), lazy = ones({2}) * 3;
    for (int i = 0; i < 4; ++i) f(a, by);
    f(b, by);
    f(view, by);
    f(lazy, by);
    CHECK(values(a) == Floats32{4, 40});
    CHECK(values(b) == Floats32{6, 15});
    CHECK(values(whole) == Floats32{2, 12});
    CHECK(values(lazy) == Floats32{4, 13});
    // A pending graph of the old value keeps it.
    Tensor twice = a * 2;
    f(a, by);
    CHECK(values(twice) == Floats32{8, 80});
    CHECK(values(a) == Floats32{5, 50});
    // Views of parts, one or many.
    auto g = jit([](Tensor x) { x.add_(1); });
    Tensor base = row(ramp(4)), part = base(Slice(0, 2));
    for (int i = 0; i < 4; ++i) g(part);
    for (int i = 0; i < 4; ++i) g(base(Slice(1, 3)));
    CHECK(values(base) == Floats32{4, 9, 6, 3});
  }

  TEST_CASE("jit: views of whole tensors and of parts are written through") {
    auto g = jit([](Tensor x) { x.mul_(10); });
    Tensor plain = ones({2, 2}).contiguous();
    g(plain), g(plain);
    Tensor lazy = arange(4, {.dtype = DType::f32}).reshape({2, 2}).contiguous();
    g(lazy), g(lazy);
    CHECK(values(lazy) == Floats32{0, 100, 200, 300});
    g(lazy.t());
    Tensor all = row(ramp(8)).reshape({4, 2});
    for (int i = 0; i < 3; ++i) g(all(Slice(0, 2)));
    CHECK(values(all) == Floats32{0, 1000, 2000, 3000, 4, 5, 6, 7});
    CHECK(values(lazy) == Floats32{0, 1000, 2000, 3000});
    g(plain);
    CHECK(values(plain) == Floats32(4, 1000));
    // Captured with a view of a lazy one.
    auto h = jit([](Tensor x) { x.add_(1); });
    Tensor sums = (row(ramp(4)) + 1).view({2, 2});
    for (int i = 0; i < 4; ++i) h(sums);
    CHECK(values(sums) == ramp(4, 5));
  }

  TEST_CASE("jit: a changed argument is an error that names it") {
    add_odd_devices();
    auto f = jit([](const Pair& p, const std::vector<Tensor>& v) {
      Tensor s = p.images.sum();
      for (const Tensor& t : v) s = s + t.sum();
      return s;
    });
    Tensor x = row(ramp(4)), y = row(ramp(4, 1));
    Pair p{x, {}};
    std::vector<Tensor> two{x, y};
    for (int i = 0; i < 3; ++i) CHECK(f(p, two).item<float>() == 6 + 6 + 10);
    auto wrong = [&](const Pair& a, const std::vector<Tensor>& b) {
      return error_of([&] { f(a, b); });
    };
    CHECK(has(wrong({row(ramp(3)), {}}, {x, y}), "[jit] argument 0.images: shape (3), it was (4)"));
    CHECK(has(wrong({x.to(DType::f64), {}}, {x, y}), "argument 0.images: dtype f64, it was f32"));
    CHECK(has(wrong({row(ramp(4), "LATE"), {}}, {x, y}), "0.images: on LATE, it was on CPU"));
    CHECK(has(wrong({x, y}, {x, y}), "argument 0.mask: a tensor where 1.0 was"));
    CHECK(has(wrong(p, {x, y, y}), "argument 1.2: a tensor more; there were 3"));
    CHECK(has(wrong(p, {x}), "argument 1.1: missing; there are 2 tensors of 3"));
    CHECK(has(wrong(p, {x, Tensor()}), "argument 1.1: undefined, it was a tensor"));
    CHECK(has(wrong(p, {x, row(ramp(4)).requires_grad_()}), "argument 1.1: requires_grad_(true)"));
    CHECK(f(p, two).item<float>() == 22);  // still there
  }

  TEST_CASE("jit: state is read and written in place, and named") {
    Model m{row({1, 2}), tensor(2.f), zeros({}).contiguous().realize()};
    auto f = jit([&](const Tensor& x) {
      m.count.add_(1);
      m.weight.assign(m.weight * m.scale + x);
      return m.weight.sum();
    });
    Tensor x = row({1, 1});
    for (float want : {8.f, 18.f, 38.f}) CHECK(f(x).item<float>() == want);
    m.scale.assign(1);  // pending until the next call
    CHECK(f(x).item<float>() == 40);
    m.weight.zero_();
    CHECK(f(x).item<float>() == 2);
    CHECK(m.count.item<int>() == 5);
    std::map<std::string, JitState> found;
    for (const JitState& s : f.state(named_tensors(m))) found[s.name] = s;
    CHECK(found.size() == 3);
    CHECK(found.at("weight").written);
    CHECK(found.at("weight").shape == std::vector<int64_t>{2});
    CHECK(found.at("count").written);
    CHECK_FALSE(found.at("scale").written);
    CHECK(found.at("scale").dtype == DType::f32);
    CHECK(f.state()[0].name == "#0");
  }

  TEST_CASE("jit: what is wholly written first is no state, what is partly written is") {
    Tensor out = zeros({4}).contiguous().realize(), part = zeros({4}).contiguous().realize();
    auto f = jit([&](const Tensor& x) {
      out.assign(x * 2);
      part(Slice(0, 2)) = x(Slice(0, 2));
    });
    for (int i = 0; i < 3; ++i) f(row(ramp(4, static_cast<float>(i))));
    CHECK(values(out) == Floats32{4, 6, 8, 10});
    CHECK(values(part) == Floats32{2, 3, 0, 0});
    auto state = f.state({
        {"out",  out },
        {"part", part}
    });
    REQUIRE(state.size() == 1);
    CHECK(state[0].name == "part");
  }

  TEST_CASE("jit: pending graphs and values outside keep what they meant") {
    Tensor w = row({1, 2});
    auto f = jit([&](const Tensor& x) { w.add_(x); });
    Tensor x = row({1, 1});
    Tensor before = w * 10;
    for (int i = 0; i < 2; ++i) f(x);
    Tensor third = w * 10, copy = w.clone(), view = w.view({2, 1});
    f(x);
    CHECK(values(before) == Floats32{10, 20});
    CHECK(values(third) == Floats32{30, 40});
    CHECK(values(copy) == Floats32{3, 4});
    CHECK(values(view) == Floats32{4, 5});
    CHECK(values(w) == Floats32{4, 5});
  }

  TEST_CASE("jit: a write pending before the capture is not part of it") {
    Tensor rate = tensor(1.f), w = row({0, 0});
    auto f = jit([&](const Tensor& x) { w.assign(w + x * rate); });
    Tensor x = row({1, 1});
    for (float r : {1.f, 10.f, 100.f, 1000.f}) {
      rate.assign(r);
      f(x);
    }
    CHECK(values(w) == Floats32{1111, 1111});
    f(x);
    CHECK(values(w) == Floats32{2111, 2111});
  }

  TEST_CASE("jit: results are safe to keep") {
    add_odd_devices();
    for (const char* device : {"CPU", "LATE"}) {
      auto f = jit([](const Tensor& x) { return std::vector<Tensor>{x + 1, (x * 2).t()}; });
      std::vector<std::vector<Tensor>> kept;
      auto input = [&](int i) {
        return row(ramp(4, static_cast<float>(i)), device).reshape({2, 2});
      };
      for (int i = 0; i < 8; ++i) kept.push_back(f(input(i)));
      for (int i = 0; i < 8; ++i) {
        float v = static_cast<float>(i);
        CHECK(values(kept[static_cast<size_t>(i)][0]) == Floats32{v + 1, v + 2, v + 3, v + 4});
        CHECK(values(kept[static_cast<size_t>(i)][1]) ==
              Floats32{2 * v, 2 * v + 4, 2 * v + 2, 2 * v + 6});
      }
      kept[3][1].add_(1);  // a result belongs to its holder
      CHECK(values(f(input(0))[1]) == Floats32{0, 4, 2, 6});
      Tensor x = input(0);
      for (int i = 0; i < 5; ++i) x = f(x)[0];
      CHECK(values(x) == Floats32{5, 6, 7, 8});
    }
  }

  TEST_CASE("jit: results that nobody keeps use the same memory") {
    auto f = jit([](const Tensor& x) { return x + 1; });
    Tensor x = row(ramp(1 << 16));
    for (int i = 0; i < 3; ++i) f(x);
    const int64_t before = device("CPU").pool().live_bytes();
    for (int i = 0; i < 10; ++i) {
      Tensor y = f(x);
      CHECK(device("CPU").pool().live_bytes() <= before + x.nbytes());
    }
  }

  TEST_CASE("jit: results that are arguments, state or views of them") {
    Tensor w = row(ramp(4));
    auto f = jit([&](const Tensor& x) {
      w.add_(1);
      return std::vector<Tensor>{x, x(Slice(0, 2)), w, w(Slice(2, 4)), x.view({2, 2}).t()};
    });
    std::vector<Tensor> out;
    Tensor x;
    for (int i = 0; i < 4; ++i) {
      x = row(ramp(4, static_cast<float>(10 * i)));
      out = f(x);
    }
    CHECK(out[0].impl() == x.impl());
    CHECK(out[2].impl() == w.impl());
    x.add_(1);
    w.add_(1);
    CHECK(values(out[1]) == Floats32{31, 32});
    CHECK(values(out[3]) == Floats32{7, 8});
    CHECK(values(out[4]) == Floats32{31, 33, 32, 34});
    out[1].fill_(0);
    CHECK(values(x) == Floats32{0, 0, 33, 34});
  }

  TEST_CASE("jit: what a method with several results gives is a result") {
    auto most = jit([](const Tensor& x) { return x.max(0); });
    auto factors = jit([](const Tensor& x) { return linalg::qr(x.reshape({2, 2})); });
    for (float first : {1.f, 9.f, 5.f}) {
      const Tensor x = row({first, 7, 3, 2});
      const ValuesIndices m = most(x);
      CHECK(m.values.item<float>() == std::max(first, 7.f));
      CHECK(m.indices.item<int64_t>() == (first < 7));
      const auto [q, r] = factors(x);
      CHECK(allclose(q.matmul(r), x.reshape({2, 2})));
    }
  }

  TEST_CASE("jit: two results that are one tensor are one again") {
    auto f = jit([](const Tensor& x) {
      Tensor y = (x + 1).contiguous();
      return std::vector<Tensor>{y, y, y(Slice(0, 1))};
    });
    std::vector<Tensor> out;
    for (int i = 0; i < 3; ++i) out = f(row({1, 2}));
    CHECK(out[0].impl() == out[1].impl());
    out[0].fill_(7);
    CHECK(out[2].item<float>() == 7);
  }

  TEST_CASE("jit: variables change, also in the shapes of arguments and results") {
    Variable n("n", 1, 8), m("m", 1, 8);
    Tensor table = row(ramp(8));
    auto f = jit([&](const Sym& at, const Tensor& x) {
      return std::make_tuple(x + table(Slice(0, at)), (x * x).sum(), Size(at).symbol(),
                             table(Slice(0, at)));
    });
    for (int64_t i = 2; i < 7; ++i) {
      Tensor x = row(ramp(8, 1))(Slice(0, n.bind(i))) * 1;
      auto [y, s, sym, view] = f(n.bind(i), x);
      CHECK(s.item<int64_t>() == i * (i + 1) * (2 * i + 1) / 6);
      CHECK(y.sum().item<int64_t>() == i * i);
      CHECK(view.sum().item<int64_t>() == i * (i - 1) / 2);
      CHECK(sym.to_string() == n.bind(i).to_string());
    }
    Tensor x = row(ramp(8, 1))(Slice(0, n.bind(3))) * 1;
    CHECK(has(error_of([&] { f(n.bind(4), x); }), "the variable n is bound to both 3 and 4"));
    CHECK(has(error_of([&] { f(m.bind(3), x); }), "argument 0: the expression"));
    auto inside = jit([&](const Tensor& t) { return t(Slice(0, n.bind(3))).sum(); });
    inside(table);
    CHECK(has(error_of([&] { inside(table); }), "binds the variable n to 3 itself"));
  }

  TEST_CASE("jit: reading a value in the capture is an error that says what to do") {
    for (int kind = 0; kind < 5; ++kind) {
      int calls = 0, made_at = 0;
      auto f = jit([&](const Tensor& x) {
        ++calls;
        if (kind == 0) return x * x.sum().item<float>();
        if (kind == 1) return x * x.to_vector<float>()[0];
        if (kind == 2) return x.to_string().empty() ? x : x * 2;
        if (kind == 3) return x.masked_select(x > 1);
        made_at = __LINE__ + 1;
        Tensor twice = x * 2;
        std::ostringstream() << twice;
        return twice;
      });
      Tensor x = row(ramp(4));
      f(x);
      for (int i = 0; i < 2; ++i) {
        std::string what = error_of([&] { f(x); });
        CHECK(has(what, "a captured function reads a value"));
        CHECK(has(what, "return the tensor and read it outside"));
        CHECK(has(what, kind == 0   ? "[item]"
                        : kind == 1 ? "[to_vector]"
                        : kind == 2 ? "[to_string]"
                        : kind == 3 ? "[masked_select]"
                                    : "[operator<<]"));
        // An operator knows no line of its own.
        if (kind == 4) CHECK(has(what, text("jit_test.cpp:", made_at)));
      }
      CHECK(calls == 3);
    }
  }

  TEST_CASE("jit: an error in the function leaves it uncaptured, and nothing is lost") {
    bool bad = false;
    Tensor w = row({1, 1}), all = row(ramp(4));
    auto f = jit([&](const Tensor& x) {
      w.add_(x);
      if (bad) throw std::runtime_error("no");
      return w * 2;
    });
    Tensor x = all(Slice(1, 3));
    f(x);
    bad = true;
    CHECK_THROWS_AS(f(x), std::runtime_error);
    CHECK(x.is_view());
    CHECK(values(x) == Floats32{1, 2});
    CHECK(values(w) == Floats32{3, 5});
    bad = false;
    CHECK_FALSE(f.captured());
    for (float i = 4; i < 8; ++i) CHECK(values(f(x)) == Floats32{2 * i, 4 * i - 2});
    CHECK(f.captured());
  }

  TEST_CASE("jit: values of the host, and tensors put in the place of others, are errors") {
    auto f = jit([](const Tensor& x) { return x + row({1, 2}); });
    f(row({1, 1}));
    CHECK(has(error_of([&] { f(row({1, 1})); }), "2 f32 from values of the host"));
    auto g = jit([](const Tensor& x) { return std::make_pair(x, row({1, 2})); });
    g(row({1, 1}));
    CHECK(has(error_of([&] { g(row({1, 1})); }), "from values of the host"));
    Tensor sum = row({0, 0});
    auto rebinds = jit([&](const Tensor& x) { sum = (sum + x).realize(); });
    rebinds(row({1, 1}));
    CHECK(has(error_of([&] {
                rebinds(row({1, 1}));
              }),
              "nothing else holds a tensor that the function reads"));
    Tensor w = row({1, 2});
    auto h = jit([&](const Tensor& x) { return x * w; });
    for (int i = 0; i < 3; ++i) h(row({1, 1}));
    w = row({5, 5});
    CHECK(has(error_of([&] { h(row({1, 1})); }), "Change it with assign()"));
    // One that shares its memory with what is pending gets other memory when it is written.
    Tensor shared = w * 1, pending = shared + 1;
    shared.realize();
    auto k = jit([&](const Tensor& x) { return x * shared; });
    for (int i = 0; i < 3; ++i) k(row({1, 1}));
    shared.assign(7);
    for (int i = 0; i < 3; ++i) CHECK(values(k(row({1, 1}))) == Floats32{7, 7});
    h.reset();
    for (int i = 0; i < 3; ++i) CHECK(values(h(row({1, 1}))) == Floats32{5, 5});
    CHECK(values(h(w)) == Floats32{25, 25});
  }

  TEST_CASE("jit: putting a tensor in the place of one that is read is an error of the capture") {
    Tensor w = row({1, 1}), seen, x = row({1, 2});
    auto lazily = jit([&](const Tensor& by) {
      w = w + by;
      return w.sum();
    });
    lazily(x);
    CHECK(has(error_of([&] { lazily(x); }), "Change it with assign() instead"));
    CHECK_FALSE(lazily.captured());
    Pair state{row({1, 1}), {}};
    auto by_field = jit([&](const Tensor& by) { return state.images = (state.images * by); });
    by_field(x);
    CHECK(has(error_of([&] { by_field(x); }), "reads (shape (2)): was another put in its place"));
    // What is not read may change hands, and so may what the function made itself.
    auto leaves = jit([&](const Tensor& by) {
      seen = by * 2;
      seen = seen + 1;
      return seen.sum();
    });
    for (int i = 0; i < 4; ++i) CHECK(leaves(x).item<float>() == 8);
    CHECK(leaves.captured());
  }

  TEST_CASE("jit: one that was moved from is an error") {
    auto from = jit([](const Tensor& x) { return x + 1; });
    from(row({1}));
    auto to = std::move(from);
    const std::string moved = "[jit] the function was moved from (";
    CHECK(has(error_of([&] { from(row({1})); }), moved));
    CHECK(has(error_of([&] { from.reset(); }), moved));
    CHECK(has(error_of([&] { from.captured(); }), moved));
    CHECK(has(error_of([&] { from.state(); }), moved));
    for (int i = 0; i < 3; ++i) CHECK(to(row({1})).item<float>() == 2);
  }

  TEST_CASE("jit: errors name the line of the call and the argument") {
    Variable n("n", 1, 8);
    auto f = jit([](const Tensor& x, const Sym& at) { return x(Slice(0, at)).sum(); });
    Tensor x = row(ramp(8));
    for (int64_t i = 1; i < 4; ++i) f(x, n.bind(i));
    CHECK(has(error_of([&] { f(row(ramp(3)), n.bind(2)); }), "it was (8); arguments must"));
    CHECK(has(error_of([&] { f(row(ramp(3)), n.bind(2)); }), text(":", __LINE__, ")")));
    CHECK(has(error_of([&] { f(x, Sym(n)); }), "[jit] argument 1: a variable without a value"));
    CHECK(has(error_of([&] { f(x, n); }), "[jit] argument 1: a variable without a value"));
    CHECK(f(x, n.bind(4)).item<float>() == 6);
  }

  TEST_CASE("jit: what the function leaves behind keeps its value") {
    std::vector<Tensor> history;
    auto f = jit([&](const Tensor& x) {
      history.push_back((x * 2).realize());
      return history.back().sum();
    });
    for (int i = 0; i < 4; ++i) CHECK(f(row({float(i), 1})).item<float>() == 2 * i + 2);
    REQUIRE(history.size() == 2);
    CHECK(values(history[1]) == Floats32{2, 2});
  }

  TEST_CASE("jit: several realizations are one list, and share temporaries") {
    auto f = jit([](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < 6; ++i) y = (y * 2 - x).realize();
      return y.sum();
    });
    Tensor x = row(ramp(1 << 16, 1));
    Floats32 want = values(f(x));
    f(x);
    const int64_t before = device("CPU").pool().live_bytes();
    CHECK(values(f(x)) == want);
    CHECK(device("CPU").pool().live_bytes() <= before + 64);
    CHECK(values(f(x)) == want);
  }

  TEST_CASE("jit: one function inside another") {
    int inner_calls = 0, outer_calls = 0;
    Tensor w = row({1, 1});
    auto inner = jit([&](const Tensor& x) {
      ++inner_calls;
      w.add_(x);
      return w * 2;
    });
    auto outer = jit([&](const Tensor& x) {
      ++outer_calls;
      return inner(x + 1) + 1;
    });
    for (float i = 0; i < 4; ++i)
      CHECK(values(outer(row({0, 1}))) == Floats32{2 * i + 5, 4 * i + 7});
    CHECK(outer_calls == 2);
    CHECK(inner_calls == 2);
    CHECK_FALSE(inner.captured());
    for (float i = 0; i < 4; ++i)
      CHECK(values(inner(row({1, 2}))) == Floats32{2 * i + 12, 4 * i + 22});
    CHECK(inner_calls == 4);
    std::function<Tensor(const Tensor&)> again;
    auto recursive = jit([&](const Tensor& x) { return again(x); });
    again = [&](const Tensor& x) { return recursive(x); };
    CHECK(has(error_of([&] { recursive(w); }), "[jit] the function calls itself"));
  }

  TEST_CASE("jit: other types of arguments are an error") {
    auto f = jit([](const auto& x) { return tensors(x)[0] * 2; });
    f(row({1}));
    CHECK(has(error_of([&] { f(std::vector<Tensor>{row({1})}); }), "[jit] argument 0: its type"));
  }

  TEST_CASE("jit: copies between devices, and variables in a list on a late one") {
    add_odd_devices();
    Variable n("n", 1, 8);
    auto f = jit([&](const Tensor& x, const Sym& at) {
      Tensor y = (x * 2).to("LATE");
      return (y(Slice(0, at)).sum() + y.sum()).to("CPU") + 1;
    });
    std::vector<Tensor> out;
    for (int64_t i = 1; i < 7; ++i) out.push_back(f(row(ramp(8, 1)), n.bind(i)));
    for (int64_t i = 1; i < 7; ++i)
      CHECK(out[static_cast<size_t>(i - 1)].item<int64_t>() == i * (i + 1) + 72 + 1);
  }
}
