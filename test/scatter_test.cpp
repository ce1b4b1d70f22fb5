// Writes at computed places: as much work as there are writes and outputs, and the values of the
// fold that defines them, whether it is made in order or by comparing.
#include <doctest/doctest.h>
#include <mote/jit.h>
#include <mote/mote.h>

#include <cmath>
#include <functional>

#include "base/flags.h"
#include "base/random.h"
#include "engine/realize.h"
#include "test/amount.h"

using namespace mote;

namespace {

using Function = std::function<Tensor(const Tensor& x, const Tensor& at, const Tensor& values)>;

struct Case {
  const char* name;
  bool floats_only;
  Function call;  // x (places, others), at (writes), values (writes, others)
};

Tensor wide(const Tensor& at, const Tensor& values) {
  return at.unsqueeze(1).expand({-1, values.size(1)});
}
Tensor spread(const Tensor& at, const Tensor& values) {  // other positions in every column
  Tensor column = arange(values.size(1), {DType::i64, values.device()});
  return at.unsqueeze(1).roll(1, 0) + column * 0;
}
Tensor gradient_of(const Tensor& x, const Tensor& values, const std::function<Tensor(Tensor)>& f) {
  Tensor leaf = x.detach().requires_grad_();
  return f(leaf).gradient({leaf}, values)[0];
}
Tensor put(const Tensor& x, const std::vector<Index>& at, const Tensor& values, bool accumulate) {
  Tensor y = x.clone();
  y.index_put_(at, values, accumulate);
  return y;
}

#define CASE(name, floats, ...)                                                      \
  {                                                                                  \
    name, floats, [](const Tensor& x, const Tensor& at, const Tensor& v) -> Tensor { \
      (void)v;                                                                       \
      return __VA_ARGS__;                                                            \
    }                                                                                \
  }
const Case cases[] = {
    CASE("index_add", false, x.index_add(0, at, v)),
    CASE("index_add of columns", false, x.t().contiguous().index_add(1, at, v.t())),
    CASE("index_copy", false, x.index_copy(0, at, v)),
    CASE("index_fill", false, x.index_fill(0, at, 3)),
    CASE("scatter", false, x.scatter(0, spread(at, v), v)),
    CASE("scatter in part", false, x.scatter(0, spread(at, v).narrow(1, 0, 2), v)),
    CASE("scatter_add", false, x.scatter_add(0, wide(at, v), v)),
    CASE("scatter_add in rows", false, x.t().scatter_add(1, spread(at, v).t(), v.t())),
    CASE("scatter_reduce sum", false, x.scatter_reduce(0, spread(at, v), v, "sum", false)),
    CASE("scatter_reduce prod", false, x.scatter_reduce(0, wide(at, v), v.sign(), "prod")),
    CASE("scatter_reduce prod alone", false,
         x.scatter_reduce(0, spread(at, v), v.sign(), "prod", false)),
    CASE("scatter_reduce mean", true, x.scatter_reduce(0, wide(at, v), v, "mean")),
    CASE("scatter_reduce mean alone", true, x.scatter_reduce(0, wide(at, v), v, "mean", false)),
    CASE("scatter_reduce amax", false, x.scatter_reduce(0, spread(at, v), v, "amax")),
    CASE("scatter_reduce amin", false, x.scatter_reduce(0, wide(at, v), v, "amin", false)),
    CASE("index_put_", false, put(x, {at}, v, false)),
    CASE("index_put_ that adds", false, put(x, {at}, v, true)),
    CASE("index_put_ by two indices", false,
         put(x.unflatten(0, {-1, 4}), {at.remainder(x.size(0)).floor_divide(4), at.remainder(4)}, v,
             true)),
    CASE("scatter_add_ of a view", false,
         [&] {
           Tensor y = x.clone();
           Tensor part = y.narrow(1, 0, 2);
           part.scatter_add_(0, wide(at, v).narrow(1, 0, 2), v.narrow(1, 0, 2));
           return y;
         }()),
    CASE("a write of what it reads", false,
         [&] {
           Tensor y = x.clone().realize();
           y.index_put_({at}, y.index_select(0, at) + v, true);
           return y;
         }()),
    CASE("counts", false, at.remainder(x.size(0)).one_hot(x.size(0)).sum(0)),
    CASE("gradient of embedding", true,
         gradient_of(x, v, [&](const Tensor& w) { return at.remainder(x.size(0)).embedding(w); })),
    CASE(
        "a step with it", true,
        x - 0.1 * gradient_of(
                      x, v, [&](const Tensor& w) { return at.remainder(x.size(0)).embedding(w); })),
    CASE("gradient of gather", true,
         gradient_of(x, v, [&](const Tensor& w) { return w.gather(0, spread(at, v)); })),
    CASE(
        "gradient of gather in rows", true,
        gradient_of(x.t(), v.t(), [&](const Tensor& w) { return w.gather(1, spread(at, v).t()); })),
    CASE("gradient of index_select", true,
         gradient_of(x, v, [&](const Tensor& w) { return w.index_select(0, at); })),
    CASE("gradient of take", true,
         gradient_of(x, v.select(1, 0), [&](const Tensor& w) { return w.take(at); })),
    CASE("gradient of two indices", true,
         gradient_of(x.unflatten(0, {-1, 4}), v,
                     [&](const Tensor& w) {
                       return w.index({at.remainder(x.size(0)).floor_divide(4), at.remainder(4)});
                     })),
    CASE("gradient of amax", true,
         gradient_of(v, x,
                     [&](const Tensor& w) { return x.scatter_reduce(0, wide(at, v), w, "amax"); })),
};
#undef CASE

std::vector<double> numbers(const Tensor& t) {
  return t.to("CPU").to(DType::f64).contiguous().to_vector<double>();
}

struct Operands {
  Tensor x, at, values;
  Operands(int64_t places, int64_t writes, int64_t others, DType d) {
    x = (randn({places, others}) * 8).to(d).realize();
    at = randint(-places, places, {writes}).realize();
    values = (randn({writes, others}) * 8).to(d).realize();
  }
  Tensor on(const char* device, const Case& c) const {
    return c.call(x.to(device), at.to(device), values.to(device));
  }
};

void check_case(const Case& c, const Operands& given, const char* device) {
  CAPTURE(std::string(c.name));
  CAPTURE(given.values.dtype());
  const std::vector<double> want = numbers(given.on("INTERP", c));
  const std::vector<double> got = numbers(given.on(device, c));
  REQUIRE(got.size() == want.size());
  const double close = size_of(given.values.dtype()) < 4 ? 2e-2 : 1e-4;
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(close));
}

}  // namespace

