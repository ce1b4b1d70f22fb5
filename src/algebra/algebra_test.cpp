#include "algebra/algebra.h"

#include <doctest/doctest.h>

#include "ir/print.h"

using namespace mote;

TEST_SUITE_BEGIN("algebra");

namespace {

UOp loop(int slot, int64_t n) { return range(slot, index(n), Role::Loop); }
UOp variable(const char* name, int64_t lo, int64_t hi) {
  int64_t ints[] = {lo, hi, 0, 0};
  return make(Op::Var, DType::index, {}, Arg::of(intern_arg(ints, name)));
}

}  // namespace

#define SAME(a, b)                                                         \
  do {                                                                     \
    UOp left = simplify(a);                                                \
    UOp right = simplify(b);                                               \
    CHECK_MESSAGE(left == right, print(left), "\nwanted\n", print(right)); \
  } while (0)

TEST_CASE("sums are collected") {
  ArenaScope scope(arena());
  UOp a = loop(0, 5), b = loop(1, 7);
  SAME(a + b + a, a * 2 + b);
  SAME((a + b) * 3 - b * 3, a * 3);
  SAME(a * 4 - a * 4 + 9, index(9));
  SAME((a + 2) + (b + 3), a + b + 5);
}

TEST_CASE("a reshape there and back disappears") {
  UOp a = loop(0, 6), b = loop(1, 4), c = loop(2, 5);
  UOp flat = a * 20 + b * 5 + c;
  SAME(flat / 20, a);
  SAME(flat / 5 % 4, b);
  SAME(flat % 5, c);
  SAME(flat / 10, a * 2 + (b * 5 + c) / 10);
  UOp p = flat / 30, q = flat / 6 % 5, r = flat % 6;
  SAME(p * 30 + q * 6 + r, flat);
  UOp s = loop(3, 120);
  SAME(s / 30 * 30 + s / 6 % 5 * 6 + s % 6, s);
  SAME((s / 6 * 6 + s % 6) / 4 % 5, s / 4 % 5);
  SAME(s % 60 / 12, s / 12 % 5);
  SAME(s / 3 / 4, s / 12);
  SAME(s % 24 % 8, s % 8);
}

TEST_CASE("a flip counts down and back") {
  UOp a = loop(0, 16);
  UOp mirrored = a * -1 + 15;
  SAME(mirrored / 4, a / 4 * -1 + 3);
  SAME(mirrored % 4, a % 4 * -1 + 3);
  SAME((mirrored / 4 * -1 + 3) * 4 + (mirrored % 4 * -1 + 3), a);
}

TEST_CASE("a pooling window built by repeat and reshape becomes strided") {
  // Repeat a row of 10 three times, cut to 3*11, view as (3, 11): element (k, o) is x[k + o].
  UOp k = loop(0, 3), o = loop(1, 8);
  UOp flat = k * 11 + o;
  SAME(flat % 10, k + o);
  SAME(flat / 10, k);
}

TEST_CASE("comparisons put constants right and divide out") {
  UOp a = loop(0, 16), b = loop(1, 4), v = variable("v", -10, 10);
  SAME(lt(a + 3, index(5)), lt(a, index(2)));
  SAME(lt(a * 4 + b, index(8)), lt(a, index(2)));
  SAME(lt(a * 4 + b, index(9)), lt(a * 4 + b, index(9)));
  SAME(lt(a / 4, index(2)), lt(a, index(8)));
  SAME(lt(a * 4, a * 4 + 1), truth(true));
  SAME(lt(index(3), v), ge(v, index(4)));
  SAME(lt(a + b, index(19)), truth(true));
  SAME(eq(a * 4, index(6)), truth(false));
  SAME(eq(a * 4 + 2, index(6)), eq(a, index(1)));
}

