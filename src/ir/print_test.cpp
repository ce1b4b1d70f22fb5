#include "ir/print.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "ir/build.h"

using namespace mote;

static std::string error_of(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& e) { return e.what(); }
  return "no error";
}

static void round_trip(UOp root) {
  std::string text = print(root);
  INFO(text);
  CHECK(parse(text) == root);
  CHECK(print(parse(text)) == text);
}

TEST_CASE("print: a kernel") {
  Arena a;
  ArenaScope scope(a);
  UOp out = param(0, DType::f32, 16), in = param(1, DType::f32, 16);
  UOp i = range(0, index(16), Role::Loop);
  UOp value = make(Op::Load, DType::f32, {make(Op::Index, DType::f32, {in, i})});
  UOp place = make(Op::Index, DType::f32, {out, i});
  UOp store = make(Op::Store, DType::none, {place, value * constant(DType::f32, 0.1)});
  UOp end = make(Op::End, DType::none, {store, i});
  UOp root = make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({}, "scale")));
  CHECK(print(root) ==
        "%0 = Param f32 [0 16 global 0]\n"
        "%1 = Range index 16 [0 loop]\n"
        "%2 = Index f32 %0 %1\n"
        "%3 = Param f32 [1 16 global 0]\n"
        "%4 = Index f32 %3 %1\n"
        "%5 = Load f32 %4\n"
        "%6 = Mul f32 %5 0.10000000149011612:f32\n"
        "%7 = Store void %2 %6\n"
        "%8 = End void %7 %1\n"
        "%9 = Sink void %8 \"scale\"\n");
  round_trip(root);
}

TEST_CASE("print: every literal reads back") {
  Arena a;
  ArenaScope scope(a);
  const double nan = std::bit_cast<double>(0x7ff800000000beefull);
  const double values[] = {0.0,     -0.0,      1.0, -2.5, 0x1p-149, 0x1.fffffep127, 1e300,
                           1.0 / 3, -INFINITY, NAN, -NAN, nan,      0x1p-1074};
  for (double v : values)
    for (DType d : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2})
      round_trip(constant(d, v));
  for (int64_t v : {int64_t{0}, int64_t{1}, int64_t{-1}, INT64_MAX, INT64_MIN})
    for (DType d : {DType::boolean, DType::u8, DType::i8, DType::u64, DType::i64, DType::index})
      round_trip(constant(d, v));
  CHECK(print(constant(DType::u64, -1)) == "%0 = 18446744073709551615:u64\n");
  CHECK(print(constant(DType::f32, -0.0)) == "%0 = -0:f32\n");
  CHECK(print(truth(true)) == "%0 = true\n");
  round_trip(invalid());
}

TEST_CASE("print: movement with symbolic sizes") {
  Arena a;
  ArenaScope scope(a);
  int64_t bounds[] = {1, 8, 0, 0};
  UOp n = make(Op::Var, DType::index, {}, Arg::of(intern_arg(bounds, "n")));
  int64_t length[] = {kSymbolic};
  UOp iota = make(Op::Iota, DType::index, {n}, Arg::of(intern_arg(length)));
  int64_t shape[] = {1, kSymbolic};
  UOp row = make(Op::Reshape, DType::index, {iota, n}, Arg::of(intern_arg(shape)));
  int64_t wide[] = {4, kSymbolic};
  UOp grid = make(Op::Expand, DType::index, {row, n}, Arg::of(intern_arg(wide)));
  int64_t sum[] = {static_cast<int64_t>(Op::Add), 0};
  UOp root = make(Op::Reduce, DType::index, {grid}, Arg::of(intern_arg(sum)));
  CHECK(print(root) ==
        "%0 = Var index [1 8 0 0] \"n\"\n"
        "%1 = Iota index [%0]  # (n)\n"
        "%2 = Reshape index %1 [1 %0]  # (1, n)\n"
        "%3 = Expand index %2 [4 %0]  # (4, n)\n"
        "%4 = Reduce index %3 [Add 0]  # (1, n)\n");
  round_trip(root);
}

