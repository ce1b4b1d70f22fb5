#include "ir/spec.h"

#include <doctest/doctest.h>

#include "ir/graph.h"
#include "ir/print.h"

using namespace mote;

static std::string broken(std::string_view text, Stage stage) {
  Arena a;
  ArenaScope scope(a);
  try {
    verify(parse(text), stage, "a pass");
  } catch (const Error& e) {
    std::string what = e.what();
    size_t begin = what.find("stage: ") + 7;
    return what.substr(begin, what.find(';') - begin);
  }
  return "";
}

TEST_CASE("spec: a legal kernel") {
  CHECK(broken(R"(%0 = Param f32 [0 4 global 0]
                  %1 = Range index 4 [0 loop]
                  %2 = Index f32 %0 %1
                  %3 = Param f32 [1 12 global 0]
                  %4 = Range index 3 [1 reduce]
                  %5 = Mul index %1 3
                  %6 = Add index %5 %4
                  %7 = Index f32 %3 %6
                  %9 = Reduce f32 %7 %4 [Add]
                  %10 = Store void %2 %9
                  %11 = End void %10 %1
                  %12 = Sink void %11 "sums")",
               Stage::Kernel) == "");
}

TEST_CASE("spec: the error names pass and rule and prints the node") {
  Arena a;
  ArenaScope scope(a);
  CHECK_THROWS_WITH_AS(verify(parse("%0 = Add f32 1:f32 1:i32"), Stage::Tensor, "fuse"),
                       "internal error: after fuse, in the tensor stage: sources of an "
                       "elementwise op have its dtype; broken by the last line of\n"
                       "%0 = Add f32 1:f32 1:i32\n",
                       Error);
}

TEST_CASE("spec: what a tensor graph may not hold") {
  const char* array = "%0 = Param f32 [0 6 global 0]\n%1 = Reshape f32 %0 [2 3]\n";
  struct {
    const char* line;
    const char* rule;
  } cases[] = {
      // clang-format off
      {"%2 = Reshape f32 %1 [2 2]", "Reshape keeps the number of elements"},
      {"%2 = Permute f32 %1 [0 0]", "Permute lists every axis once"},
      {"%2 = Expand f32 %1 [2 6]", "Expand repeats axes of size 1, or a scalar"},
      {"%2 = Pad f32 %1 [0 0 -1 0]", "Pad adds nothing negative"},
      {"%2 = Shrink f32 %1 [0 2 0 4]", "Shrink stays inside"},
      {"%2 = Flip i32 %1 [0]", "movement keeps the dtype of an array"},
      {"%2 = Reduce f32 %1 [Div 0]", "Reduce folds values of its dtype with an associative op"},
      {"%2 = Where f32 %1 %1 %1", "Where chooses by a bool"},
      {"%2 = Lt f32 %1 %1", "sources of an elementwise op have its dtype"},
      {"%2 = Sqrt i32 1:i32", "an op of floats takes floats"},
      {"%2 = And f32 %1 %1", "an op of integers takes integers or bools"},
      {"%2 = Bitcast f64 %1", "Bitcast keeps the size of an element"},
      {"%2 = Threefry u32 1:u32 1:u32", "an op of u64 takes and gives it"},
      {"%2 = Load f32 %1", "this op does not belong here"},
      {"%2 = Store void %1 1:i32",
       "Store writes a value of the same dtype and shape to a view of a buffer's version"},
      {"%2 = Neg f32 %1\n%3 = Store void %2 %1",
       "Store writes a value of the same dtype and shape to a view of a buffer's version"},
      {"%2 = Neg f32 %1\n%3 = After f32 %0 %2", "After follows a buffer's version by Stores"},
  };
  // clang-format on
  for (const auto& c : cases) {
    INFO(c.line);
    CHECK(broken(std::string(array) + c.line, Stage::Tensor) == c.rule);
  }
}

