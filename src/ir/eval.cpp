#include "ir/eval.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace mote {

static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

static uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }
static int64_t from_bits(uint64_t v) { return static_cast<int64_t>(v); }
static bool is_unsigned(DType d) { return !is_signed(d); }

Scalar scalar(DType dtype, int64_t v) {
  if (is_float(dtype)) {
    // Through f32 at most once: an integer of 64 bits does not fit a double.
    double f = dtype == DType::f64 ? static_cast<double>(v) : static_cast<float>(v);
    return {dtype, 0, round_to(dtype, f)};
  }
  return {dtype, wrap_to(dtype, v), 0};
}

// Saturates, NaN gives 0; u64 takes the upper half of its range as bit patterns.
static int64_t float_to_int(DType dtype, double v) {
  if (std::isnan(v)) return 0;
  if (dtype == DType::u64) {
    if (v >= 0x1p64) return -1;
    return v <= 0 ? 0 : from_bits(static_cast<uint64_t>(v));
  }
  const DTypeRow& r = row(dtype);
  if (v >= static_cast<double>(r.hi)) return r.hi;
  return v <= static_cast<double>(r.lo) ? r.lo : static_cast<int64_t>(v);
}

Scalar scalar(DType dtype, double v) {
  if (is_float(dtype)) return {dtype, 0, round_to(dtype, v)};
  if (dtype == DType::boolean) return {dtype, v != 0, 0};
  return {dtype, float_to_int(dtype, v), 0};
}

Scalar scalar_of(UOp constant) {
  if (is_float(constant->dtype)) return {constant->dtype, 0, constant->arg.f};
  return {constant->dtype, constant->arg.i, 0};
}

Arg arg_of(const Scalar& s) { return is_float(s.dtype) ? Arg::of(s.f) : Arg::of(s.i); }

