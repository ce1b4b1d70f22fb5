// Lists of actions that are legal one by one: what one of them relies on, the next must not undo.
#include <doctest/doctest.h>

#include <cstdlib>

#include "base/flags.h"
#include "optimize/moves.h"
#include "optimize/small_kernels_test.h"

using namespace mote;

namespace {

struct Case {
  UOp (*body)();
  const char* list;
  const char* refused = "";  // the last action, for this reason
};

const Case cases[] = {
    {window, "skip 2"},
    {window, "skip 2; stage 1 0 1"},
    {window, "skip 2; stage 2 2 1"},
    {window, "skip 2; split 0 4 loop"},
    {window, "skip 2; split 1 2 reduce", "the extent of a loop depends on one inside it"},
    {window, "skip 2; merge 1 2", "its extent depends on other loops"},
    {whole_window, "stage 2 1+2; bound 0; stage 2 3; order 4 0; stage 1 1"},
    {whole_window, "bound 0; stage 2 2; stage_rows 0 4"},
    {sum_of_all, "stage 1 2+0; split 3 28 loop; split 1 4 reduce; merge 1 5; skip 2"},
    {sum_of_all,
     "stage 1 2+0; stage 1 3; stage 1 4; split 4 28 upcast; split 1 4 reduce; merge 1 7; skip 2"},
    {plain_windows, "stage 1 4 0+2 1+3; split 1 4 vector; split 0 4 upcast; split 2 3 unroll"},
    {plain_windows, "stage 1 1+3; stage 2 4 2 3"},
    {strided_windows, "stage 1 0+2 4 1+3; split 1 4 vector"},
    {strided_windows, "accumulate 4; stage 1 3+1 2+0; split 5 4 loop"},
    {dilated_windows, "stage 1 4 2+0 3+1; split 0 2 loop"},
    {uneven_windows, "stage 1 0+2 1+3", "only one axis of ranges that are joined unevenly"},
    {uneven_windows, "stage 1 0+2", "the read has a gate"},
    {plain_windows, "stage 1 1+2", "the read has a gate"},
    {plain_windows, "stage 1 0+3 1", "the read has a gate"},
    {product_of_ones, "split 0 2 vector; split 0 2 vector", "some value has two axes of vectors"},
    {first_of_equal, "stage_rows 0 8"},
    {first_of_equal, "stage_rows 0 4; split 0 2 loop"},
    {gated_by_a_sum, "skip 2", "the gate is a result of folds"},
    {some_of_three, "skip 2; order 3 1", "the extent of a loop depends on one inside it"},
    {some_of_three, "skip 2; order 2 1", "the extent of a loop depends on one inside it"},
    {some_of_three, "skip 3; merge 1 2"},
    {some_of_three, "skip 2; order 3 2"},
    {some_of_three, "skip 3; order 2 1 3"},
    {some_of_three, "skip 3; split 2 2 reduce; order 2 1 4 3"},
    {early_sum_used_twice, "skip 3; stage 2 0"},
    {later_sum_used_twice, "skip 3; stage 2 0",
     "a loop would run differently in a copy of its nest"},
    {early_sum_used_twice, "accumulate 2", "an accumulated sum is not what is stored"},
    {first_of_equal, "accumulate 1", "something is staged over a loop that accumulates"},
    {two_outputs, "accumulate 1", "an accumulated sum beside other outputs"},
    {in_place, "split 1 4 reduce; accumulate 1",
     "an accumulated sum is stored where the kernel reads"},
    {in_place_beside, "split 1 2 loop"},
    {in_place_beside, "split 0 2 loop", "an output is made in place in loops of others"},
    {in_place_beside, "order 1 0", "an output is made in place in loops of others"},
    {in_order, "split 2 4 vector; order 2 0 1; global 0"},
    {in_order, "split 2 3 loop; split 2 2 upcast; order 0 2 1; global 3"},
    {in_order, "stage 1 0 1; split 2 4 upcast"},
    {in_order, "stage 2 2", "something is staged that changes from round to round"},
    {in_order, "split 0 2 loop", "not a plain loop"},
    {in_order, "global 0", "not an output loop"},
    {in_order, "merge 0 1", "its rounds have an order"},
    {in_order, "order 1 0", "writes are to be made in their order"},
    {in_order, "order 1 2 0", "writes are to be made in their order"},
    {in_order, "stage 0 2", "the memory is written by this kernel"},
    {product, "split 2 2 reduce; stream 0; accumulate 2",
     "an accumulated sum is stored past the caches"},
    {product, "split 2 2 reduce; accumulate 2; stream 0",
     "an accumulated sum is stored past the caches"},
};

}  // namespace

TEST_CASE("actions: lists of them keep every read inside its memory and every value") {
  for (const Case& c : cases) {
    Arena arena;
    ArenaScope scope(arena);
    UOp body = c.body();
    const std::vector<double> want = run_small(body);
    CAPTURE(std::string(c.list));
    std::string refused;
    for (const Action& a : parse_actions(c.list)) {
      REQUIRE_MESSAGE(refused.empty(), refused);
      if (UOp next = apply(body, a, &refused)) body = next;
      verify(body, Stage::Kernel, "an action");
    }
    CHECK(refused == c.refused);
    CHECK(run_small(body) == want);
  }
}