TEST_CASE("gates meet outside and tell the index") {
  UOp a = loop(0, 12);
  UOp inner = gated(ge(a, index(2)) & lt(a, index(10)), a - index(2));
  SAME(inner + 1, gated(ge(a, index(2)) & lt(a, index(10)), a - index(1)));
  SAME(inner % 8, inner);
  SAME(inner / 8, gated(ge(a, index(2)) & lt(a, index(10)), index(0)));
  UOp outer = gated(lt(inner, index(20)), inner);
  SAME(outer, inner);
  SAME(gated(lt(a, index(3)) & ge(a, index(5)), a), invalid());
  UOp b = loop(1, 3);
  UOp window = gated(ge(a + b, index(1)) & lt(a + b, index(13)), (a + b - index(1)) % 12);
  SAME(window, gated(ge(a + b, index(1)) & lt(a + b, index(13)), a + b - index(1)));
  // A loop runs as far as it does, whatever is known where it is counted.
  UOp some = range(2, where(lt(a, index(3)), index(4), index(0)), Role::Reduce);
  SAME(gated(lt(a, index(3)), some % 3), gated(lt(a, index(3)), some % 3));
  CHECK(simplify(gated(lt(a, index(3)), some % 3))->src(1)->src(0) == some);
}

TEST_CASE("a padded window with stride and dilation reads one plain position") {
  // conv: 3 taps, stride 2, dilation 3, padding 2, over rows of 17, two images of 4 channels.
  UOp b = loop(0, 2), c = loop(1, 4), o = loop(2, 8), k = loop(3, 3);
  UOp p = o * 2 + k * 3 - index(2);
  UOp valid = ge(p, index(0)) & lt(p, index(17));
  UOp flat = (b * 4 + c) * 17 + p;
  UOp again = flat / 68 * 68 + flat / 17 % 4 * 17 + flat % 17;
  SAME(gated(valid, again), gated(valid, flat));
  SAME(gated(valid, flat % 17), gated(valid, p));
  SAME(gated(valid, flat / 17), gated(valid, b * 4 + c));
}

TEST_CASE("the gradient of a window reads a plain position") {
  // Rows of 8 repeated with one more column: row k of the view of width 11 starts k further on.
  UOp i = loop(0, 8), r = loop(1, 4);
  UOp flat = r * 10 + i + 1;
  UOp valid = lt(flat % 11, index(8)) & lt(flat, index(33));
  UOp t = i - r + 1;
  UOp wanted = ge(t, index(0)) & lt(t, index(8)) & lt(r, index(3));
  SAME(gated(valid, flat / 11 * 8 + flat % 11), gated(wanted, r * 8 + t));
  UOp c = loop(2, 5);
  UOp again = c * 24 + flat / 11 * 8 + flat % 11;
  SAME(gated(valid, again / 24), gated(wanted, c));
  SAME(gated(valid, again / 8 % 3), gated(wanted, r));
  SAME(gated(valid, again % 8), gated(wanted, t));
}

TEST_CASE("facts about two sums work together") {
  UOp a = loop(0, 8), b = loop(1, 8), r = loop(2, 3), q = loop(3, 3);
  UOp s = a - r + 1, t = b - q + 1;
  UOp valid = ge(s, index(0)) & lt(s, index(7)) & ge(t, index(0)) & lt(t, index(7));
  UOp flat = s * 2 + t / 2;
  SAME(gated(valid, flat / 16 * 5 + flat % 16), gated(valid, flat));
}

TEST_CASE("symbolic sizes divide and bound like numbers") {
  UOp v = variable("v", 1, 128), a = loop(0, 4);
  UOp r = range(1, v, Role::Loop);
  SAME((a * v + r) / v, a);
  SAME((a * v + r) % v, r);
  SAME(lt(r, v), truth(true));
  SAME(lt(r + 1, v + 1), truth(true));
  SAME(lt(r * 4 + a, v * 4), truth(true));
  SAME((r * 4 + a) / 4, r);
  SAME((r + v) % v, r);
}