TEST_CASE("spec: what a kernel may not hold") {
  const char* head = R"(%0 = Param f32 [0 4 global 0]
                        %1 = Range index 4 [0 loop]
                        %2 = Index f32 %0 %1
)";
  struct {
    const char* lines;
    const char* rule;
  } cases[] = {
      // clang-format off
      {"%3 = Store void %2 1:f32", "this op is no root"},
      {"%3 = Store void %2 1:f32\n%4 = Sink void %3",
       "a kernel is a Sink of effects with no range left open"},
      {"%3 = Load f32 %2\n%4 = Sink void %3", "this op does not belong here"},
      {"%3 = Store void %2 1:i32\n%4 = Sink void %3",
       "Store writes a value to a place of its dtype"},
      {"%3 = Store void %2 1:f32\n%4 = End void %3 1\n%5 = Sink void %4",
       "End closes the ranges of a Store or a Fetch"},
      {"%3 = Fetch void %0\n%4 = Sink void %3", "Fetch names a place"},
      {"%3 = Reshape f32 %0 [2 2]\n%4 = Sink void %3", "this op does not belong here"},
      {"%3 = Index f32 %0 1.0:f32\n%4 = Sink void %3",
       "Index finds a place of a memory (or what is there) by an index"},
      {"%3 = Reduce f32 1:f32 [Add]\n%4 = Sink void %3", "a kernel's Reduce runs over ranges"},
      {"%3 = Range index 5 [0 loop]\n%4 = Index f32 %0 %3\n%5 = Sink void %2 %4",
       "two ranges of one kernel share a slot"},
  };
  // clang-format on
  for (const auto& c : cases) {
    INFO(c.lines);
    CHECK(broken(std::string(head) + c.lines, Stage::Kernel) == c.rule);
  }
}

TEST_CASE("spec: a value depends on one Vector range") {
  const std::string head = R"(%0 = Param f32 [0 8 global 0]
                              %1 = Range i32 2:i32 [0 vector]
                              %2 = Range i32 4:i32 [1 vector]
                              %3 = Index f32 %0 %1
                              %4 = Store void %3 1:f32
                              %5 = Index f32 %0 %2
                              %6 = Store void %5 1:f32
)";
  CHECK(broken(head + "%7 = Linear void %4 %6", Stage::Program) == "");
  CHECK(broken(head + "%7 = Mul i32 %1 %2\n%8 = Linear void %7", Stage::Program) ==
        "no value depends on two Vector ranges");
}

TEST_CASE("spec: a program") {
  const std::string head = R"(%0 = Param f32 [0 4 global 0]
                              %1 = Range i32 4:i32 [0 loop]
                              %2 = Index f32 %0 %1
                              %3 = Load f32 %2
                              %4 = Neg f32 %3
                              %5 = Store void %2 %4
                              %6 = End void %5 %1
)";
  const char* disorder = "statements come once, after what they use, in nested loops";
  CHECK(broken(head + "%7 = Linear void %1 %3 %4 %5 %6", Stage::Program) == "");
  CHECK(broken(head + "%7 = Linear void %1 %4 %3 %5 %6", Stage::Program) == disorder);
  CHECK(broken(head + "%7 = Linear void %1 %3 %4 %5", Stage::Program) == disorder);
  CHECK(broken(head + "%7 = Linear void %1 %2 %3 %4 %5 %6", Stage::Program) == disorder);
  CHECK(broken("%0 = Range index 4 [0 loop]\n%1 = Linear void %0", Stage::Program) ==
        "no index is left");
  CHECK(broken("%0 = FloorDiv i32 4:i32 2:i32\n%1 = Linear void %0", Stage::Program) ==
        "this op does not belong here");
}

TEST_CASE("spec: a Check looks at integers") {
  const std::string memory = "%0 = Param f32 [0 4 global 0]\n%1 = Param i64 [1 4 global 0]\n";
  CHECK(broken(memory + "%3 = Check f32 %0 %1 6 [0]\n", Stage::Tensor) == "");
  CHECK(broken(memory + "%3 = Check f32 %0 %0 6 [0]\n", Stage::Tensor) ==
        "Check looks at integers and compares them with a number");
  CHECK(broken(memory + "%3 = Check i64 %0 %1 6 [0]\n", Stage::Tensor) ==
        "a moved value keeps its dtype");
}