TEST_CASE("actions: drawn lists keep the values of small kernels") {
  UOp (*const kernels[])() = {
      window, whole_window, sum_of_all, product_of_ones, first_of_equal, gated_by_a_sum, in_place,
      in_order, product, two_outputs, sum_by_largest, padded_windows, some_of_three,
      early_sum_used_twice, later_sum_used_twice, [] { return parse(attention); },
  };
  const char* given = std::getenv("MOTE_DRAWS");
  const uint64_t draws = given ? std::strtoull(given, nullptr, 0) : 20;
  const Target target;
  for (UOp (*make_kernel)() : kernels)
    for (uint64_t seed = 0; seed < draws; ++seed) {
      Arena arena;
      ArenaScope scope(arena);
      UOp body = make_kernel();
      const std::vector<double> want = run_small(body);
      const std::vector<Action> list = draw_actions(body, target, seed, 15);
      INFO(print(body), to_string(list));
      for (const Action& a : list) verify(body = apply(body, a), Stage::Kernel, "an action");
      const std::vector<double> got = run_small(body);
      for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]));
    }
}

TEST_CASE("actions: a sum of floats keeps its order with STRICT=1") {
  const char* const reordered = "a sum is to be made in its order";
  const std::pair<const char*, bool> lists[] = {
      {"split 2 4 unroll",                                   false},
      {"split 2 4 upcast",                                   false},
      {"split 2 4 vector",                                   false},
      {"split 0 2 upcast; split 1 2 vector",                 true },
      {"split 2 4 reduce; accumulate 2; order 2 0 1",        true },
      {"split 2 4 reduce; accumulate 3",                     false},
      {"split 2 4 reduce; order 3 2",                        false},
      {"split 2 4 reduce; merge 2 3",                        true },
      {"split 2 4 reduce; merge 3 2",                        false},
      {"split 2 4 reduce; stage 1 0 2 3; stage_rows 0 2",    true },
      {"split 2 4 reduce; split 3 2 reduce; merge 2 4",      false},
  };
  for (const bool strict : {true, false})
    for (const auto& [list, keeps] : lists) {
      Arena arena;
      ArenaScope scope(arena);
      FlagScope flag(Flag::STRICT, strict);
      CAPTURE(std::string(list));
      std::string refused;
      apply_all(product(DType::f32, 7), parse_actions(list), &refused);
      CHECK((refused == reordered) == (strict && !keeps));
      refused.clear();
      apply_all(product(DType::i32, 7), parse_actions(list), &refused);
      CHECK(refused != reordered);
    }
}

// A sum of words or of another float is put together from several: none of them is what is stored.
TEST_CASE("actions: sums that are rounded or made of parts are not accumulated in memory") {
  Target target;
  target.l1_bytes = 1 << 10;
  target.l2_bytes = 4 << 10;
  Target without = target;
  for (DType d : {DType::i64, DType::u64, DType::f64})
    without.dtypes &= ~(uint32_t{1} << static_cast<int>(d));
  Arena arena;
  ArenaScope scope(arena);
  std::string refused;
  CHECK(!apply(product(DType::f16, 5), parse_actions("accumulate 2")[0], &refused));
  CHECK(refused == "an accumulated sum would be rounded");
  for (DType d : {DType::i64, DType::f64}) {
    UOp body = product(d, 40);
    UOp accumulated = apply_all(body, parse_actions("split 2 8 reduce; accumulate 2"));
    REQUIRE(accumulated);
    CHECK(runs_on(accumulated, target));
    CHECK(!runs_on(accumulated, without));
    lower(apply_all(body, choose_actions(body, without).actions), without);
    for (uint64_t seed = 0; seed < 20; ++seed)
      lower(apply_all(body, draw_actions(body, without, seed, 8)), without);
  }
}

// A product in words is written out, so nothing may be staged for each of its factors.
TEST_CASE("actions: factors of a product in words are not staged") {
  Arena arena;
  ArenaScope scope(arena);
  Target target, without;
  without.dtypes &= ~(uint32_t{1} << static_cast<int>(DType::i64));
  UOp i = range(0, index(5), Role::Loop), k = range(1, index(3), Role::Reduce);
  UOp over[] = {k};
  UOp read = make(Op::Index, DType::i64, {param(1, DType::i64, 15), k * 5 + i});
  UOp place = make(Op::Index, DType::i64, {param(0, DType::i64, 5), i});
  UOp store = make(Op::Store, DType::none, {place, reduce_over(Op::Mul, read, over)});
  UOp body = make(Op::Sink, DType::none, {make(Op::End, DType::none, {store, i})},
                  Arg::of(intern_arg({})));
  for (const auto& [list, for_each] : {std::pair("stage 1 0", true), {"stage 1 1 0", false}}) {
    UOp staged = apply_all(body, parse_actions(list));
    REQUIRE(staged);
    CHECK(runs_on(staged, target));
    CHECK(runs_on(staged, without) == !for_each);
  }
}

TEST_CASE("actions: no list is drawn that stages more memories than a kernel may have") {
  Arena arena;
  ArenaScope scope(arena);
  Target target;
  target.max_buffers = 4;
  UOp body = product();
  CHECK(!runs_on(apply_all(body, parse_actions("stage 1 2; stage 2 2")), target));
  for (uint64_t seed = 0; seed < 20; ++seed)
    CHECK(runs_on(apply_all(body, draw_actions(body, target, seed, 12)), target));
}