TEST_CASE("strides, divisors and bounds") {
  UOp a = loop(0, 12), b = loop(1, 3);
  CHECK(stride_of(a * 6 + b + 1, a) == 6);
  CHECK(stride_of(a * 6 + b + 1, loop(5, 2)) == 0);
  CHECK(!stride_of(a / 6 + b, a));
  CHECK(divides(6, a * 6 + b * 12));
  CHECK(!divides(6, a * 6 + b * 3));
  CHECK(divides(6, binary(Op::Min, a * 6, index(12)) + 6));
  CHECK(!divides(6, binary(Op::Min, a * 6, index(13))));
  CHECK(bounds_given(a, lt(a, index(5))).hi == 4);
  CHECK(bounds_given(a + b, lt(a + b, index(5))).hi == 4);
}

namespace {

UOp sum(UOp value, std::initializer_list<UOp> ranges) {
  return reduce_over(Op::Add, value, std::vector<UOp>(ranges));
}
UOp read(UOp memory, UOp position) {
  return make(Op::Load, memory->dtype, {make(Op::Index, memory->dtype, {memory, position})});
}
bool loops(UOp u) {
  for (UOp n : toposort(u))
    if (n->is(Op::Reduce)) return true;
  return false;
}

}  // namespace

#define COLLAPSES(a, b)                                                    \
  do {                                                                     \
    UOp left = collapse_reduces(a);                                        \
    UOp right = simplify(b);                                               \
    CHECK_MESSAGE(left == right, print(left), "\nwanted\n", print(right)); \
  } while (0)

TEST_CASE("sums of masks are counts") {
  UOp i = loop(0, 10), r = range(1, index(10), Role::Reduce);
  UOp one = constant(DType::i32, 1), zero = constant(DType::i32, 0);
  // cumsum(ones) is an arange.
  COLLAPSES(sum(where(ge(i, r), one, zero), {r}), cast(i + 1, DType::i32));
  COLLAPSES(sum(cast(ge(i, r), DType::i32), {r}), cast(i + 1, DType::i32));
  COLLAPSES(sum(where(lt(r, index(4)), constant(DType::f32, 2), constant(DType::f32, 0)), {r}),
            constant(DType::f32, 8));
  UOp v = read(param(0, DType::f32, 10), i);
  COLLAPSES(sum(v, {r}), v * constant(DType::f32, 10));
  COLLAPSES(reduce_over(Op::Max, v, std::vector<UOp>{r}), v);
  COLLAPSES(sum(cast(r, DType::i32), {r}), constant(DType::i32, 45));
}

TEST_CASE("folding nothing gives the identity and reads no memory") {
  UOp none[] = {range(1, index(0), Role::Reduce)};
  UOp read = make(Op::Index, DType::f32, {param(0, DType::f32, 0), loop(0, 3)});
  CHECK(collapse_reduces(reduce_over(Op::Add, read, none)) == constant(DType::f32, 0));
  CHECK(collapse_reduces(reduce_over(Op::Max, read, none)) == fold_identity(Op::Max, DType::f32));
}

TEST_CASE("a one-hot sum reads one position") {
  UOp i = loop(0, 6), j = loop(1, 8), r = range(2, index(100), Role::Reduce);
  UOp ids = param(0, DType::i64, 6), table = param(1, DType::f32, 800);
  UOp id = read(ids, i);
  UOp zero = constant(DType::f32, 0);
  UOp e = cast(id, DType::index);
  UOp valid = ge(e, index(0)) & lt(e, index(100));
  UOp wanted = where(valid, read(table, gated(valid, e * 8 + j)), zero);
  UOp value = read(table, r * 8 + j);
  COLLAPSES(sum(where(eq(cast(r, DType::i64), id), value, zero), {r}), wanted);
  COLLAPSES(sum(where(eq(r, cast(id, DType::index)), value, zero), {r}), wanted);
  UOp wrapped = where(lt(id, constant(DType::i64, 0)), id + 100, id);
  CHECK(!loops(collapse_reduces(sum(where(eq(cast(r, DType::i64), wrapped), value, zero), {r}))));
  // The same with the range split in two.
  UOp hi = range(3, index(25), Role::Reduce), lo = range(4, index(4), Role::Reduce);
  UOp split = where(eq(hi * 4 + lo, e), read(table, (hi * 4 + lo) * 8 + j), zero);
  COLLAPSES(sum(split, {hi, lo}), wanted);
}

TEST_SUITE_END();
