// Rows that a kernel keeps: several at once, and ending where a mask hides the rest.
#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/print.h"
#include "ir/spec.h"
#include "lower/lower.h"
#include "optimize/optimize.h"
#include "runtime/interp_program.h"

using namespace mote;

namespace {

// out[h, q, d] = sum over k of softmax over k <= q of (sum over c of a[h, q, c] * b[h, k, c]) times
// v[h, k, d]: 2 heads, 6 rows, 4 and 5 features. Scores, exponentials and weights are kept by row.
const char* attention = R"(%0 = Param f32 [0 60 global 0]
%1 = Range index 5 [2 loop]
%2 = Range index 2 [0 loop]
%3 = Mul index %2 30
%4 = Range index 6 [1 loop]
%5 = Mul index %4 5
%6 = Add index %3 %5
%7 = Add index %1 %6
%8 = Index f32 %0 %7
%9 = Range index 6 [7 reduce]
%10 = Lt bool %4 %9
%11 = Param f32 [3 48 global 0]
%12 = Range index 4 [5 reduce]
%13 = Mul index %2 24
%14 = Mul index %4 4
%15 = Add index %13 %14
%16 = Add index %12 %15
%17 = Index f32 %11 %16
%18 = Param f32 [2 48 global 0]
%19 = Range index 6 [6 loop]
%20 = Mul index %19 4
%21 = Add index %13 %20
%22 = Add index %12 %21
%23 = Index f32 %18 %22
%24 = Mul f32 %17 %23
%25 = Reduce f32 %24 %12 [Add]
%26 = Stage f32 %25 %19 %19 [local 6]
%27 = Index f32 %26 %9
%28 = Mul f32 %27 0.5:f32
%29 = Where f32 %10 -inf:f32 %28
%30 = Range index 6 [4 reduce]
%31 = Lt bool %4 %30
%32 = Index f32 %26 %30
%33 = Mul f32 %32 0.5:f32
%34 = Where f32 %31 -inf:f32 %33
%35 = Reduce f32 %34 %30 [Max]
%36 = Neg f32 %35
%37 = Add f32 %29 %36
%38 = Exp f32 %37
%39 = Stage f32 %38 %9 %9 [local 6]
%40 = Range index 6 [8 loop]
%41 = Index f32 %39 %40
%42 = Reduce f32 %38 %9 [Add]
%43 = Div f32 %41 %42
%44 = Stage f32 %43 %40 %40 [local 6]
%45 = Range index 6 [3 reduce]
%46 = Index f32 %44 %45
%47 = Param f32 [1 60 global 0]
%48 = Add index %3 %1
%49 = Mul index %45 5
%50 = Add index %48 %49
%51 = Index f32 %47 %50
%52 = Mul f32 %46 %51
%53 = Reduce f32 %52 %45 [Add]
%54 = Store void %8 %53
%55 = End void %54 %2 %4 %1
%56 = Sink void %55
)";

// out[q] = a fold over k of a term of rows a[q, k] that are kept, `hidden` where q < k.
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

std::vector<float> run(UOp body) {
  Program p = lower(body, Target{});
  verify(p.linear, Stage::Program, "lower");
  std::vector<float> out(60, -1), v(60), b(48), a(48);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 7 % 23) / 8 - 1;
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 5 % 19) / 8 - 1;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 11 % 17) / 8 - 1;
  void* buffers[] = {out.data(), v.data(), b.data(), a.data()};
  InterpProgram(p.linear, p.name, {}).run(buffers, {}, 0, p.thread_extent);
  return out;
}

int loops_that_depend(UOp body) {
  int n = 0;
  for (UOp u : toposort(body)) n += u->is(Op::Range) && u->src(0)->ranges;
  return n;
}

}  // namespace

TEST_SUITE("actions") {
  TEST_CASE("strips and bounds keep what a kernel of kept rows computes") {
    Arena arena;
    ArenaScope scope(arena);
    const std::vector<float> want = run(parse(attention));
    const char* lists[] = {
        "strip 1 3", "strip 1 4", "strip 1 8", "bound 1", "bound 1; strip 1 2",
        "bound 1; strip 1 4", "bound 1; strip 1 6; split 2 4 lane", "strip 0 2", "divide 3",
        "divide 3; bound 1; strip 1 3", "bound 1; divide 3; strip 1 4",
        "strip 1 2; split 2 2 lane; split 10 2 upcast; thread 0",
        "split 1 2 loop; strip 9 2", "bound 1; split 1 3 loop",
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
      const std::vector<float> got = run(body);
      for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]));
    }
  }

  TEST_CASE("a bound ends all loops over rows, and a strip makes them as long as the longest") {
    Arena arena;
    ArenaScope scope(arena);
    UOp bounded = apply(parse(attention), parse_actions("bound 1")[0]);
    REQUIRE(bounded);
    CHECK(loops_that_depend(bounded) == 5);
    for (UOp u : toposort(bounded)) CHECK(!u->is(Op::Where));
    UOp strip = apply(bounded, parse_actions("strip 1 2")[0]);
    REQUIRE(strip);
    CHECK(loops_that_depend(strip) == 0);  // whole steps of 64 are all there is
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

  TEST_CASE("what cannot be kept for several rows is refused with a reason") {
    Arena arena;
    ArenaScope scope(arena);
    UOp body = parse(attention);
    auto reason = [&](const char* list) {
      std::string refused;
      CHECK(!apply(body, parse_actions(list)[0], &refused));
      return refused;
    };
    CHECK(reason("split 1 2 upcast") == "something is kept for each of its positions");
    CHECK(reason("strip 2 2") == "nothing is kept in this loop");
    CHECK(reason("strip 4 2") == "not an output loop");
    CHECK(reason("bound 2") == "no mask hides the end of rows");
    CHECK(reason("bound 4") == "not an output loop");
    CHECK(reason("divide 5") == "no factor is a row divided by its sum");
    CHECK(reason("divide 4") == "no sum of products runs over it alone");
    CHECK(reason("block 7") == "something is kept over it");
    CHECK(reason("skip 7") == "something is kept over it");
  }
}
