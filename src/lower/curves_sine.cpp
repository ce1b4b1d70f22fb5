// Sine and cosine over the whole range. The argument is reduced by Payne and Hanek's method for all
// |x| >= pi/4: of x * 2/pi only the integer modulo 4 and the fraction matter, so a window of 2/pi
// that starts where the exponent of x says is multiplied by the mantissa in integers.
#include <array>
#include <cmath>

#include "lower/curves.h"
#include "lower/decompose.h"

namespace mote {

namespace {

constexpr uint64_t two_over_pi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

// Minimax in relative error on |r| <= pi/4, in s = r^2: (sin(r) / r - 1) / s and (cos(r) - 1) / s.
constexpr double sin_f32[] = {-0x1.555546p-3, 0x1.110778p-7, -0x1.9953fcp-13};
constexpr double cos_f32[] = {-0x1p-1, 0x1.55554ap-5, -0x1.6c0c28p-10, 0x1.99e80cp-16};
constexpr double sin_f64[] = {-0x1.5555555555548p-3, 0x1.111111110f7c8p-7,   -0x1.a01a019bfcdep-13,
                              0x1.71de3566de001p-19, -0x1.ae5e59cb1d286p-26, 0x1.5d8f966915928p-33};
constexpr double cos_f64[] = {-0x1p-1,
                              0x1.5555555555539p-5,
                              -0x1.6c16c16c13b96p-10,
                              0x1.a01a019b2c389p-16,
                              -0x1.27e4f72a9a00ep-22,
                              0x1.1ee96c3b475e2p-29,
                              -0x1.8f74fe7b8c103p-37};

// x = quadrant * pi/2 + rest, |rest| <= pi/4; the quadrant is a u32, known modulo 4.
struct Reduced {
  UOp quadrant, rest;
};

UOp word(uint64_t v) { return constant(DType::u64, static_cast<int64_t>(v)); }
UOp wide(UOp x) { return cast(x, DType::u64); }
UOp low_half(UOp x) { return cast(x, DType::u32); }

// The 64 bits of a, b (one 128-bit word) that begin at bit `at`, which is below 64.
UOp funnel(UOp a, UOp b, UOp at) {
  UOp rest = binary(Op::Xor, at, word(63));  // 63 - at; b moves 64 - at, in two steps when at is 0
  return binary(Op::Shl, a, at) | binary(Op::Shr, shift_right(b, 1), rest);
}

// The 32-bit words 2/pi = 0.w1 w2 w3 ... in pairs from word i on; w0 = 0 stands before the point.
uint64_t two_words(int i) {
  auto half = [](int j) -> uint64_t {
    if (j == 0) return 0;
    return two_over_pi[(j - 1) / 2] >> ((j - 1) % 2 ? 0 : 32) & 0xffffffff;
  };
  return half(i) << 32 | half(i + 1);
}

// a >= 1/2. In units of 2^-62 quadrants, mantissa * window is x * 2/pi when the window of 96 bits
// begins at bit exponent + 7; what stands before it only adds multiples of 4.
Reduced reduce_f32(const Real& real, UOp a) {
  UOp bits = real.as_bits(a);
  UOp start = shift_right(bits, 23) + constant(DType::u32, 7 - 127);
  UOp mantissa = wide((bits & constant(DType::u32, 0x7fffff)) | constant(DType::u32, 0x800000));
  UOp first = word(two_words(4)), second = word(two_words(6));
  for (int i = 3; i >= 0; --i) {
    UOp here = lt(start, constant(DType::u32, 32 * (i + 1)));
    first = where(here, word(two_words(i)), first);
    second = where(here, word(two_words(i + 2)), second);
  }
  UOp at = wide(start & constant(DType::u32, 31));
  UOp last = shift_right(binary(Op::Shl, second, at), 32);
  UOp product = mantissa * funnel(first, second, at) + shift_right(mantissa * last, 32);
  UOp quadrant = low_half(shift_right(product + word(uint64_t{1} << 61), 62));
  // The signed fraction: 24 bits that a float holds exactly, then 31 more.
  UOp fraction = shift_left(product, 2);
  UOp head = make(Op::Bitcast, DType::i32, {low_half(shift_right(fraction, 32))});
  head = cast(head & constant(DType::i32, -256), DType::f32);
  UOp tail = low_half(shift_right(fraction, 9)) & constant(DType::u32, 0x7fffffff);
  tail = cast(make(Op::Bitcast, DType::i32, {tail}), DType::f32);
  UOp rest = real.mad(head, real.number(-0x1.777a5cp-25 * 0x1p-32),
                      tail * real.number(0x1.921fb6p+0 * 0x1p-55));
  return {quadrant, real.fused(head, real.number(0x1.921fb6p+0 * 0x1p-32), rest)};
}

// The high half of a * b, a below 2^53.
UOp multiply_high(UOp a, UOp b) {
  UOp mask = word(0xffffffff);
  UOp a0 = a & mask, a1 = shift_right(a, 32), b0 = b & mask, b1 = shift_right(b, 32);
  UOp middle = a1 * b0 + shift_right(a0 * b0, 32);
  UOp other = a0 * b1 + (middle & mask);
  return a1 * b1 + shift_right(middle, 32) + shift_right(other, 32);
}

// Four consecutive words of 0, two_over_pi..., from word k on, k <= 16: shift the table by the bits
// of k, the largest first.
std::array<UOp, 4> window(UOp k) {
  std::array<UOp, 20> words{word(0)};
  for (size_t i = 1; i < 20; ++i) words[i] = word(two_over_pi[i - 1]);
  for (size_t step : {16u, 8u, 4u, 2u, 1u}) {
    UOp bit = constant(DType::u32, static_cast<int64_t>(step));
    UOp stay = eq(k & bit, constant(DType::u32, 0));
    for (size_t i = 0; i < 4 + (step == 16 ? 0 : step - 1); ++i)
      words[i] = where(stay, words[i], words[i + step]);
  }
  return {words[0], words[1], words[2], words[3]};
}

// As reduce_f32 with a window of 192 bits and a product of 128, in units of 2^-126 quadrants.
Reduced reduce_f64(const Real& real, UOp a) {
  UOp bits = real.as_bits(a);
  UOp start = low_half(shift_right(bits, 52)) + constant(DType::u32, 10 - 1023);
  UOp mantissa = (bits & word((uint64_t{1} << 52) - 1)) | word(uint64_t{1} << 52);
  auto [t0, t1, t2, t3] = window(shift_right(start, 6) & constant(DType::u32, 31));
  UOp at = wide(start & constant(DType::u32, 63));
  UOp middle = funnel(t1, t2, at), low = mantissa * middle;
  UOp low_sum = low + multiply_high(mantissa, funnel(t2, t3, at));
  UOp high =
      mantissa * funnel(t0, t1, at) + multiply_high(mantissa, middle) + wide(lt(low_sum, low));
  UOp quadrant = low_half(shift_right(high + word(uint64_t{1} << 61), 62));
  // The signed fraction as four words of 32 bits, summed into two floats.
  UOp fraction = shift_left(high, 2) | shift_right(low_sum, 62), below = shift_left(low_sum, 2);
  UOp w0 = make(Op::Bitcast, DType::i32, {low_half(shift_right(fraction, 32))});
  auto as_real = [&](UOp w) { return cast(w, DType::f64); };
  UOp f0 = as_real(w0) * real.number(0x1p32), f1 = as_real(low_half(fraction));
  UOp f2 = as_real(low_half(shift_right(below, 32))) * real.number(0x1p-32);
  UOp f3 = as_real(low_half(below)) * real.number(0x1p-64);
  UOp head = f0 + f1, tail = (f1 - (head - f0)) + (f2 + f3);
  UOp unit = real.number(M_PI_2 * 0x1p-64);
  UOp rest = real.mad(head, real.number(0x1.1a62633145c07p-54 * 0x1p-64), tail * unit);
  return {quadrant, real.mad(head, unit, rest)};
}

}  // namespace

UOp decompose_sine(Op op, const Real& real, UOp x) {
  const bool single = real.type == DType::f32;
  UOp a = real.magnitude(x), small = lt(a, real.number(M_PI_4));
  Reduced far = single ? reduce_f32(real, a) : reduce_f64(real, a);
  UOp rest = where(small, a, far.rest);
  UOp quadrant = where(small, constant(DType::u32, 0), far.quadrant);
  if (op == Op::Cos) quadrant = quadrant + 1;

  UOp square = rest * rest;
  Coefficients sin_tail = single ? Coefficients(sin_f32) : Coefficients(sin_f64);
  Coefficients cos_tail = single ? Coefficients(cos_f32) : Coefficients(cos_f64);
  UOp sine = real.mad(rest * square, real.polynomial(square, sin_tail), rest);
  UOp cosine = real.mad(square, real.polynomial(square, cos_tail), real.number(1));
  UOp even = eq(quadrant & constant(DType::u32, 1), constant(DType::u32, 0));
  UOp sign = cast(quadrant & constant(DType::u32, 2), real.bits);
  sign = shift_left(sign, row(real.type).bits - 2);
  if (op == Op::Sin) sign = binary(Op::Xor, sign, real.sign_bit(x));
  UOp y = binary(Op::Xor, real.as_bits(where(even, sine, cosine)), sign);
  return where(lt(a, real.number(INFINITY)), real.as_float(y), real.number(NAN));
}

}  // namespace mote