TEST_CASE("print: a source that is a literal stays a source") {
  Arena a;
  ArenaScope scope(a);
  round_trip(parse("%0 = 1.5:f32\n%1 = Expand f32 %0 [2 ?3]"));
  round_trip(parse("%0 = 1.5:f32\n%1 = Reshape f32 %0 []"));
  round_trip(parse("%0 = Sink void \"a \\\"quoted\\\" name\\nand # more\""));
  round_trip(parse("%0 = Copy f32 1:f32 [3]"));
}

TEST_CASE("print: a chain of a hundred thousand nodes") {
  Arena a;
  ArenaScope scope(a);
  UOp x = param(0, DType::f32, 1);
  for (int i = 0; i < 100000; ++i) x = x + x;
  round_trip(x);
}

TEST_CASE("parse: errors name the line") {
  Arena a;
  ArenaScope scope(a);
  CHECK(error_of("") == "[parse] line 0: no node");
  CHECK(error_of("%0 = 1\n%1 = Add index %0 %2") == "[parse] line 2: %2 is not defined above");
  CHECK(error_of("%0 = 1\n%0 = 2") == "[parse] line 2: %0 is defined twice");
  CHECK(error_of("%0 = Add index 1") == "[parse] line 1: Add takes 2 sources, got 1");
  CHECK(error_of("%0 = Add float 1 2") == "[parse] line 1: 'float' is not a dtype");
  CHECK(error_of("%0 = Frob f32") == "[parse] line 1: 'Frob' is neither an op nor a literal");
  CHECK(error_of("%0 = 300:u8") == "[parse] line 1: '300:u8' is neither an op nor a literal");
  CHECK(error_of("%0 = 3:u9") == "[parse] line 1: '3:u9' has no known dtype");
  CHECK(error_of("x = 1") == "[parse] line 1: 'x' is not a %number");
  CHECK(error_of("%0 1") == "[parse] line 1: '=' is missing");
  CHECK(error_of("%0 =") == "[parse] line 1: the line ends too early");
  CHECK(error_of("%0 = Range index 4 [0]") == "[parse] line 1: the list of Range is too short");
  CHECK(error_of("%0 = Range index 4 [0 x]") == "[parse] line 1: 'x' is not a role");
  CHECK(error_of("%0 = Range index 4") == "[parse] line 1: Range needs a [list]");
  CHECK(error_of("%0 = Param f32 [0 4 disk]") == "[parse] line 1: 'disk' is not a memory space");
  CHECK(error_of("%0 = Reshape f32 []") == "[parse] line 1: Reshape needs a source");
  CHECK(error_of("%0 = Permute f32 1:f32 [0]") == "[parse] line 1: Permute takes 0 axes");
  CHECK(error_of("%0 = Window f32 1:f32 [0 2 1 1]") ==
        "[parse] line 1: Window takes an axis, a size, a step and a dilation");
  CHECK(error_of("%0 = Reduce f32 1:f32 [Add 0]") == "[parse] line 1: Reduce has no axis 0");
  CHECK(error_of("%0 = Sink void \"a") == "[parse] line 1: the string has no end");
  CHECK(error_of("%0 = Buffer f32 #1") == "[parse] line 1: a Buffer cannot be read from text");
  CHECK(error_of("%0 = 1 2") == "[parse] line 1: '2' after the end of the node");
}

TEST_CASE("print: a check and what it compares with") {
  Arena a;
  ArenaScope scope(a);
  UOp x = param(0, DType::i64, 4);
  for (int64_t must : {0, 1}) {
    UOp check = make(Op::Check, DType::i64, {x, x, index(6)}, Arg::of(must));
    CHECK(check->shape == x->shape);
    round_trip(check);
  }
}
