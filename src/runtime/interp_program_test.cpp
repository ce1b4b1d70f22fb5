#include "runtime/interp_program.h"

#include <doctest/doctest.h>

#include <cstring>

#include "ir/graph.h"
#include "ir/print.h"

using namespace mote;

namespace {

void run(std::string_view text, std::vector<std::vector<float>*> arrays, int64_t begin = 0,
         int64_t end = 1, std::vector<int64_t> vars = {}) {
  Arena a;
  ArenaScope scope(a);
  const std::string names[] = {"n"};
  InterpProgram program(parse(text), "test", names);
  a.reset();
  std::vector<void*> buffers;
  for (auto* v : arrays) buffers.push_back(v->data());
  program.run(buffers, vars, begin, end);
}

// out[i] = sum over j of a[i * 4 + j], j in a loop of 2 and a tile of 2, i over a global range.
constexpr const char* row_sums = R"(
%0 = Param f32 [0 3 global 0]
%1 = Param f32 [1 12 global 0]
%2 = Range i32 3:i32 [0 global]
%3 = Reg f32 [0]
%4 = Store void %3 0:f32
%5 = Range i32 2:i32 [1 reduce]
%6 = Range i32 2:i32 [2 unroll]
%7 = Mul i32 %2 4:i32
%8 = Mul i32 %5 2:i32
%9 = Add i32 %7 %8
%10 = Add i32 %9 %6
%11 = Index f32 %1 %10
%12 = Load f32 %11
%13 = Reduce f32 %12 %6 [Add]
%14 = After f32 %3 %4
%15 = Load f32 %14
%16 = Add f32 %15 %13
%17 = Store void %3 %16
%18 = End void %17 %5
%19 = After f32 %3 %18
%20 = Load f32 %19
%21 = Index f32 %0 %2
%22 = Store void %21 %20
%23 = End void %22 %2
%24 = Linear void %2 %4 %5 %7 %8 %9 %10 %12 %13 %15 %16 %17 %18 %20 %22 %23
)";

}  // namespace

TEST_CASE("interp program: loops, registers, tiles") {
  std::vector<float> out(3), a{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  run(row_sums, {&out, &a}, 0, 3);
  CHECK(out == std::vector<float>{10, 26, 42});
}

TEST_CASE("interp program: a part of the global range") {
  std::vector<float> out(3), a{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  run(row_sums, {&out, &a}, 1, 2);
  CHECK(out == std::vector<float>{0, 26, 0});
}

TEST_CASE("interp program: a register per position of two tile ranges") {
  std::vector<float> out(6), a{1, 2}, b{10, 20, 30};
  run(R"(%0 = Param f32 [0 6 global 0]
         %1 = Param f32 [1 2 global 0]
         %2 = Param f32 [2 3 global 0]
         %3 = Range i32 2:i32 [0 upcast]
         %4 = Range i32 3:i32 [1 vector]
         %5 = Index f32 %1 %3
         %6 = Load f32 %5
         %7 = Index f32 %2 %4
         %8 = Load f32 %7
         %9 = Add f32 %8 %6
         %10 = Reg f32 %3 %4 [0]
         %11 = Store void %10 %9
         %12 = After f32 %10 %11
         %13 = Load f32 %12
         %14 = Mul i32 %3 3:i32
         %15 = Add i32 %14 %4
         %16 = Index f32 %0 %15
         %17 = Store void %16 %13
         %18 = Linear void %6 %8 %9 %11 %13 %14 %15 %17)",
      {&out, &a, &b});
  CHECK(out == std::vector<float>{11, 21, 31, 12, 22, 32});
}

TEST_CASE("interp program: a value is folded once for every position of a range it does not use") {
  std::vector<float> out(1), a{3};
  run(R"(%0 = Param f32 [0 1 global 0]
         %1 = Param f32 [1 1 global 0]
         %2 = Index f32 %1 0:i32
         %3 = Load f32 %2
         %4 = Range i32 4:i32 [0 vector]
         %5 = Reduce f32 %3 %4 [Add]
         %6 = Index f32 %0 0:i32
         %7 = Store void %6 %5
         %8 = Linear void %3 %5 %7)",
      {&out, &a});
  CHECK(out == std::vector<float>{12});
}

static constexpr const char* gated_copy = R"(
%0 = Param f32 [0 4 global 0]
%1 = Param f32 [1 2 global 0]
%2 = Var i32 [1 4 0 0] "n"
%3 = Range i32 %2 [0 loop]
%4 = Lt bool %3 2:i32
%5 = Index f32 %1 %3
%6 = Load f32 %5 %4
%7 = Index f32 %0 %3
%8 = Store void %7 %6 %4
%9 = End void %8 %3
%10 = Linear void %3 %4 %6 %8 %9)";

TEST_CASE("interp program: gates and variables") {
  std::vector<float> out{7, 7, 7, 7}, a{1, 2};
  run(gated_copy, {&out, &a}, 0, 1, {4});
  CHECK(out == std::vector<float>{1, 2, 7, 7});
  out = {7, 7, 7, 7};
  run(gated_copy, {&out, &a}, 0, 1, {1});
  CHECK(out == std::vector<float>{1, 7, 7, 7});
}

TEST_CASE("interp program: an access outside is an error") {
  std::vector<float> out(2);
  CHECK_THROWS_WITH_AS(run(R"(%0 = Param f32 [0 2 global 0]
             %1 = Range i32 3:i32 [0 loop]
             %2 = Index f32 %0 %1
             %3 = Store void %2 1:f32
             %4 = End void %3 %1
             %5 = Linear void %1 %3 %4)",
                           {&out}),
                       "internal error: kernel test, statement 1: writes element 2 of argument "
                       "0, which has 2",
                       Error);
}
