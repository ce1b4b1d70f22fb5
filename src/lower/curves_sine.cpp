// Sine and cosine over the whole range, in half turns: x = n * pi + rest, the parity of n is the
// sign, and cos(x) = sin(x + pi/2). Up to a bound multiples of pi are taken off in words of pi.
// Beyond it Payne and Hanek's method does it, behind a branch: of x / pi only the integer modulo 2
// and the fraction matter, so a window of 2/pi that starts where the exponent of x says is
// multiplied by the mantissa in integers.
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

// Minimax in relative error on |r| <= pi/2, in s = r^2: (sin(r) / r - 1) / s.
constexpr double sin_f32[] = {-0x1.55554cp-3, 0x1.110ed8p-7, -0x1.9f7054p-13, 0x1.5dbddp-19};
constexpr double sin_f64[] = {
    -0x1.5555555555555p-3,  0x1.11111111110c8p-7,  -0x1.a01a01a014d6fp-13, 0x1.71de3a52a0b3ap-19,
    -0x1.ae6454d477a4fp-26, 0x1.6123cd0897cf1p-33, -0x1.ae4384d40a50ep-41, 0x1.8832afb5f00cep-49};

// pi cut into words, each rounded down: with one rounding per step the first difference is exact.
// Of the short word of f64 that f32 uses where it has no such step, products with n are.
constexpr double pi_f32[] = {0x1.921fb4p+1, 0x1.4442dp-23, 0x1.846988p-47};
constexpr double pi_f64[] = {0x1.921fb54442d18p+1, 0x1.1a62633145c06p-53, 0x1.c1cd129024e08p-106};
constexpr double pi_short[] = {0x1.921fb544p+1, 0x1.0b4611a6p-33};

