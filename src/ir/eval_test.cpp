#include "ir/eval.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace mote;

static int64_t ints(Op op, DType d, int64_t a, int64_t b) {
  Scalar src[] = {scalar(d, a), scalar(d, b)};
  return eval(op, d, src).i;
}
static double floats(Op op, DType d, double a, double b = 0, double c = 0) {
  Scalar src[] = {scalar(d, a), scalar(d, b), scalar(d, c)};
  return eval(op, d, src).f;
}
static int64_t to_int(DType from, double v, DType to) {
  Scalar src[] = {scalar(from, v)};
  return eval(Op::Cast, to, src).i;
}

TEST_CASE("eval: integers wrap") {
  CHECK(ints(Op::Add, DType::i8, 127, 1) == -128);
  CHECK(ints(Op::Mul, DType::u8, 16, 17) == 16);
  CHECK(ints(Op::Neg, DType::i32, INT32_MIN, 0) == INT32_MIN);
  CHECK(ints(Op::Neg, DType::u16, 1, 0) == 65535);
  CHECK(ints(Op::Add, DType::i64, INT64_MAX, 1) == INT64_MIN);
  CHECK(ints(Op::Add, DType::boolean, 1, 1) == 1);
}

TEST_CASE("eval: division and modulo") {
  for (DType d : {DType::i8, DType::u8, DType::i64, DType::u64, DType::index})
    for (Op op : {Op::IDiv, Op::IMod, Op::FloorDiv, Op::FloorMod}) CHECK(ints(op, d, 5, 0) == 0);
  CHECK(ints(Op::IDiv, DType::i32, INT32_MIN, -1) == INT32_MIN);
  CHECK(ints(Op::IDiv, DType::i64, INT64_MIN, -1) == INT64_MIN);
  CHECK(ints(Op::IMod, DType::i64, INT64_MIN, -1) == 0);
  CHECK(ints(Op::IDiv, DType::i32, -7, 2) == -3);
  CHECK(ints(Op::IMod, DType::i32, -7, 2) == -1);
  CHECK(ints(Op::FloorDiv, DType::index, -7, 2) == -4);
  CHECK(ints(Op::FloorMod, DType::index, -7, 2) == 1);
  CHECK(ints(Op::FloorDiv, DType::index, 7, -2) == -4);
  CHECK(ints(Op::FloorMod, DType::index, 7, -2) == -1);
  CHECK(ints(Op::FloorDiv, DType::index, 8, -2) == -4);
  CHECK(ints(Op::IDiv, DType::u64, -1, 2) == INT64_MAX);
}

TEST_CASE("eval: shifts") {
  CHECK(ints(Op::Shl, DType::i32, 1, 31) == INT32_MIN);
  CHECK(ints(Op::Shl, DType::i32, 1, 32) == 0);
  CHECK(ints(Op::Shl, DType::u8, 255, 4) == 240);
  CHECK(ints(Op::Shl, DType::i64, 1, -1) == 0);
  CHECK(ints(Op::Shr, DType::i8, -128, 7) == -1);
  CHECK(ints(Op::Shr, DType::i8, -2, 100) == -1);
  CHECK(ints(Op::Shr, DType::i8, 2, -1) == 0);
  CHECK(ints(Op::Shr, DType::u64, -1, 63) == 1);
}

TEST_CASE("eval: u64 compares and casts as unsigned") {
  Scalar src[] = {scalar(DType::u64, int64_t{-1}), scalar(DType::u64, int64_t{1})};
  CHECK(eval(Op::Lt, DType::boolean, src).i == 0);
  CHECK(eval(Op::Max, DType::u64, src).i == -1);
  CHECK(eval(Op::Cast, DType::f64, src).f == 0x1p64);
  CHECK(to_int(DType::f64, 1e30, DType::u64) == -1);
  CHECK(to_int(DType::f64, 0x1p63, DType::u64) == INT64_MIN);
}

TEST_CASE("eval: float to int saturates, NaN gives 0") {
  CHECK(to_int(DType::f32, 300, DType::u8) == 255);
  CHECK(to_int(DType::f32, -1, DType::u8) == 0);
  CHECK(to_int(DType::f32, -1e30, DType::i64) == INT64_MIN);
  CHECK(to_int(DType::f32, 1e30, DType::i64) == INT64_MAX);
  CHECK(to_int(DType::f64, -2.9, DType::i32) == -2);
  CHECK(to_int(DType::f32, NAN, DType::i32) == 0);
  CHECK(to_int(DType::f32, NAN, DType::boolean) == 1);
  CHECK(to_int(DType::f32, 0.25, DType::boolean) == 1);
  CHECK(to_int(DType::f32, -0.0, DType::boolean) == 0);
}

TEST_CASE("eval: an integer reaches f32 with one rounding") {
  Scalar src[] = {scalar(DType::i64, (int64_t{1} << 60) + (int64_t{1} << 36) + 1)};
  CHECK(eval(Op::Cast, DType::f32, src).f == static_cast<float>(src[0].i));
}

TEST_CASE("eval: f64 reaches f16 through f32") {
  Scalar src[] = {scalar(DType::f64, 1 + 0x1p-11 + 0x1p-40)};
  CHECK(eval(Op::Cast, DType::f16, src).f == 1);
}

TEST_CASE("eval: floats are IEEE in their own width") {
  CHECK(floats(Op::Add, DType::f32, 1, 0x1p-24) == 1);
  CHECK(floats(Op::Add, DType::f16, 2048, 1) == 2048);
  CHECK(floats(Op::Mul, DType::f16, 300, 300) == INFINITY);
  CHECK(floats(Op::Add, DType::bf16, 256, 1) == 256);
  CHECK(floats(Op::Div, DType::f32, 1, 3) == 1.0f / 3.0f);
  CHECK(floats(Op::MulAdd, DType::f32, 1 + 0x1p-12, 1 + 0x1p-12, -1) ==
        std::fma(1 + 0x1p-12f, 1 + 0x1p-12f, -1.0f));
  CHECK(std::isnan(floats(Op::Max, DType::f32, NAN, 1)));
  CHECK(std::isnan(floats(Op::Min, DType::f32, 1, NAN)));
  CHECK(!std::signbit(floats(Op::Max, DType::f32, -0.0, 0.0)));
  CHECK(std::signbit(floats(Op::Min, DType::f32, 0.0, -0.0)));
}

TEST_CASE("eval: bitcast keeps bits") {
  Scalar src[] = {scalar(DType::f32, 1.0)};
  CHECK(eval(Op::Bitcast, DType::i32, src).i == 0x3f800000);
  Scalar back[] = {scalar(DType::u16, int64_t{0x3c00})};
  CHECK(eval(Op::Bitcast, DType::f16, back).f == 1.0);
}

// Known answers of the Random123 distribution.
TEST_CASE("eval: threefry2x32-20") {
  CHECK(threefry(0, 0) == 0x99ba4efe6b200159ull);
  CHECK(threefry(~0ull, ~0ull) == 0xbb002be71cb996fcull);
  CHECK(threefry(0x85a308d3243f6a88ull, 0x0370734413198a2eull) == 0x483df7a0c4923a9cull);
}

TEST_CASE("eval: same_bits") {
  CHECK(same_bits(scalar(DType::f32, NAN), scalar(DType::f32, -NAN)));
  CHECK(!same_bits(scalar(DType::f32, 0.0), scalar(DType::f32, -0.0)));
  CHECK(!same_bits(scalar(DType::f32, 0.0), scalar(DType::f64, 0.0)));
}