TEST_SUITE("writes at computed places") {
  TEST_CASE("the work is that of the writes and the outputs") {
    const Options on_null{.device = "NULL"};
    constexpr int64_t kPlaces = 1000, kWrites = 8192, kOthers = 64;
    Tensor x = empty({kPlaces, kOthers}, on_null).realize();
    Tensor at = empty({kWrites}, {DType::i64, "NULL"}).realize();
    Tensor values = empty({kWrites, kOthers}, on_null).realize();
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      const ScheduleReport r = explain(std::vector{c.call(x, at, values)});
      CHECK(r.total.ops < 40.0 * (kPlaces + kWrites) * kOthers);
    }
  }

  TEST_CASE("the work is that of the writes, of any rank, axis, reduction and dtype") {
    const uint64_t seed = test::seed_or(51);
    MESSAGE("seed ", seed);
    Random random(seed, 0);
    const char* reductions[] = {"sum", "prod", "mean", "amax", "amin"};
    const DType dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::i64, DType::i32, DType::u8};
    for (int64_t i = 0; i < test::scaled<int64_t>(150); ++i) {
      const int64_t rank = 1 + random.below(4), axis = random.below(rank);
      std::vector<int64_t> places, writes;
      for (int64_t a = 0; a < rank; ++a) {
        places.push_back(a == axis ? 200 + random.below(1500)
                                   : 1 + random.below(rank > 2 ? 6 : 40));
        const int64_t n = places.back();
        writes.push_back(a == axis         ? 200 + random.below(3000)
                         : random.below(3) ? n
                                           : 1 + random.below(n));
      }
      const DType d = dtypes[random.below(std::size(dtypes))];
      Tensor x = empty(places, {d, "NULL"}).realize(), v = empty(writes, {d, "NULL"}).realize();
      Tensor at = empty(writes, {DType::i64, "NULL"}).realize();
      const auto which = static_cast<size_t>(random.below(std::size(reductions) + 1));
      const Tensor y = which == std::size(reductions)
                           ? x.scatter(axis, at, v)
                           : x.scatter_reduce(axis, at, v, reductions[which], random.below(2));
      INFO("case ", i, ", function ", which, " of ", name(d), ", axis ", axis, " of ", rank);
      CHECK(explain(std::vector{y}).total.ops <
            60.0 * static_cast<double>(at.numel() + x.numel()) + 1e4);
    }
  }

  TEST_CASE("a read at one of two numbers is one read") {
    const Options on_null{.device = "NULL"};
    const Tensor x = empty({100'000}, on_null).realize(), v = empty({500}, on_null).realize();
    const Tensor at = where(v > 0, 70'000, 3).to(DType::i32);
    for (const Tensor& t : {x.gather(0, at), x.gather(0, at + 7), x.index_select(0, at - 3)})
      CHECK(explain(std::vector{t}).total.ops < 20.0 * 500);
  }

  TEST_CASE("the values of the fold: where writing in order pays") {
    manual_seed(21);
    const Operands rows(40, 120, 24, DType::f32), column(300, 400, 1, DType::f32);
    for (const Case& c : cases) {
      check_case(c, rows, "CPU");
      if (std::string_view(c.name).find("view") == std::string_view::npos &&
          std::string_view(c.name).find("part") == std::string_view::npos)
        check_case(c, column, "CPU");
    }
  }

  TEST_CASE("the values of the fold: in order and by comparing, in every dtype") {
    manual_seed(22);
    for (int64_t draw : {16, 32})
      for (DType d : {DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8}) {
        FlagScope flag(Flag::DRAW, draw);
        const Operands given(12, 9, 3, d);
        for (const Case& c : cases)
          if (is_float(d) || !c.floats_only) check_case(c, given, "CPU");
      }
  }

  TEST_CASE("the values of the fold: on devices with other loops, and by random actions") {
    manual_seed(23);
    const Operands given(12, 9, 5, DType::f32);
    for (const char* device : {"INTERP_PROGRAM", "SIMT", "SIMT_SMALL", "SIMT_BROWSER"})
      for (int64_t draw : {16, 16 + 5, 16 * 3 + 9}) {
        CAPTURE(std::string(device));
        CAPTURE(draw);
        FlagScope flag(Flag::DRAW, draw);
        for (const Case& c : cases) check_case(c, given, device);
      }
  }

  TEST_CASE("a fold of what no index has is its start, and one of nothing too") {
    FlagScope in_order(Flag::DRAW, 16);
    Tensor x = arange(6).to(DType::f32), at = full({4}, 5, {DType::i64}).realize();
    Tensor v = ones({4}).contiguous().realize();
    CHECK(x.scatter_reduce(0, at, v, "amin", false).to_vector<float>() ==
          std::vector<float>{0, 1, 2, 3, 4, 1});
    CHECK(x.scatter_add(0, at, v).to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 9});
    Tensor none = zeros({0}, {DType::i64});
    CHECK(x.index_add(0, none, zeros({0})).to_vector<float>() == x.to_vector<float>());
    CHECK(zeros({0}).index_add(0, none, zeros({0})).numel() == 0);
  }

  TEST_CASE("in a captured function, with a variable number of writes") {
    manual_seed(24);
    const Operands given(40, 300, 16, DType::f32);
    auto step = jit(
        [&](const Tensor& at, const Tensor& v) { return given.x.index_add(0, at, v).realize(); });
    for (int i = 0; i < 4; ++i) {
      Tensor at = randint(-40, 40, {300}).realize(), v = randn({300, 16}).realize();
      const Tensor want = given.x.to("INTERP").index_add(0, at.to("INTERP"), v.to("INTERP"));
      CHECK((step(at, v) - want.to("CPU")).abs().amax().item<float>() < 1e-3f);
    }
    const Variable n("n", 1, 300);
    const Tensor at = given.at.remainder(40).realize();
    auto of_first = [&](const auto& size) {
      Tensor leaf = given.x.detach().requires_grad_();
      Tensor read = at.narrow(0, 0, size).embedding(leaf) * given.values.narrow(0, 0, size);
      return read.sum().gradient({leaf})[0];
    };
    for (int64_t value : {1, 20, 299, 300})
      CHECK((of_first(n.bind(value)) - of_first(value)).abs().amax().item<float>() < 1e-4f);
  }

  TEST_CASE("overlapping windows: the first of the largest elements gets the gradient") {
    Tensor x = zeros({1, 1, 5, 5}).contiguous().realize();
    Tensor leaf = x.detach().requires_grad_();
    Tensor y = leaf.max_pool2d(3, {.stride = 2, .padding = 1});
    const std::vector<float> want{1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0,
                                  0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0};
    CHECK(y.sum().gradient({leaf})[0].to_vector<float>() == want);
  }
}
