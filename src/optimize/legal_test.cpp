// Lists of actions that are legal one by one: what one of them relies on, the next must not undo.
#include <doctest/doctest.h>

#include "algebra/algebra.h"
#include "ir/print.h"
#include "ir/spec.h"
#include "lower/lower.h"
#include "optimize/optimize.h"
#include "runtime/interp_program.h"

using namespace mote;

namespace {

UOp at(UOp memory, UOp position) { return make(Op::Index, memory->dtype, {memory, position}); }

UOp kernel(UOp place, UOp value, std::initializer_list<UOp> loops) {
  std::vector<UOp> end{make(Op::Store, DType::none, {place, value})};
  end.insert(end.end(), loops);
  return make(Op::Sink, DType::none, {make(Op::End, DType::none, end)}, Arg::of(intern_arg({})));
}

// out[x] = sum over t and o of a[x - t] * w[o, t] where x - t is in a.
UOp window() {
  UOp out = param(0, DType::i32, 8), a = param(1, DType::i32, 8), w = param(2, DType::i32, 12);
  UOp x = range(0, index(8), Role::Loop), t = range(1, index(3), Role::Reduce),
      o = range(2, index(4), Role::Reduce);
  UOp inside = logical_not(lt(x, t)), over[] = {t, o};
  UOp product = at(a, gated(inside, x - t)) * at(w, o * 3 + t);
  UOp value = where(inside, product, constant(DType::i32, 0));
  return kernel(at(out, x), reduce_over(Op::Add, value, over), {x});
}

// The sum of 54 elements.
UOp sum_of_all() {
  UOp k = range(0, index(3), Role::Reduce), j = range(1, index(9), Role::Reduce),
      i = range(2, index(2), Role::Reduce), over[] = {k, j, i};
  UOp value = reduce_over(Op::Add, at(param(1, DType::i32, 54), i * 27 + j * 3 + k), over);
  return kernel(at(param(0, DType::i32, 1), index(0)), value, {});
}

// The product of five ones, which depends on none of its loops.
UOp product_of_ones() {
  UOp k = range(0, index(5), Role::Reduce);
  UOp src[] = {constant(DType::i32, 1), k};
  int64_t op[] = {static_cast<int64_t>(Op::Mul)};
  UOp value = make(Op::Reduce, DType::i32, src, Arg::of(intern_arg(op)));
  return kernel(at(param(0, DType::i32, 1), index(0)), value, {});
}

// The first position of a row's largest element, of rows whose elements are all the same.
UOp first_of_equal() {
  return parse(R"(%0 = Param i32 [0 8 global 0]
%1 = Range index 8 [0 loop]
%2 = Index i32 %0 %1
%3 = Param i32 [1 8 global 0]
%4 = Index i32 %3 %1
%5 = Range index 4 [1 reduce]
%6 = Stage i32 %4 %5 %5 [local 4]
%7 = Range index 4 [2 reduce]
%8 = Index i32 %6 %7
%9 = Eq bool %8 %4
%10 = Cast i32 %7
%11 = Where i32 %9 %10 4:i32
%12 = Reduce i32 %11 %7 [Min]
%13 = Store void %2 %12
%14 = End void %13 %1
%15 = Sink void %14
)");
}

// out[x] = the sum over o of w[o] where the sum of a[x, :] is positive.
UOp gated_by_a_sum() {
  UOp x = range(0, index(8), Role::Loop), k = range(1, index(3), Role::Reduce),
      o = range(2, index(4), Role::Reduce), over_k[] = {k}, over_o[] = {o};
  UOp sum = reduce_over(Op::Add, at(param(1, DType::i32, 24), x * 3 + k), over_k);
  UOp value = where(lt(constant(DType::i32, 0), sum), at(param(2, DType::i32, 4), o),
                    constant(DType::i32, 0));
  return kernel(at(param(0, DType::i32, 8), x), reduce_over(Op::Add, value, over_o), {x});
}

// Every access is checked.
std::vector<int32_t> run(UOp body) {
  const Program p = lower(body, Target{});
  verify(p.linear, Stage::Program, "lower");
  std::vector<int32_t> out(8, -1), a(54), b(54);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<int32_t>(i * 7 % 23) - 9;
    b[i] = static_cast<int32_t>(i * 5 % 19) - 4;
  }
  void* buffers[] = {out.data(), a.data(), b.data()};
  InterpProgram(p.linear, p.name, {}).run(buffers, {}, 0, p.thread_extent);
  return out;
}

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
    {window, "skip 2; split 1 2 reduce", "the extent of a loop depends on it"},
    {window, "skip 2; merge 1 2", "its extent depends on other loops"},
    {sum_of_all, "stage 1 2+0; split 3 28 loop; split 1 4 reduce; merge 1 5; skip 2"},
    {sum_of_all,
     "stage 1 2+0; stage 1 3; stage 1 4; split 4 28 upcast; split 1 4 reduce; merge 1 7; skip 2"},
    {product_of_ones, "split 0 2 lane; split 0 2 lane", "some value has lanes already"},
    {first_of_equal, "strip 0 8"},
    {first_of_equal, "strip 0 4; split 0 2 loop"},
    {gated_by_a_sum, "skip 2", "the gate is a result of folds"},
};

}  // namespace

TEST_CASE("actions: lists of them keep every read inside its memory and every value") {
  for (const Case& c : cases) {
    Arena arena;
    ArenaScope scope(arena);
    UOp body = c.body();
    const std::vector<int32_t> want = run(body);
    CAPTURE(std::string(c.list));
    std::string refused;
    for (const Action& a : parse_actions(c.list)) {
      REQUIRE(refused.empty());
      if (UOp next = apply(body, a, &refused)) body = next;
      verify(body, Stage::Kernel, "an action");
    }
    CHECK(refused == c.refused);
    CHECK(run(body) == want);
  }
}
