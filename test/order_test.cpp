// Order, selection and counts on every device and in every shape: beside the reference interpreter
// and beside the host, with bounds on the work, and along axes whose size is a variable.
#include <doctest/doctest.h>
#include <mote/jit.h>
#include <mote/mote.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "base/random.h"
#include "engine/realize.h"
#include "test/amount.h"

using namespace mote;

namespace {

std::vector<double> numbers(const Tensor& t) { return t.to(DType::f64).to_vector<double>(); }

// Equal, and NaN where NaN is.
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(
      a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

enum Kind { Any, Ties, Rising, Falling, Holes };

// Values in the order that `kind` says, exact in every dtype.
Tensor drawn(Random& random, const std::vector<int64_t>& shape, DType d, Kind kind) {
  const int64_t count =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const bool is_signed = d != DType::u8 && d != DType::u16 && d != DType::u32 && d != DType::u64;
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    double v = static_cast<double>(random.below(kind == Ties ? 3 : 120)) - (is_signed ? 60 : 0);
    if (kind == Rising) v = static_cast<double>(i * 100 / count);
    if (kind == Falling) v = static_cast<double>(100 - i * 100 / count);
    if (kind == Holes && random.below(9) == 0) v = std::nan("");
    out.push_back(v);
  }
  return from_data(out, shape, {DType::f64, "CPU"}).to(d).realize();
}

constexpr DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                            DType::i64, DType::i32, DType::i16, DType::i8,
                            DType::u8,  DType::u16, DType::u32, DType::u64};

struct Drawn {
  Tensor x;
  int64_t axis, k;
  std::string said;
};
Drawn any_case(Random& random, int64_t longest) {
  const DType d = dtypes[random.below(std::size(dtypes))];
  const bool floats = d == DType::f32 || d == DType::f64 || d == DType::f16 || d == DType::bf16;
  const Kind kind = static_cast<Kind>(random.below(floats ? 5 : 4));
  const int64_t n = 1 + random.below(random.below(2) ? longest : 20);
  std::vector<int64_t> shape = {1 + random.below(3), 1 + random.below(4)};
  const int64_t axis = random.below(3);
  shape.insert(shape.begin() + axis, n);
  Drawn out{drawn(random, shape, d, kind), axis, 1 + random.below(n), ""};
  out.said = "shape ";
  for (int64_t s : shape) out.said += std::to_string(s) + " ";
  out.said += "of " + std::string(name(d)) + ", kind " + std::to_string(kind) + ", axis " +
              std::to_string(axis) + ", k " + std::to_string(out.k);
  return out;
}

// Of every selection and order: as a sort on the host gives it.
void check_case(const Drawn& c, const char* device) {
  const Tensor x = c.x.to(device);
  const int64_t n = x.size(c.axis);
  const ValuesIndices sorted = x.sort(c.axis), first = x.topk(c.k, c.axis, false);
  const Tensor rows = c.x.to(DType::f64).movedim(c.axis, -1).contiguous().reshape({-1, n});
  const std::vector<double> in = numbers(rows);
  auto by_row = [&](const Tensor& t, int64_t size) {
    return numbers(t.movedim(c.axis, -1).contiguous().reshape({-1, size}));
  };
  std::vector<double> order, values, firsts, kth, mid;
  for (size_t r = 0; r < in.size(); r += static_cast<size_t>(n)) {
    std::vector<int64_t> at(static_cast<size_t>(n));
    std::iota(at.begin(), at.end(), 0);
    auto v = [&](int64_t i) { return in[r + static_cast<size_t>(i)]; };
    std::ranges::stable_sort(at, [&](int64_t a, int64_t b) {
      return v(a) < v(b) || (std::isnan(v(b)) && !std::isnan(v(a)));
    });
    for (int64_t i : at) order.push_back(static_cast<double>(i)), values.push_back(v(i));
    for (int64_t i = 0; i < c.k; ++i)
      firsts.push_back(static_cast<double>(at[static_cast<size_t>(i)]));
    kth.push_back(v(at[static_cast<size_t>(c.k - 1)]));
    mid.push_back(v(at[static_cast<size_t>(std::isnan(v(at.back())) ? n - 1 : (n - 1) / 2)]));
  }
  CHECK(same(by_row(sorted.indices, n), order));
  CHECK(same(by_row(sorted.values, n), values));
  CHECK(same(by_row(first.indices, c.k), firsts));
  CHECK(same(by_row(x.kthvalue(c.k, c.axis, true).values, 1), kth));
  const ValuesIndices median = x.median(c.axis, true);
  CHECK(same(by_row(median.values, 1), mid));
  CHECK(same(by_row(x.gather(c.axis, median.indices), 1), mid));
}

