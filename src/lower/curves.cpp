// Exponentials, logarithms, tanh and erf by range reduction and minimax polynomials, without
// branches. Special values come out of the arithmetic where they can: `where(hi < x, hi, x)` is one
// min instruction and, unlike Min, lets a NaN through untouched.
#include "lower/curves.h"

#include <cmath>

#include "base/error.h"
#include "lower/decompose.h"

namespace mote {

Real Real::of(DType type, const Target& target) {
  const bool has_double = target.has(DType::f64);
  if (type == DType::f32) return {type, DType::u32, DType::i32, 23, 127, target.fma, has_double};
  ensure(type == DType::f64, "a curve of ", type);
  return {type, DType::u64, DType::i64, 52, 1023, target.fma, false};
}

UOp Real::mad(UOp a, UOp b, UOp c) const {
  return fma ? mul_add(a, b, c) : a * b + c;
}

UOp Real::fused(UOp a, UOp b, UOp c) const {
  if (fma || !through_double) return mad(a, b, c);
  auto wide = [](UOp x) { return cast(x, DType::f64); };
  return cast(wide(a) * wide(b) + wide(c), type);
}

UOp Real::polynomial(UOp x, Coefficients c) const {
  UOp sum = number(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = mad(sum, x, number(c[i]));
  return sum;
}

UOp Real::polynomial(UOp x, UOp square, Coefficients c) const {
  auto every_other = [&](size_t first) {
    size_t i = first + (c.size() - 1 - first) / 2 * 2;
    UOp sum = number(c[i]);
    for (; i > first; i -= 2) sum = mad(sum, square, number(c[i - 2]));
    return sum;
  };
  return mad(mad(every_other(2), x, every_other(1)), x, number(c[0]));
}

UOp Real::precise_polynomial(UOp x, Coefficients c) const {
  return fused(fused(polynomial(x, c.subspan(2)), x, number(c[1])), x, number(c[0]));
}

UOp Real::sign_bit(UOp x) const { return as_bits(x) & word(int64_t{1} << (row(type).bits - 1)); }
UOp Real::magnitude(UOp x) const {
  return as_float(as_bits(x) & word((uint64_t{1} << (row(type).bits - 1)) - 1));
}
UOp Real::with_sign(UOp x, UOp sign) const { return as_float(as_bits(x) | sign); }

namespace {

// What differs between the two widths. Polynomials are minimax fits in relative error of the
// result, their coefficients rounded to the type.
struct CurveTable {
  Coefficients exp;   // (e^r - 1 - r) / r^2 on |r| <= ln2 / 2
  Coefficients exp2;  // (2^r - 1) / r on |r| <= 1/2
  Coefficients log;   // (log(1 + f) - f) / f^2 on 2/3 <= 1 + f <= 4/3
  Coefficients log2;  // log2(1 + f) / f - 1 on sqrt(1/2) <= 1 + f <= sqrt(2)
  Coefficients tanh;  // s / (tanh(x) / x - 1) in s = x^2 below tanh_split
  Coefficients erf;   // erf(x) / x - 1 in s below erf_split
  Coefficients erfc;  // log2(erfc(x)) / x between erf_split and erf_end
  double tanh_split, erf_split;
  double tanh_end, erf_end;                 // from these on, the result is 1
  double exp_lo, exp_hi, exp2_lo, exp2_hi;  // from these on, the result is 0 or inf
  double ln2_hi, ln2_lo;                    // hi times any exponent is exact
  double exponent_unit;  // an exponent is used in these units: f32's as it lies in the bits
  double integer_shift;  // 1.5 * 2^mantissa: adding it rounds to an integer in the low bits
};

// clang-format off
constexpr double exp_f32[] = {
    0x1.fffffcp-2, 0x1.55548cp-3, 0x1.55585ap-5, 0x1.123d7p-7, 0x1.6ab8d2p-10};
constexpr double exp2_f32[] = {
    0x1.62e43p-1, 0x1.ebfbep-3, 0x1.c6b06ep-5, 0x1.3b2a5cp-7, 0x1.5da48ap-10, 0x1.440e3p-13,
    0x1.e1f596p-17};
constexpr double log_f32[] = {
    -0x1p-1, 0x1.555506p-2, -0x1.fffe86p-3, 0x1.99d1f4p-3, -0x1.55a796p-3, 0x1.1ebe6cp-3,
    -0x1.f2644p-4, 0x1.1ed024p-3, -0x1.0931cep-3};
constexpr double log2_f32[] = {
    0x1.c551dap-2, -0x1.715476p-1, 0x1.ec7086p-2, -0x1.7154d6p-2, 0x1.277fc2p-2, -0x1.ec6244p-3,
    0x1.a3efcep-3, -0x1.6fd5f2p-3, 0x1.61ba24p-3, -0x1.530b5cp-3, 0x1.773634p-4};
constexpr double tanh_f32[] = {
    -0x1.800006p+1, -0x1.3332dp+0, 0x1.75343cp-8, -0x1.ddef2ap-13};
constexpr double erf_f32[] = {
    0x1.06eba8p-3, -0x1.81273ep-2, 0x1.ce2ce6p-4, -0x1.b7f71ap-6, 0x1.53f224p-8, -0x1.a3515ep-11,
    0x1.4771fep-14};
constexpr double erfc_f32[] = {
    -0x1.a0c80ep+0, -0x1.d5a9c2p-1, -0x1.3694acp-3, 0x1.0d7242p-5, -0x1.2d532ep-8, 0x1.3eaa44p-12};

constexpr double exp_f64[] = {
    0x1p-1, 0x1.555555555555bp-3, 0x1.5555555555502p-5, 0x1.111111110ec34p-7,
    0x1.6c16c16c30656p-10, 0x1.a01a01b38eadap-13, 0x1.a01a01363733fp-16, 0x1.71ddeff6d1d5ap-19,
    0x1.27e5b4ac5f9a5p-22, 0x1.af6c3274cae4dp-26, 0x1.1e3cfe7f7ebe3p-29};
constexpr double exp2_f64[] = {
    0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58fp-3, 0x1.c6b08d704a0cfp-5, 0x1.3b2ab6fba4e22p-7,
    0x1.5d87fe78a267ap-10, 0x1.430912f883ebap-13, 0x1.ffcbfc74f00a4p-17, 0x1.62c021e220002p-20,
    0x1.b524dd1a92a9p-24, 0x1.e4d06d171bb6fp-28, 0x1.ea01adfd6f324p-32, 0x1.c2ce610724709p-36};
constexpr double log_f64[] = {
    -0x1.ffffffffffff8p-2, 0x1.5555555555531p-2, -0x1.00000000014b3p-2, 0x1.99999999a0f6ap-3,
    -0x1.5555555359e81p-3, 0x1.249249205d4bcp-3, -0x1.000000b0a50b1p-3, 0x1.c71c742e0b304p-4,
    -0x1.9999565f852fap-4, 0x1.745cb21547c92p-4, -0x1.555cfb973159ep-4, 0x1.3b1dfc5e4a913p-4,
    -0x1.24078e8b14253p-4, 0x1.1066649bc5e39p-4, -0x1.0623f21ea55efp-4, 0x1.efea2faa59300p-5,
    -0x1.7382bdfd105bbp-5, 0x1.5570a01f804dfp-5, -0x1.64210be1b674ap-4, 0x1.5caa2202343fap-4};
constexpr double log2_f64[] = {
    0x1.c551d94ae0bf8p-2, -0x1.71547652b8304p-1, 0x1.ec709dc3a0392p-2, -0x1.71547652b673bp-2,
    0x1.2776c50f00086p-2, -0x1.ec709dc615796p-3, 0x1.a61762a44c3a4p-3, -0x1.71547586ddd22p-3,
    0x1.484b13d88ec08p-3, -0x1.2776e8c97f2b6p-3, 0x1.0c9aa875312adp-3, -0x1.ec695ee87d1ebp-4,
    0x1.c681eded15b2dp-4, -0x1.a684126af0fcfp-4, 0x1.8b1a524b2a912p-4, -0x1.6e02812d2a0a1p-4,
    0x1.4e4eac7c42c5ap-4, -0x1.4f92a1950be5ep-4, 0x1.8225662823c19p-4, -0x1.6321d32f0e30bp-4,
    0x1.354addc1a95ccp-5};
constexpr double tanh_f64[] = {
    -0x1.8000000000001p+1, -0x1.33333333332e6p+0, 0x1.767dce4302709p-8, -0x1.0a4e1564292c2p-12,
    0x1.997ca7a14f1a4p-17, -0x1.4173271eee887p-21, 0x1.fb697ba160b6bp-26, -0x1.8a6af8ff5261cp-30,
    0x1.fb71f8bf0cc99p-35};
constexpr double erf_f64[] = {
    0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b2p-4, -0x1.b82ce3128499cp-6,
    0x1.565bcd0db02e6p-8, -0x1.c02db3d8ed2b3p-11, 0x1.f9a321a11eae2p-14, -0x1.f4d1df395d288p-17,
    0x1.b9def19ee3e64p-20, -0x1.5f1d36ca8ac65p-23, 0x1.f7a41289a0c0ep-27, -0x1.386ac1e429e1fp-30,
    0x1.0579adc7128ddp-34};
constexpr double erfc_f64[] = {
    -0x1.a0be827c537acp+0, -0x1.d63eee8a414b1p-1, -0x1.2fa696d63b2b2p-3, 0x1.c40f1a5c91c83p-6,
    0x1.40c386445d0a2p-12, -0x1.401124f5f595bp-9, 0x1.b2aa2ac79b99ap-11, 0x1.79a02da6390d7p-20,
    -0x1.20e6816d2eb5ep-13, 0x1.5318b285f1b2ap-14, -0x1.ec98af99f7f28p-16, 0x1.04b23ce0f8812p-17,
    -0x1.a188b53a9b089p-20, 0x1.f915d0b79e0b5p-23, -0x1.c162fc6e76a2p-26, 0x1.16151e876ddb3p-29,
    -0x1.abf7a43fcbd8ap-34, 0x1.346511be044fp-39};
// clang-format on

constexpr CurveTable table_f32 = {.exp = exp_f32,
                                  .exp2 = exp2_f32,
                                  .log = log_f32,
                                  .log2 = log2_f32,
                                  .tanh = tanh_f32,
                                  .erf = erf_f32,
                                  .erfc = erfc_f32,
                                  .tanh_split = 0.978,
                                  .erf_split = 1,
                                  .tanh_end = 9.5,
                                  .erf_end = 4,
                                  .exp_lo = -104,
                                  .exp_hi = 89,
                                  .exp2_lo = -151,
                                  .exp2_hi = 129,
                                  .ln2_hi = 0x1.62e4p-1,
                                  .ln2_lo = 0x1.7f7d1cp-20,
                                  .exponent_unit = 0x1p-23,
                                  .integer_shift = 0x1.8p23};
constexpr CurveTable table_f64 = {.exp = exp_f64,
                                  .exp2 = exp2_f64,
                                  .log = log_f64,
                                  .log2 = log2_f64,
                                  .tanh = tanh_f64,
                                  .erf = erf_f64,
                                  .erfc = erfc_f64,
                                  .tanh_split = 0.975,
                                  .erf_split = 1,
                                  .tanh_end = 20,
                                  .erf_end = 6,
                                  .exp_lo = -746,
                                  .exp_hi = 710,
                                  .exp2_lo = -1076,
                                  .exp2_hi = 1025,
                                  .ln2_hi = 0x1.62e42feep-1,
                                  .ln2_lo = 0x1.a39ef35793c76p-33,
                                  .exponent_unit = 1,
                                  .integer_shift = 0x1.8p52};

class Curves {
 public:
  Curves(const Real& real) : real_(real), table_(real.type == DType::f32 ? table_f32 : table_f64) {}

  UOp exp(UOp x) const {
    x = clamp(x, table_.exp_lo, table_.exp_hi);
    Split s = split_exp(x);
    UOp tail = real_.polynomial(s.rest, table_.exp);
    UOp slope = real_.mad(tail, s.rest, number(1));
    return scale(real_.fused(slope, s.rest, number(1)), s.shifted);
  }

  UOp sin(UOp x) const { return decompose_sine(Op::Sin, real_, x); }
  UOp cos(UOp x) const { return decompose_sine(Op::Cos, real_, x); }

  UOp exp2(UOp x) const {
    Split s = split_integer(clamp(x, table_.exp2_lo, table_.exp2_hi));
    return scale(power_of_two(s.rest), s.shifted);
  }

  UOp log(UOp x) const {
    return of_logarithm(x, 0x1.555556p-1, [&](Parts p) {
      UOp square = p.fraction * p.fraction;
      UOp y = real_.mad(square, real_.polynomial(p.fraction, square, table_.log), p.fraction);
      auto plus = [&](double ln2) {
        return real_.mad(p.exponent, number(table_.exponent_unit * ln2), y);
      };
      if (real_.fma) return plus(M_LN2);  // a fused product needs no second word
      y = plus(table_.ln2_lo);
      return plus(table_.ln2_hi);
    });
  }

  UOp log2(UOp x) const {
    // Just above sqrt(1/2), so that it never comes out below 1/2 by cancellation.
    return of_logarithm(x, 0x1.6a09e8p-1, [&](Parts p) {
      UOp slope = real_.precise_polynomial(p.fraction, table_.log2);
      UOp y = real_.fused(p.fraction, slope, p.fraction);
      return real_.mad(p.exponent, number(table_.exponent_unit), y);
    });
  }

  // With a = |x|: a + a * s / q(s) in s = a^2 where a is small. Elsewhere 1 - 2u / (1 + u) with
  // u = e^-2a = 2^-n e^-2r, and e^-2r = (q(s) - v) / (q(s) + v) with v = r * (q(s) + s), s = r^2.
  // Both share the polynomial and the division, for where a is small n and v are 0. The sum q + v
  // is taken from the rounded q - v, so that the error of that leaves the quotient.
  UOp tanh(UOp x) const {
    UOp a = real_.magnitude(x), far = lt(number(table_.tanh_split), a);
    UOp top = clamp_above(a, table_.tanh_end);
    HalfSteps steps = half_steps(top);
    UOp rest = less_half_ln2(top, where(far, steps.n, number(0)));
    UOp square = rest * rest, q = real_.precise_polynomial(square, table_.tanh);
    UOp v = rest * where(far, q + square, number(0));
    UOp minus = q - v, plus = real_.mad(v, number(2), minus);
    UOp scaled = real_.as_bits(minus) - steps.places;
    UOp above = real_.as_float(where(far, scaled, real_.as_bits(square)));
    UOp below = where(far, real_.mad(above, number(-0.5), plus), plus);
    UOp whole = where(far, number(1), a);
    UOp y = real_.fused(whole, binary(Op::Div, above, below), whole);
    return real_.with_sign(y, real_.sign_bit(x));
  }

  // 1 - 2^log2(erfc(a)) where that loses nothing, else an odd polynomial. The logarithm is large
  // against its distance from an integer, so that distance is taken from the unrounded product.
  UOp erf(UOp x) const {
    UOp a = real_.magnitude(x);
    UOp near = real_.fused(a, real_.precise_polynomial(a * a, table_.erf), a);
    UOp top = clamp_above(a, table_.erf_end);
    UOp slope = real_.precise_polynomial(top, table_.erfc);
    UOp shifted = real_.mad(slope, top, number(table_.integer_shift));
    UOp rest = real_.fused(slope, top, -(shifted + number(-table_.integer_shift)));
    UOp power = exponent_to_float(real_.as_bits(shifted));
    UOp far = real_.mad(-power_of_two(rest), power, number(1));
    return real_.with_sign(where(lt(a, number(table_.erf_split)), near, far), real_.sign_bit(x));
  }

 private:
  // x = n * unit + rest; the bits of `shifted` are those of integer_shift plus the integer n.
  struct Split {
    UOp shifted, rest;
  };
  // n = 2x / ln2 as an integer. `places`, taken from a number's bits, makes it -2^(1 - n) times
  // itself: the shift that rounds n adds to it what turns the sign and what stands for the 1.
  struct HalfSteps {
    UOp n, places;
  };
  // x = 2^n (1 + fraction), n = exponent_unit * exponent.
  struct Parts {
    UOp exponent, fraction;
  };

  UOp number(double v) const { return real_.number(v); }
  UOp clamp_above(UOp x, double hi) const { return where(lt(number(hi), x), number(hi), x); }
  UOp clamp(UOp x, double lo, double hi) const {
    x = where(lt(x, number(lo)), number(lo), x);
    return clamp_above(x, hi);
  }

  Split split_integer(UOp x) const {
    UOp shifted = x + number(table_.integer_shift);
    return {real_.as_bits(shifted), x - (shifted + number(-table_.integer_shift))};
  }
  Split split_exp(UOp x) const {
    UOp shifted = real_.mad(x, number(M_LOG2E), number(table_.integer_shift));
    UOp n = shifted + number(-table_.integer_shift);
    UOp rest = real_.mad(n, number(-table_.ln2_hi), x);
    return {real_.as_bits(shifted), real_.mad(n, number(-table_.ln2_lo), rest)};
  }
  HalfSteps half_steps(UOp x) const {
    const double sign = std::ldexp(1.0, row(real_.type).bits - 1 - real_.mantissa);
    const double shift = table_.integer_shift + sign - 1;
    UOp shifted = real_.mad(x, number(2 * M_LOG2E), number(shift));
    UOp places = binary(Op::Shl, real_.as_bits(shifted), real_.word(real_.mantissa));
    return {shifted + number(-shift), places};
  }
  // x - n * ln2 / 2; a fused product needs no second word.
  UOp less_half_ln2(UOp x, UOp n) const {
    if (real_.fma) return real_.mad(n, number(-M_LN2 / 2), x);
    UOp rest = real_.mad(n, number(-table_.ln2_hi / 2), x);
    return real_.mad(n, number(-table_.ln2_lo / 2), rest);
  }

  UOp power_of_two(UOp rest) const {
    return real_.fused(real_.polynomial(rest, table_.exp2), rest, number(1));
  }

  // 2^n from the bits of a shifted n, -bias < n <= bias: all but the low bits leave on the left.
  UOp exponent_to_float(UOp shifted) const {
    return real_.as_float(
        binary(Op::Shl, shifted + real_.word(real_.bias), real_.word(real_.mantissa)));
  }
  // x * 2^n in two steps, so that one may underflow gradually and both may overflow.
  UOp scale(UOp x, UOp shifted) const {
    auto half = [&](int64_t round_up) {
      UOp biased = binary(Op::Shr, shifted + real_.word(2 * real_.bias + round_up), real_.word(1));
      return real_.as_float(binary(Op::Shl, biased, real_.word(real_.mantissa)));
    };
    return x * half(0) * half(1);
  }

  // With low <= 1 + fraction < 2 low. Numbers that are subnormal, huge, infinite or not above 0 are
  // worth a branch, not five more instructions for all. Their fractions are outside of what normal
  // ones have; scaled, those of finite numbers above 0 are not.
  template <class Curve>
  UOp of_logarithm(UOp x, double low, Curve curve) const {
    Parts usual = parts(x, low);
    const double least = 1 - low, most = 2 * low - 1;
    UOp odd = lt(number(most * most * 1.0005), usual.fraction * usual.fraction);
    // Where these go higher than low, fractions of subnormals may be in between.
    if (least < 0.99 * most) odd = odd | lt(x, number(std::ldexp(1.0, 1 - real_.bias)));
    const int places = real_.mantissa + 1;
    auto by_size = [&, small = lt(x, number(1))](double below, double above) {
      return where(small, number(below), number(above));
    };
    Parts scaled = parts(x * by_size(std::ldexp(1.0, places), std::ldexp(1.0, -places)), low);
    const double moved = places / table_.exponent_unit;
    scaled.exponent = scaled.exponent + by_size(-moved, moved);
    return where_rarely(odd, at_edges_of_log(x, curve(scaled)), curve(usual));
  }

  // Of a number that is normal, as its inverse is; the fractions of others are -1 or less or inf,
  // but for subnormals, whose fractions are below 0.
  Parts parts(UOp x, double low) const {
    const int64_t implicit = int64_t{1} << real_.mantissa, one = real_.bias * implicit;
    UOp top = real_.as_bits(number(low)) + real_.word(one + implicit - 1);
    UOp scale = (top - real_.as_bits(x)) & real_.word(2 * one + implicit);  // 2^-n: exponent alone
    UOp n = constant(real_.ints, one) - make(Op::Bitcast, real_.ints, {scale});
    if (real_.type == DType::f64)  // few processors convert 64-bit integers
      n = cast(binary(Op::Shr, n, constant(real_.ints, real_.mantissa)), DType::i32);
    return {cast(n, real_.type), real_.mad(x, real_.as_float(scale), number(-1))};
  }

  UOp at_edges_of_log(UOp x, UOp y) const {
    y = where(lt(x, number(INFINITY)), y, x);
    UOp outside = where(eq(x, number(0)), number(-INFINITY), number(NAN));
    return where(lt(number(0), x), y, outside);
  }

  Real real_;
  const CurveTable& table_;
};

}  // namespace

UOp decompose_curve(Op op, UOp x, const Target& target) {
  if (is_float(x->dtype) && row(x->dtype).bits < 32)
    return cast(decompose_curve(op, cast(x, DType::f32), target), x->dtype);
  const Curves curves(Real::of(x->dtype, target));
  switch (op) {
#define CURVE(op, function, meaning, f32, f64, derivative) \
  case Op::op: return curves.function(x);
#include "ir/curves.def"
#undef CURVE
    default: return {};
  }
}

}  // namespace mote