bool same_bits(const Scalar& a, const Scalar& b) {
  if (a.dtype != b.dtype) return false;
  if (!is_float(a.dtype)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  return a.f == b.f && std::signbit(a.f) == std::signbit(b.f);
}

uint64_t threefry(uint64_t counter, uint64_t key) {
  static constexpr int rotations[2][4] = {
      {13, 15, 26, 6 },
      {17, 29, 16, 24}
  };
  const auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  uint32_t x0 = static_cast<uint32_t>(counter) + keys[0];
  uint32_t x1 = static_cast<uint32_t>(counter >> 32) + keys[1];
  for (uint32_t i = 0; i < 5; ++i) {
    for (int r : rotations[i % 2]) {
      x0 += x1;
      x1 = std::rotl(x1, r) ^ x0;
    }
    x0 += keys[(i + 1) % 3];
    x1 += keys[(i + 2) % 3] + i + 1;
  }
  return static_cast<uint64_t>(x1) << 32 | x0;
}

static Scalar eval_cast(DType dtype, const Scalar& a) {
  // Narrow floats are made from f32 only, as in PyTorch: what lacks them rounds the same way.
  if (is_float(dtype) && row(dtype).bits < 32 && a.dtype == DType::f64)
    return scalar(dtype, round_to(DType::f32, a.f));
  if (is_float(a.dtype)) return scalar(dtype, a.f);
  if (a.dtype == DType::u64 && is_float(dtype)) {
    uint64_t u = bits(a.i);
    return scalar(dtype, dtype == DType::f64 ? static_cast<double>(u) : static_cast<float>(u));
  }
  return scalar(dtype, a.i);
}

static Scalar eval_bitcast(DType dtype, const Scalar& a) {
  unsigned char raw[8] = {};
  if (is_float(a.dtype))
    store_float(a.dtype, raw, a.f);
  else
    store_int(a.dtype, raw, a.i);
  if (is_float(dtype)) return {dtype, 0, load_float(dtype, raw)};
  return {dtype, load_int(dtype, raw), 0};
}

// -0 counts as less than +0, so that Max and Min commute bit for bit.
static bool float_less(double a, double b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
static double float_max(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return float_less(a, b) ? b : a;
}
static double float_min(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return float_less(b, a) ? b : a;
}

static double float_sqrt(DType, double a, double, double) { return std::sqrt(a); }
static double float_trunc(DType, double a, double, double) { return std::trunc(a); }
static double float_fma(DType dtype, double a, double b, double c) {
  if (dtype != DType::f32) return std::fma(a, b, c);
  return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
}

// Ops that take and give floats, in double; the caller rounds. A double has more than twice the
// bits of an f32, so one rounding of +, *, / and sqrt gives exactly the IEEE result of the narrow
// type; fma needs its own type.
static double eval_float(Op op, DType dtype, double a, double b, double c) {
  switch (op) {
    case Op::Neg: return -a;
#define FLOAT_FUNCTION(op, arity, function, meaning, derivative) \
  case Op::op: return float_##function(dtype, a, b, c);
#include "ir/float_functions.def"
#undef FLOAT_FUNCTION
#define CURVE(op, function, meaning, f32, f64, derivative) \
  case Op::op: return std::function(a);
#include "ir/curves.def"
#undef CURVE
    case Op::Add: return a + b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::Max: return float_max(a, b);
    case Op::Min: return float_min(a, b);
    default: ensure(false, "eval: ", name(op), " is no op of ", name(dtype));
  }
  return 0;
}

// Index arithmetic saturates: an interval end beyond 64 bits stays beyond.
static int64_t saturate(__int128 v) {
  return v > kMax ? kMax : v < kMin ? kMin : static_cast<int64_t>(v);
}

static int64_t truncated_div(DType d, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (is_unsigned(d)) return from_bits(bits(a) / bits(b));
  return b == -1 ? from_bits(0 - bits(a)) : a / b;
}
static int64_t truncated_mod(DType d, int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && is_signed(d))) return 0;
  return is_unsigned(d) ? from_bits(bits(a) % bits(b)) : a % b;
}
static int64_t floor_mod(DType d, int64_t a, int64_t b) {
  int64_t r = truncated_mod(d, a, b);
  return is_signed(d) && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static int64_t floor_div(DType d, int64_t a, int64_t b) {
  if (d == DType::index && a == kMin && b == -1) return kMax;
  int64_t q = truncated_div(d, a, b);
  int64_t r = truncated_mod(d, a, b);
  return is_signed(d) && r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}

static bool shift_fits(DType d, int64_t by) {
  return bits(by) < static_cast<uint64_t>(row(d).bits);
}
static int64_t shift_right(DType d, int64_t a, int64_t by) {
  if (is_signed(d)) return shift_fits(d, by) ? a >> by : a < 0 ? -1 : 0;
  return shift_fits(d, by) ? from_bits(bits(a) >> by) : 0;
}

static bool int_less(DType d, int64_t a, int64_t b) {
  return is_unsigned(d) ? bits(a) < bits(b) : a < b;
}

// Ops that take and give integers of one dtype; the caller wraps to its width.
static int64_t eval_int(Op op, DType d, int64_t a, int64_t b) {
  const bool exact = d == DType::index;
  switch (op) {
    case Op::Neg: return exact ? saturate(-static_cast<__int128>(a)) : from_bits(0 - bits(a));
    case Op::Add:
      return exact ? saturate(static_cast<__int128>(a) + b) : from_bits(bits(a) + bits(b));
    case Op::Mul:
      return exact ? saturate(static_cast<__int128>(a) * b) : from_bits(bits(a) * bits(b));
    case Op::IDiv: return truncated_div(d, a, b);
    case Op::IMod: return truncated_mod(d, a, b);
    case Op::FloorDiv: return floor_div(d, a, b);
    case Op::FloorMod: return floor_mod(d, a, b);
    case Op::Max: return int_less(d, a, b) ? b : a;
    case Op::Min: return int_less(d, b, a) ? b : a;
    case Op::And: return a & b;
    case Op::Or: return a | b;
    case Op::Xor: return a ^ b;
    case Op::Shl: return shift_fits(d, b) ? from_bits(bits(a) << b) : 0;
    case Op::Shr: return shift_right(d, a, b);
    case Op::Threefry: return from_bits(threefry(bits(a), bits(b)));
    default: ensure(false, "eval: ", name(op), " is no op of ", name(d));
  }
  return 0;
}

static bool eval_compare(Op op, const Scalar& a, const Scalar& b) {
  if (is_float(a.dtype)) return op == Op::Lt ? a.f < b.f : a.f == b.f;
  return op == Op::Lt ? int_less(a.dtype, a.i, b.i) : a.i == b.i;
}

// As a machine without subnormals of f32 sees it.
static double flushed(double v) { return std::fabs(v) < 0x1p-126 ? std::copysign(0.0, v) : v; }

// The last part first, as machines have it. Each sum of floats is rounded once.
static Scalar eval_dot(DType a, DType b, DType sum, std::span<const Scalar> src) {
  Scalar out = src[2];
  if (is_float(sum)) out.f = flushed(out.f);
  const int bits = row(a).bits;
  for (int at = 32 - bits; at >= 0; at -= bits) {
    auto part = [&](DType d, const Scalar& word) {
      return eval_bitcast(d, scalar(bits_type(bits), word.i >> at));
    };
    const Scalar x = part(a, src[0]), y = part(b, src[1]);
    if (is_float(sum))
      out.f = flushed(round_to(sum, out.f + flushed(x.f) * flushed(y.f)));
    else
      out.i = wrap_to(sum, out.i + x.i * y.i);
  }
  return out;
}

Scalar eval(Op op, DType dtype, std::span<const Scalar> src) {
  switch (op) {
#define DOT(op, a, b, sum, meaning) \
  case Op::op:                      \
    return eval_dot(DType::a, DType::b, DType::sum, src);
#include "ir/dots.def"
#undef DOT
    case Op::Cast: return eval_cast(dtype, src[0]);
    case Op::Bitcast: return eval_bitcast(dtype, src[0]);
    case Op::Where: return src[0].i ? src[1] : src[2];
    case Op::Lt:
    case Op::Eq: return {DType::boolean, eval_compare(op, src[0], src[1]), 0};
    default: break;
  }
  const Scalar none{};
  const Scalar& b = src.size() > 1 ? src[1] : none;
  const Scalar& c = src.size() > 2 ? src[2] : none;
  if (is_float(dtype))
    return {dtype, 0, round_to(dtype, eval_float(op, dtype, src[0].f, b.f, c.f))};
  return {dtype, wrap_to(dtype, eval_int(op, dtype, src[0].i, b.i)), 0};
}

Scalar identity_of(Op op, DType dtype) {
  const bool largest = op == Op::Min;
  switch (op) {
    case Op::Add:
    case Op::Or:
    case Op::Xor: return scalar(dtype, int64_t{0});
    case Op::Mul: return scalar(dtype, int64_t{1});
    case Op::And: return scalar(dtype, int64_t{-1});
    case Op::Max:
    case Op::Min:
      if (is_float(dtype)) return scalar(dtype, largest ? HUGE_VAL : -HUGE_VAL);
      if (dtype == DType::u64) return scalar(dtype, int64_t{largest ? -1 : 0});
      return scalar(dtype, largest ? row(dtype).hi : row(dtype).lo);
    default: ensure(false, "a Reduce with ", name(op));
  }
  return {};
}

}  // namespace mote