// But for the last bits of floats.
bool close(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return x == y || std::abs(x - y) < 1e-5 * (1 + std::abs(y));
  });
}

using Tensors = std::vector<Tensor>;
struct Function {
  const char* name;
  Tensors (*call)(const Tensor& x, int64_t axis);
};
Tensors both(const ValuesIndices& v) { return {v.values, v.indices}; }
Tensors both(const Extremes& e) { return {e.min, e.max}; }
Tensors resized(const Tensor& x) {
  return {x.interpolate({.size = 7}), x.interpolate({.size = 12, .mode = "linear"}),
          x.interpolate({.size = 5, .mode = "linear", .align_corners = true}),
          x.interpolate({.scale_factor = 2.0, .mode = "linear"}),
          x.interpolate({.scale_factor = 3.0, .mode = "nearest-exact"})};
}
// clang-format off
#define CALL(name, ...) {name, [](const Tensor& x, int64_t axis) -> Tensors { return __VA_ARGS__; }}
const Function functions[] = {
    CALL("sort", both(x.sort(axis))),
    CALL("argsort", {x.argsort(axis, true)}),
    CALL("topk", both(x.topk(1, axis))),
    CALL("kthvalue", both(x.kthvalue(1, axis))),
    CALL("median", both(x.median(axis))),
    CALL("nanmedian", both(x.nanmedian(axis))),
    CALL("mode", both(x.mode(axis))),
    CALL("quantile", {x.to_float().quantile(0.3, axis)}),
    CALL("cumsum", {x.cumsum(axis)}),
    CALL("cummax", both(x.cummax(axis))),
    CALL("logcumsumexp", {x.to_float().logcumsumexp(axis)}),
    CALL("roll", {x.roll(3, axis), x.roll(-2, axis)}),
    CALL("interpolate", resized(x.to_float().movedim(axis, -1).unsqueeze(0))),
    CALL("aminmax", both(x.aminmax(axis))),
    CALL("diff", {x.diff(0, axis)}),
};
#undef CALL
// clang-format on

}  // namespace

