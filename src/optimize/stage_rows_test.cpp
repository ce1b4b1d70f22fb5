// Rows that a kernel stages: several at once, and ending where a mask hides the rest.
#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/print.h"
#include "ir/spec.h"
#include "lower/lower.h"
#include "optimize/optimize.h"
#include "optimize/small_kernels_test.h"
#include "runtime/interp_program.h"

using namespace mote;

namespace {

// out[q] = a fold over k of a term of rows a[q, k] that are staged, `hidden` where q < k.
std::string masked_rows(const char* hidden, const char* term, const char* fold) {
  return text(R"(%0 = Param f32 [0 6 global 0]
%1 = Range index 6 [0 loop]
%2 = Index f32 %0 %1
%3 = Range index 6 [1 loop]
%4 = Lt bool %1 %3
%5 = Param f32 [1 36 global 0]
%6 = Mul index %1 6
%7 = Add index %3 %6
%8 = Index f32 %5 %7
%9 = Where f32 %4 )",
              hidden, R"( %8
%10 = Stage f32 %9 %3 %3 [local 6]
%11 = Range index 6 [2 reduce]
%12 = Index f32 %10 %11
%13 = Param f32 [2 6 global 0]
%14 = Index f32 %13 %11
)",
              term, "\n", fold, R"(
%31 = Cast f32 %30
%32 = Store void %2 %31
%33 = End void %32 %1
%34 = Sink void %33
)");
}

int loops_that_depend(UOp body) {
  int n = 0;
  for (UOp u : toposort(body)) n += u->is(Op::Range) && u->src(0)->ranges;
  return n;
}

}  // namespace

TEST_SUITE("actions") {
  TEST_CASE("several rows and bounds keep what a kernel of staged rows computes") {
    Arena arena;
    ArenaScope scope(arena);
    const std::vector<double> want = run_small(parse(attention));
    const char* lists[] = {
        "stage_rows 1 3",
        "stage_rows 1 4",
        "stage_rows 1 8",
        "bound 1",
        "bound 1; stage_rows 1 2",
        "bound 1; stage_rows 1 4",
        "bound 1; stage_rows 1 6; split 2 4 vector",
        "stage_rows 0 2",
        "divide 3",
        "divide 3; bound 1; stage_rows 1 3",
        "bound 1; divide 3; stage_rows 1 4",
        "stage_rows 1 2; split 2 2 vector; split 10 2 upcast; global 0",
        "split 1 2 loop; stage_rows 9 2",
        "bound 1; split 1 3 loop",
    };
    for (const char* list : lists) {
      CAPTURE(std::string(list));
      UOp body = parse(attention);
      for (const Action& a : parse_actions(list)) {
        std::string refused;
        UOp next = apply(body, a, &refused);
        CAPTURE(refused);
        REQUIRE(next);
        body = next;
        verify(body, Stage::Kernel, "an action");
      }
      const std::vector<double> got = run_small(body);
      for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]));
    }
  }

  TEST_CASE(
      "a bound ends all loops over rows, and several at once makes them as long as the longest") {
    Arena arena;
    ArenaScope scope(arena);
    UOp bounded = apply(parse(attention), parse_actions("bound 1")[0]);
    REQUIRE(bounded);
    CHECK(loops_that_depend(bounded) == 5);
    for (UOp u : toposort(bounded)) CHECK(!u->is(Op::Where));
    UOp several = apply(bounded, parse_actions("stage_rows 1 2")[0]);
    REQUIRE(several);
    CHECK(loops_that_depend(several) == 0);  // whole steps of 64 are all there is
  }

  TEST_CASE("a bound hides what a mask hides and nothing else") {
    struct Fold {
      const char *hidden, *term, *fold;
      bool bounded;
    };
    const char *sum = "%30 = Reduce f32 %20 %11 [Add]", *most = "%30 = Reduce f32 %20 %11 [Max]";
    const Fold folds[] = {
        {"0.0:f32", "%20 = Cast f32 %12", sum, true},
        {"-inf:f32", "%20 = Exp f32 %12", sum, true},
        {"-inf:f32", "%20 = Add f32 %12 %14", most, true},
        {"-inf:f32", "%15 = Exp f32 %12\n%20 = Mul f32 %15 %14", sum, true},
        // 0 times infinity is NaN, and so is 0 by 0.
        {"0.0:f32", "%20 = Mul f32 %12 %14", sum, false},
        {"0.0:f32", "%20 = Div f32 %12 %14", sum, false},
        // -inf is true, which is not the least.
        {"-inf:f32", "%20 = Cast bool %12", "%30 = Reduce bool %20 %11 [Max]", false},
    };
    for (const Fold& f : folds) {
      Arena arena;
      ArenaScope scope(arena);
      CAPTURE(std::string(f.term));
      UOp body = parse(masked_rows(f.hidden, f.term, f.fold));
      verify(body, Stage::Kernel, "the test");
      std::string refused;
      CHECK(static_cast<bool>(apply(body, parse_actions("bound 0")[0], &refused)) == f.bounded);
      if (!f.bounded) CHECK(refused == "no mask hides the end of rows");
    }
  }

  TEST_CASE("what cannot be staged for several rows is refused with a reason") {
    Arena arena;
    ArenaScope scope(arena);
    UOp body = parse(attention);
    auto reason = [&](const char* list) {
      std::string refused;
      CHECK(!apply(body, parse_actions(list)[0], &refused));
      return refused;
    };
    CHECK(reason("split 1 2 upcast") == "something is staged for each position of a tile");
    CHECK(reason("stage_rows 2 2") == "nothing is staged in this loop");
    CHECK(reason("stage_rows 4 2") == "not an output loop");
    CHECK(reason("bound 2") == "no mask hides the end of rows");
    CHECK(reason("bound 4") == "not an output loop");
    CHECK(reason("divide 5") == "no sum of products with a row divided by its sum");
    CHECK(reason("divide 4") == "no sum of products with a row divided by its sum");
    CHECK(reason("accumulate 7") == "something is staged over a loop that accumulates");
    CHECK(reason("skip 7") == "something is staged over it");
  }
}
