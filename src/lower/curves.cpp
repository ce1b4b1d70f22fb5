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
  return fma ? make(Op::MulAdd, type, {a, b, c}) : a * b + c;
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
  Coefficients log;   // (log(1 + f) - f) / f^2 on sqrt(1/2) <= 1 + f <= sqrt(2)
  Coefficients log2;  // log2(1 + f) / f - 1, ditto
  Coefficients tanh;  // s / (tanh(x) / x - 1) in s = x^2 below tanh_split
  Coefficients erf;   // erf(x) / x - 1 in s below erf_split
  Coefficients erfc;  // log2(erfc(x)) / x between erf_split and erf_end
  double tanh_split, erf_split;
  double tanh_end, erf_end;                 // from these on, the result is 1
  double exp_lo, exp_hi, exp2_lo, exp2_hi;  // from these on, the result is 0 or inf
  double ln2_hi, ln2_lo;                    // hi times any exponent is exact
  double integer_shift;  // 1.5 * 2^mantissa: adding it rounds to an integer in the low bits
};

// clang-format off
constexpr double exp_f32[] = {
    0x1.fffffcp-2, 0x1.55548cp-3, 0x1.55585ap-5, 0x1.123d7p-7, 0x1.6ab8d2p-10};
constexpr double exp2_f32[] = {
    0x1.62e43p-1, 0x1.ebfbep-3, 0x1.c6b06ep-5, 0x1.3b2a5cp-7, 0x1.5da48ap-10, 0x1.440e3p-13,
    0x1.e1f596p-17};
constexpr double log_f32[] = {
    -0x1.fffff8p-2, 0x1.55555p-2, -0x1.000428p-2, 0x1.99a4p-3, -0x1.5426fep-3, 0x1.227052p-3,
    -0x1.0f39eep-3, 0x1.085258p-3, -0x1.383c56p-4};
constexpr double log2_f32[] = {
    0x1.c551dap-2, -0x1.715476p-1, 0x1.ec7086p-2, -0x1.7154d6p-2, 0x1.277fc2p-2, -0x1.ec6244p-3,
    0x1.a3efcep-3, -0x1.6fd5f2p-3, 0x1.61ba24p-3, -0x1.530b5cp-3, 0x1.773634p-4};
constexpr double tanh_f32[] = {
    -0x1.800004p+1, -0x1.3332dap+0, 0x1.754b3ap-8, -0x1.e06dp-13};
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
    -0x1.0000000000003p-1, 0x1.555555555551ep-2, -0x1.fffffffffdc7ep-3, 0x1.99999999a118dp-3,
    -0x1.55555556f3e94p-3, 0x1.249249227c537p-3, -0x1.fffffeef04138p-4, 0x1.c71c71bc9fdaap-4,
    -0x1.9999c9edd6f6fp-4, 0x1.745d48fa8743p-4, -0x1.55506625e84ecp-4, 0x1.3b0a79eeb85a1p-4,
    -0x1.24dcac6e0d91ap-4, 0x1.11dbc11636681p-4, -0x1.fb7040e9c0951p-5, 0x1.cf8bec7e7fbb5p-5,
    -0x1.d120d8623037cp-5, 0x1.0b7f5be120026p-4, -0x1.ec2ec4e302b53p-5, 0x1.acfa2458ab2cdp-6};
constexpr double log2_f64[] = {
    0x1.c551d94ae0bf8p-2, -0x1.71547652b8304p-1, 0x1.ec709dc3a0392p-2, -0x1.71547652b673bp-2,
    0x1.2776c50f00086p-2, -0x1.ec709dc615796p-3, 0x1.a61762a44c3a4p-3, -0x1.71547586ddd22p-3,
    0x1.484b13d88ec08p-3, -0x1.2776e8c97f2b6p-3, 0x1.0c9aa875312adp-3, -0x1.ec695ee87d1ebp-4,
    0x1.c681eded15b2dp-4, -0x1.a684126af0fcfp-4, 0x1.8b1a524b2a912p-4, -0x1.6e02812d2a0a1p-4,
    0x1.4e4eac7c42c5ap-4, -0x1.4f92a1950be5ep-4, 0x1.8225662823c19p-4, -0x1.6321d32f0e30bp-4,
    0x1.354addc1a95ccp-5};
constexpr double tanh_f64[] = {
    -0x1.8000000000006p+1, -0x1.3333333332fdp+0, 0x1.767dce3e22f35p-8, -0x1.0a4e11cf017f7p-12,
    0x1.9979dd548cb99p-17, -0x1.40daec74e72fap-21, 0x1.d9b9471dbced2p-26};
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
                                  .tanh_split = 0.93,
                                  .erf_split = 1,
                                  .tanh_end = 9.5,
                                  .erf_end = 4,
                                  .exp_lo = -104,
                                  .exp_hi = 89,
                                  .exp2_lo = -151,
                                  .exp2_hi = 129,
                                  .ln2_hi = 0x1.62e4p-1,
                                  .ln2_lo = 0x1.7f7d1cp-20,
                                  .integer_shift = 0x1.8p23};