TEST_SUITE("order") {
  TEST_CASE("any shape, axis, dtype and order of values, beside the host") {
    const uint64_t seed = test::seed_or(41);
    MESSAGE("seed ", seed);
    Random random(seed, 0);
    for (int64_t i = 0; i < test::scaled<int64_t>(8); ++i) {
      const Drawn c = any_case(random, 400);
      INFO(c.said);
      check_case(c, "CPU");
    }
    for (const char* device : {"INTERP", "INTERP_PROGRAM", "SIMT", "SIMT_SMALL", "SIMT_BROWSER"})
      for (int64_t i = 0; i < 2; ++i) {
        const Drawn c = any_case(random, 24);
        INFO(device, ": ", c.said);
        check_case(c, device);
      }
  }

  TEST_CASE("many shapes" * doctest::test_suite("soak")) {
    const uint64_t seed = test::seed_or(42);
    MESSAGE("seed ", seed);
    Random random(seed, 0);
    for (int64_t i = 0; i < test::scaled<int64_t>(600); ++i) {
      const Drawn c = any_case(random, 5000);
      INFO(c.said);
      check_case(c, "CPU");
    }
  }

  TEST_CASE("selection compares each element once a bit, and sorts take four digits") {
    const Options on_null{.device = "NULL"};
    auto operations = [](const Tensor& t) { return explain(std::vector{t}).total.ops; };
    for (int64_t n : {300, 3000}) {
      const Tensor x = empty({256, n}, on_null).realize();
      const double each = 256.0 * static_cast<double>(n);
      for (int64_t axis : {1, 0}) {
        CAPTURE(axis);
        CHECK(operations(x.kthvalue(7, axis).values) < (32 * 4 + 60) * each);
        CHECK(operations(x.median(axis).values) < (32 * 4 + 60) * each);
      }
      CHECK(operations(x.to(DType::u8).median(1).values) < (8 * 4 + 60) * each);
      // Digits: reads, counts and places of each element, and 256 counters a row.
      CHECK(operations(x.sort(1).values) < 4 * (60 * each + 256 * 256 * 40));
      CHECK(operations(x.to(DType::i8).sort(1).values) < 60 * each + 256 * 256 * 40 + 60 * each);
    }
    const Tensor s = empty({100'000}, on_null).realize(), v = empty({5000}, on_null).realize();
    CHECK(operations(searchsorted(s, v)) < 17 * 40 * 5000.0 + 4 * 100'000.0);
    CHECK(operations(s.histc(50, 0, 1)) < 60 * 100'000.0);
  }

  TEST_CASE("kernels of a selection stay few, and are found again") {
    const Tensor x = empty({128, 512}, {.device = "NULL"}).realize();
    CHECK(explain(std::vector{x.kthvalue(3, 1).values}).kernels.size() <= 12);
  }

  TEST_CASE("distinct elements of floats, rows and nothing") {
    for (const char* device : {"CPU", "INTERP"}) {
      const double nan = std::nan("");
      Tensor x = tensor({2.0, nan, 1.0, 2.0, nan}, {.device = device});
      UniqueValues u = x.unique();
      CHECK(same(numbers(u.values), {1, 2, nan, nan}));
      CHECK(numbers(u.counts) == std::vector<double>{1, 2, 1, 1});
      CHECK(numbers(u.inverse) == std::vector<double>{1, 2, 0, 1, 3});
      const UniqueValues none = zeros({0}, {.device = device}).unique();
      CHECK(none.values.numel() + none.counts.numel() + none.inverse.numel() == 0);
      const std::vector<double> rows(3 * 9, 1.0);
      CHECK(from_data(rows, {3, 9}, {.device = device}).unique(0).values.sizes().size() == 2);
      CHECK(zeros({0}, {DType::i64, device}).bincount({}, 3).to_vector<int64_t>() ==
            std::vector<int64_t>{0, 0, 0});
    }
  }

  TEST_CASE("distinct elements beside the host") {
    const uint64_t seed = test::seed_or(43);
    MESSAGE("seed ", seed);
    Random random(seed, 0);
    for (int64_t i = 0; i < test::scaled<int64_t>(8); ++i) {
      const int64_t n = 1 + random.below(5000);
      const int64_t apart = i % 2 ? 1 : 1'000'003;  // close ones are counted, others sorted
      std::vector<int64_t> in;
      for (int64_t j = 0; j < n; ++j) in.push_back((random.below(1 + n / 3) - n / 6) * apart);
      const Tensor x = from_data(in, {n}, {DType::i64, "CPU"});
      const std::set<int64_t> set(in.begin(), in.end());
      const UniqueValues u = x.unique();
      CHECK(u.values.to_vector<int64_t>() == std::vector<int64_t>(set.begin(), set.end()));
      CHECK(u.values.index_select(0, u.inverse).to_vector<int64_t>() == in);
      CHECK(u.counts.sum().item<int64_t>() == n);
      const UniqueValues runs = x.unique_consecutive();
      std::vector<int64_t> heads = in;
      heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
      CHECK(runs.values.to_vector<int64_t>() == heads);
      CHECK(runs.values.index_select(0, runs.inverse).to_vector<int64_t>() == in);
      if (apart == 1) {
        const Tensor counts = (x - *set.begin()).bincount();
        CHECK(counts.numel() == *set.rbegin() - *set.begin() + 1);
        CHECK(counts.sum().item<int64_t>() == n);
      }
      const Tensor at = searchsorted(u.values, x);
      CHECK(at.to_vector<int64_t>() == u.inverse.to_vector<int64_t>());
    }
  }

  TEST_CASE("permutations of any length hold each number once, and differ") {
    const uint64_t seed = test::seed_or(44);
    MESSAGE("seed ", seed);
    manual_seed(seed);
    for (int64_t n : {0, 1, 2, 1024, 1025, 1026, 1089, 5000, 65'537}) {
      CAPTURE(n);
      std::vector<int64_t> p = randperm(n).to_vector<int64_t>(),
                           q = randperm(n).to_vector<int64_t>();
      if (n > 1000) CHECK(p != q);
      std::ranges::sort(p);
      for (int64_t i = 0; i < n; ++i) REQUIRE(p[static_cast<size_t>(i)] == i);
    }
    // Where an element goes, how often one stays, and how often the next is larger.
    constexpr int64_t kLength = 2000, kDraws = 300;
    double sum = 0, fixed = 0, rises = 0;
    for (int64_t i = 0; i < kDraws; ++i) {
      const std::vector<int64_t> p = randperm(kLength).to_vector<int64_t>();
      sum += static_cast<double>(p[7]);
      for (int64_t j = 0; j < kLength; ++j) fixed += p[static_cast<size_t>(j)] == j;
      for (size_t j = 1; j < p.size(); ++j) rises += p[j] > p[j - 1];
    }
    CHECK(std::abs(sum / kDraws / kLength - 0.5) < 0.07);
    CHECK(std::abs(fixed / kDraws - 1) < 0.25);
    CHECK(std::abs(rises / kDraws / (kLength - 1) - 0.5) < 0.005);
  }

  TEST_CASE("along an axis whose size is a variable") {
    constexpr int64_t kMost = 300;
    const uint64_t seed = test::seed_or(45);
    MESSAGE("seed ", seed);
    Random random(seed, 0);
    const Variable n("n", 1, kMost);
    for (size_t i = 0; i < std::size(functions); ++i) {
      const Function& f = functions[i];
      const DType d = (i + seed) % 2 ? DType::f32 : DType::i64;
      const Tensor all = drawn(random, {kMost, 3}, d, d == DType::f32 ? Any : Ties);
      auto check = [&](int64_t value, const char* device, const Size& size) {
        INFO(f.name, " of ", name(d), ", n = ", value, ", beside ", device);
        const std::vector<Tensor> got = f.call(all.narrow(0, 0, n.bind(value)), 0);
        const std::vector<Tensor> wanted = f.call(all.to(device).narrow(0, 0, size), 0);
        REQUIRE(got.size() == wanted.size());
        for (size_t k = 0; k < got.size(); ++k) CHECK(close(numbers(got[k]), numbers(wanted[k])));
      };
      for (int64_t value : {300, 1}) check(value, "CPU", value);
      for (int64_t value : {17, 2}) check(value, "INTERP", value);
      check(31, "INTERP", n.bind(31));
    }
  }

  TEST_CASE("a new value of a variable compiles nothing") {
    const Variable n("n", 1, 300);
    const Tensor all = rand({300, 3}).realize();
    for (const Function& f : functions) {
      CAPTURE(std::string(f.name));
      auto run = [&](int64_t value) { realize(f.call(all.narrow(0, 0, n.bind(value)), 0)); };
      for (int64_t value : {300, 5, 1}) run(value);
      const uint64_t before = engine_counts().kernels_compiled;
      for (int64_t value : {299, 18, 200, 17, 2, 16, 1}) run(value);
      CHECK(engine_counts().kernels_compiled == before);
    }
  }

  TEST_CASE("errors say what is wrong") {
    auto said = [](const std::function<void()>& f) -> std::string {
      try {
        f();
      } catch (const Error& e) { return e.what(); }
      return "";
    };
    auto has = [&](const std::function<void()>& f, const char* part) {
      const std::string all = said(f);
      INFO(all);
      CHECK(all.find(part) != std::string::npos);
    };
    const Tensor x = zeros({2, 3});
    has([&] { x.quantile(2); }, "[quantile] needs q between 0 and 1, got 2");
    has([&] { x.quantile(0.5, 0, false, "cubic"); }, "interpolation is linear, lower");
    has([&] { x.to_int().quantile(0.5); }, "needs f32 or f64, got i32");
    has([&] { zeros({0}).mode(); }, "is empty, so it has no mode");
    has([&] { x.to_long().flatten().sub(1).bincount(); }, "[bincount] needs numbers >= 0, got -1");
    has([&] { x.bincount(); }, "must have an integer dtype, got f32");
    has([&] { x.histc(0); }, "[histc] needs a number of bins > 0, got 0");
    has([&] { x.histc(3, 2, 1); }, "needs min <= max");
    has([&] { searchsorted(x, zeros({3, 3})); }, "differ in more than the last axis");
    has([&] { x.unique({0, 1}); }, "needs one axis or none");
    has([&] { zeros({2, 0}).unique(0); }, "the parts of a tensor of shape (2, 0) are empty");
    has([&] { zeros({}).diff(); }, "needs a tensor with an axis");
    const Variable n("n", 1, 9);
    has([&] { zeros({9}).narrow(0, 0, n.bind(4)).topk(5); }, "needs k between 0 and the size");
  }
}