// x = n * pi + rest for a sine, (n - 1/2) * pi + rest for a cosine, |rest| <= pi/2; the sign, alone
// as bits, is set where n is odd.
struct Reduced {
  UOp sign, rest;
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

UOp top_bit(UOp x, DType bits) {
  UOp top = shift_right(x, 64 - row(bits).bits);
  return cast(top, bits) & constant(bits, int64_t{1} << (row(bits).bits - 1));
}

// a - n * pi, rounded as if once.
UOp less_half_turns(const Real& real, UOp a, UOp n) {
  if (real.fma) {
    for (double w : real.type == DType::f32 ? pi_f32 : pi_f64) a = real.mad(n, real.number(-w), a);
    return a;
  }
  UOp rest = cast(a, DType::f64), count = cast(n, DType::f64);
  for (double w : pi_short) rest = count * constant(DType::f64, -w) + rest;
  return cast(rest, real.type);
}

// a below the bound that decompose_sine sets.
Reduced reduce_near(Op op, const Real& real, UOp a) {
  UOp shift = real.number(real.type == DType::f32 ? 0x1.8p23 : 0x1.8p52);
  UOp turns = real.mad(a, real.number(M_1_PI), op == Op::Sin ? shift : real.number(0.5));
  UOp shifted = op == Op::Sin ? turns : turns + shift;
  UOp n = shifted - shift, sign = shift_left(real.as_bits(shifted), row(real.type).bits - 1);
  return {sign, less_half_turns(real, a, op == Op::Sin ? n : n + real.number(-0.5))};
}

// a at most 1/2: nothing to take off.
Reduced reduce_small(Op op, const Real& real, UOp a) {
  if (op == Op::Sin) return {real.word(0), a};
  return {real.word(int64_t{1} << (row(real.type).bits - 1)), a + real.number(-M_PI_2)};
}

// a >= 1/2. In units of 2^-63 half turns, mantissa * window is x / pi when the window of 96 bits
// begins at bit exponent + 7; what stands before it only adds multiples of 2.
Reduced reduce_f32(Op op, const Real& real, UOp a) {
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
  if (op == Op::Cos) product = product + word(uint64_t{1} << 62);
  UOp sign = top_bit(product + word(uint64_t{1} << 62), real.bits);
  // The signed fraction: 24 bits that a float holds exactly, then 31 more.
  UOp fraction = shift_left(product, 1);
  UOp head = make(Op::Bitcast, DType::i32, {low_half(shift_right(fraction, 32))});
  head = cast(head & constant(DType::i32, -256), DType::f32);
  UOp tail = low_half(shift_right(fraction, 9)) & constant(DType::u32, 0x7fffffff);
  tail = cast(make(Op::Bitcast, DType::i32, {tail}), DType::f32);
  UOp rest = real.mad(head, real.number(-0x1.777a5cp-24 * 0x1p-32),
                      tail * real.number(0x1.921fb6p+1 * 0x1p-55));
  return {sign, real.fused(head, real.number(0x1.921fb6p+1 * 0x1p-32), rest)};
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

// As reduce_f32 with a window of 192 bits and a product of 128, in units of 2^-127 half turns.
Reduced reduce_f64(Op op, const Real& real, UOp a) {
  UOp bits = real.as_bits(a);
  UOp start = low_half(shift_right(bits, 52)) + constant(DType::u32, 10 - 1023);
  UOp mantissa = (bits & word((uint64_t{1} << 52) - 1)) | word(uint64_t{1} << 52);
  auto [t0, t1, t2, t3] = window(shift_right(start, 6) & constant(DType::u32, 31));
  UOp at = wide(start & constant(DType::u32, 63));
  UOp middle = funnel(t1, t2, at), low = mantissa * middle;
  UOp low_sum = low + multiply_high(mantissa, funnel(t2, t3, at));
  UOp high =
      mantissa * funnel(t0, t1, at) + multiply_high(mantissa, middle) + wide(lt(low_sum, low));
  if (op == Op::Cos) high = high + word(uint64_t{1} << 62);
  UOp sign = top_bit(high + word(uint64_t{1} << 62), real.bits);
  // The signed fraction as four words of 32 bits, summed into two floats.
  UOp fraction = shift_left(high, 1) | shift_right(low_sum, 63), below = shift_left(low_sum, 1);
  UOp w0 = make(Op::Bitcast, DType::i32, {low_half(shift_right(fraction, 32))});
  auto as_real = [&](UOp w) { return cast(w, DType::f64); };
  UOp f0 = as_real(w0) * real.number(0x1p32), f1 = as_real(low_half(fraction));
  UOp f2 = as_real(low_half(shift_right(below, 32))) * real.number(0x1p-32);
  UOp f3 = as_real(low_half(below)) * real.number(0x1p-64);
  UOp head = f0 + f1, tail = (f1 - (head - f0)) + (f2 + f3);
  UOp unit = real.number(M_PI * 0x1p-64);
  UOp rest = real.mad(head, real.number(0x1.1a62633145c07p-53 * 0x1p-64), tail * unit);
  return {sign, real.mad(head, unit, rest)};
}

}  // namespace

UOp decompose_sine(Op op, const Real& real, UOp x) {
  const bool single = real.type == DType::f32, steps = real.fma || real.through_double;
  UOp a = real.magnitude(x), bound = real.number(!steps ? 0.5 : single ? 0x1p16 : 0x1p20);
  const Reduced near = steps ? reduce_near(op, real, a) : reduce_small(op, real, a);
  const Reduced far = single ? reduce_f32(op, real, a) : reduce_f64(op, real, a);
  UOp finite = lt(a, real.number(INFINITY)), is_far = lt(bound, a);
  auto choose = [&](UOp rare, UOp usual) {
    return steps ? where_rarely(is_far, rare, usual) : where(is_far, rare, usual);
  };
  UOp sign = choose(far.sign, near.sign);
  UOp rest = choose(where(finite, far.rest, real.number(NAN)), near.rest);
  if (op == Op::Sin) sign = binary(Op::Xor, sign, real.sign_bit(x));

  UOp square = rest * rest;
  const Coefficients tail = single ? Coefficients(sin_f32) : Coefficients(sin_f64);
  UOp y = real.fused(rest * square, real.polynomial(square, tail), rest);
  // Rounding may lead beyond the last value of the curve.
  y = where(lt(y, real.number(-1)), real.number(-1), y);
  y = where(lt(real.number(1), y), real.number(1), y);
  return real.as_float(binary(Op::Xor, real.as_bits(y), sign));
}

}  // namespace mote
