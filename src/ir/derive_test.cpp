#include <doctest/doctest.h>

#include <algorithm>

#include "ir/build.h"
#include "ir/eval.h"

using namespace mote;

namespace {

UOp variable(const char* name, int64_t lo, int64_t hi) {
  int64_t ints[] = {lo, hi, 0, 0};
  return make(Op::Var, DType::i32, {}, Arg::of(intern_arg(ints, name)));
}

struct Interval {
  int64_t lo, hi;
  bool operator==(const Interval&) const = default;
};

// What the op really gives on all values of the intervals.
Interval all_values(Op op, Interval a, Interval b) {
  Interval found{INT64_MAX, INT64_MIN};
  for (int64_t x = a.lo; x <= a.hi; ++x)
    for (int64_t y = b.lo; y <= b.hi; ++y) {
      Scalar args[] = {scalar(DType::i32, x), scalar(DType::i32, y)};
      const int64_t v = eval(op, DType::i32, args).i;
      found = {std::min(found.lo, v), std::max(found.hi, v)};
    }
  return found;
}

}  // namespace

TEST_CASE("derive: intervals of shifts and divisions hold all values, and no more") {
  Arena arena;
  ArenaScope scope(arena);
  for (Op op : {Op::Shl, Op::Shr, Op::IDiv})
    for (Interval a : {Interval{-9, -2}, {-9, 7}, {0, 7}, {-3, 0}, {3, 8}})
      for (Interval b : {Interval{1, 1}, {3, 3}, {1, 4}}) {
        UOp u = binary(op, variable("a", a.lo, a.hi), variable("b", b.lo, b.hi));
        CAPTURE(name(op));
        CAPTURE(a.lo);
        CAPTURE(b.hi);
        CHECK(Interval{u->lo, u->hi} == all_values(op, a, b));
      }
}

TEST_CASE("derive: a remainder is as far from 0 as divisor and dividend allow") {
  Arena arena;
  ArenaScope scope(arena);
  auto remainder = [](Interval a, Interval b) {
    UOp u = binary(Op::IMod, variable("a", a.lo, a.hi), variable("b", b.lo, b.hi));
    return Interval{u->lo, u->hi};
  };
  CHECK(remainder({-1, 40}, {5, 5}) == Interval{-1, 4});
  CHECK(remainder({-9, -2}, {5, 7}) == Interval{-6, 0});
  CHECK(remainder({-2, 3}, {5, 5}) == Interval{-2, 3});
  CHECK(remainder({0, 9}, {2, 3}) == Interval{0, 2});
}

TEST_CASE("derive: a mask that is not negative bounds what it masks") {
  Arena arena;
  ArenaScope scope(arena);
  UOp u = variable("a", -9, 7) & constant(DType::i32, 3);
  CHECK(Interval{u->lo, u->hi} == Interval{0, 3});
}

TEST_CASE("derive: a clamped i64 is between its bounds") {
  Arena arena;
  ArenaScope scope(arena);
  int64_t list[] = {0, 8, 0};
  UOp x = make(Op::Param, DType::i64, {}, Arg::of(intern_arg(list)));
  auto number = [](int64_t v) { return make(Op::Const, DType::i64, {}, Arg::of(v)); };
  UOp above = binary(Op::Max, x, number(-2)), both = binary(Op::Min, above, number(5));
  CHECK(Interval{above->lo, above->hi} == Interval{-2, INT64_MAX});
  CHECK(Interval{both->lo, both->hi} == Interval{-2, 5});
}