constexpr CurveTable table_f64 = {.exp = exp_f64,
                                  .exp2 = exp2_f64,
                                  .log = log_f64,
                                  .log2 = log2_f64,
                                  .tanh = tanh_f64,
                                  .erf = erf_f64,
                                  .erfc = erfc_f64,
                                  .tanh_split = 0.6,
                                  .erf_split = 1,
                                  .tanh_end = 20,
                                  .erf_end = 6,
                                  .exp_lo = -746,
                                  .exp_hi = 710,
                                  .exp2_lo = -1076,
                                  .exp2_hi = 1025,
                                  .ln2_hi = 0x1.62e42feep-1,
                                  .ln2_lo = 0x1.a39ef35793c76p-33,
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

  UOp exp2(UOp x) const {
    Split s = split_integer(clamp(x, table_.exp2_lo, table_.exp2_hi));
    return scale(power_of_two(s.rest), s.shifted);
  }

  UOp log(UOp x) const {
    return of_logarithm(x, [&](Parts p) {
      UOp tail = real_.polynomial(p.fraction, table_.log);
      UOp y = real_.mad(p.fraction * p.fraction, tail, p.fraction);
      y = real_.mad(p.exponent, number(table_.ln2_lo), y);
      return real_.mad(p.exponent, number(table_.ln2_hi), y);
    });
  }

  UOp log2(UOp x) const {
    return of_logarithm(x, [&](Parts p) {
      UOp slope = real_.precise_polynomial(p.fraction, table_.log2);
      return real_.fused(p.fraction, slope, p.fraction) + p.exponent;
    });
  }

  // 1 - 2 / (e^2a + 1) where that loses nothing, else a - a * a^2 / (3 + ...): both share one
  // division. e^2a = 2^n (1 + z), and 2^n z is exact, so the denominator rounds once.
  UOp tanh(UOp x) const {
    UOp a = real_.magnitude(x), square = a * a, near = lt(a, number(table_.tanh_split));
    UOp top = clamp_above(a, table_.tanh_end);
    Split s = split_exp(top + top);
    UOp slope = real_.mad(real_.polynomial(s.rest, table_.exp), s.rest, number(1));
    UOp power = exponent_to_float(s.shifted);
    UOp far_below = real_.mad(power, slope * s.rest, power + number(1));
    UOp below = where(near, real_.polynomial(square, table_.tanh), far_below);
    UOp less = binary(Op::Div, where(near, square, number(-2)), below);
    UOp whole = where(near, a, number(1));
    return real_.with_sign(real_.fused(whole, less, whole), real_.sign_bit(x));
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
  // x = 2^exponent (1 + fraction), both as floats, sqrt(1/2) <= 1 + fraction < sqrt(2).
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

  // Numbers that are subnormal, infinite, NaN or not above 0 are worth a branch, not five more
  // instructions for all.
  template <class Curve>
  UOp of_logarithm(UOp x, Curve curve) const {
    const int64_t implicit = int64_t{1} << real_.mantissa, normal = 2 * real_.bias * implicit;
    UOp odd = lt(real_.word(normal - 1), real_.as_bits(x) - real_.word(implicit));
    UOp small = lt(x, number(std::ldexp(1.0, 1 - real_.bias)));
    Parts p = parts(where(small, x * number(static_cast<double>(implicit)), x));
    p.exponent = p.exponent + where(small, number(-real_.mantissa), number(0));
    return where_rarely(odd, at_edges_of_log(x, curve(p)), curve(parts(x)));
  }

  // Of a normal number.
  Parts parts(UOp x) const {
    const int64_t implicit = int64_t{1} << real_.mantissa;
    UOp bits = make(Op::Bitcast, real_.ints, {x});
    // Just above sqrt(1/2), so that log2 never comes out below 1/2 by cancellation.
    UOp low = make(Op::Bitcast, real_.ints, {number(0x1.6a09e8p-1)});
    UOp exponent = (bits - low) & constant(real_.ints, -implicit);
    UOp fraction = make(Op::Bitcast, real_.type, {bits - exponent}) + number(-1);
    UOp n = cast(binary(Op::Shr, exponent, constant(real_.ints, real_.mantissa)), DType::i32);
    return {cast(n, real_.type), fraction};
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
  const Real real = Real::of(x->dtype, target);
  const Curves curves(real);
  switch (op) {
    case Op::Exp: return curves.exp(x);
    case Op::Exp2: return curves.exp2(x);
    case Op::Log: return curves.log(x);
    case Op::Log2: return curves.log2(x);
    case Op::Tanh: return curves.tanh(x);
    case Op::Erf: return curves.erf(x);
    case Op::Sin:
    case Op::Cos: return decompose_sine(op, real, x);
    default: return {};
  }
}

}  // namespace mote
