#include "ir/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/float_environment.h"
#include "ir/ops.h"

namespace mote {

static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

const DTypeRow dtype_rows[kDTypes] = {
    {"void",   0, 0,  0,  false, false, false, kMin,      kMax      },
    {"bool",   1, 1,  0,  false, false, false, 0,         1         },
    {"u8",     1, 8,  0,  false, true,  false, 0,         UINT8_MAX },
    {"u16",    2, 16, 0,  false, true,  false, 0,         UINT16_MAX},
    {"u32",    4, 32, 0,  false, true,  false, 0,         UINT32_MAX},
    {"u64",    8, 64, 0,  false, true,  false, 0,         kMax      },
    {"i8",     1, 8,  0,  false, true,  true,  INT8_MIN,  INT8_MAX  },
    {"i16",    2, 16, 0,  false, true,  true,  INT16_MIN, INT16_MAX },
    {"i32",    4, 32, 0,  false, true,  true,  INT32_MIN, INT32_MAX },
    {"i64",    8, 64, 0,  false, true,  true,  kMin,      kMax      },
    {"f8e4m3", 1, 8,  3,  true,  false, true,  kMin,      kMax      },
    {"f8e5m2", 1, 8,  2,  true,  false, true,  kMin,      kMax      },
    {"bf16",   2, 16, 7,  true,  false, true,  kMin,      kMax      },
    {"f16",    2, 16, 10, true,  false, true,  kMin,      kMax      },
    {"f32",    4, 32, 23, true,  false, true,  kMin,      kMax      },
    {"f64",    8, 64, 52, true,  false, true,  kMin,      kMax      },
    {"index",  8, 64, 0,  false, true,  true,  kMin,      kMax      },
};

const char* name(DType d) { return row(d).name; }
int size_of(DType d) { return row(d).bytes; }
bool is_float(DType d) { return row(d).floating; }
bool is_int(DType d) { return row(d).integer; }
bool is_signed(DType d) { return row(d).sign; }

bool parse_dtype(std::string_view text, DType* dtype) {
  return parse_name(text, dtype_rows, &DTypeRow::name, dtype);
}

// PyTorch: bool < ints < floats; u8 with a signed type takes the next wider signed one; mixed
// 16-bit floats give f32; f8 with another float gives that float.
DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    int wide = std::max(row(a).bits, row(b).bits);
    if (row(a).bits != row(b).bits) return row(a).bits == wide ? a : b;
    return wide == 16 ? DType::f32 : DType::f32;
  }
  if (a == DType::index || b == DType::index) return DType::index;
  if (is_signed(a) == is_signed(b)) return row(a).bits >= row(b).bits ? a : b;
  DType s = is_signed(a) ? a : b, u = is_signed(a) ? b : a;
  if (row(s).bits > row(u).bits) return s;
  static constexpr DType wider[] = {DType::i16, DType::i32, DType::i64, DType::i64};
  return wider[std::countr_zero(static_cast<unsigned>(row(u).bits)) - 3];
}

DType accumulator(DType d) { return is_float(d) && row(d).bits < 32 ? DType::f32 : d; }

DType bits_type(int bits) {
  return bits == 8 ? DType::u8 : bits == 16 ? DType::u16 : bits == 32 ? DType::u32 : DType::u64;
}

int64_t wrap_to(DType d, int64_t v) {
  if (d == DType::boolean) return v != 0;
  if (!is_int(d)) return v;
  const int unused = 64 - row(d).bits;
  const uint64_t top = static_cast<uint64_t>(v) << unused;
  return is_signed(d) ? static_cast<int64_t>(top) >> unused : static_cast<int64_t>(top >> unused);
}

SmallFloat layout_of(DType d) {
  const int bits = row(d).bits, m = row(d).mantissa, e = bits - 1 - m;
  const unsigned top = ((1u << e) - 1) << m;  // an exponent of all ones
  const bool has_inf = d != DType::f8e4m3;
  const unsigned nan = has_inf ? top | 1u << (m - 1) : top | ((1u << m) - 1);
  return {bits, m, (1 << (e - 1)) - 1, (has_inf ? top : nan) - 1, has_inf ? top : nan, nan};
}

// The nearest pattern, of two the even one.
static unsigned encode_small(DType d, double v) {
  const SmallFloat f = layout_of(d);
  const unsigned sign = std::signbit(v) ? 1u << (f.bits - 1) : 0, one = 1u << f.mantissa;
  const double a = std::fabs(v);
  if (!std::isfinite(v)) return sign | (std::isnan(v) ? f.nan : f.infinity);
  // The weight of the last mantissa bit.
  const int unit = std::max(a == 0 ? 0 : std::ilogb(a), 1 - f.bias) - f.mantissa;
  const auto mantissa = static_cast<unsigned>(std::nearbyint(std::ldexp(a, -unit)));
  if (mantissa < one) return sign | mantissa;  // subnormal (or zero): exponent field 0
  const auto exponent = static_cast<unsigned>(unit + f.mantissa + f.bias);
  return sign | std::min((exponent << f.mantissa) + (mantissa - one), f.largest + 1);
}

static double decode_small(DType d, unsigned bits) {
  const SmallFloat f = layout_of(d);
  const double sign = bits >> (f.bits - 1) & 1 ? -1.0 : 1.0;
  const unsigned magnitude = bits & ((1u << (f.bits - 1)) - 1), one = 1u << f.mantissa;
  if (magnitude > f.largest)
    return magnitude == f.infinity && f.infinity != f.nan ? sign * INFINITY
                                                          : std::copysign(std::nan(""), sign);
  const auto exponent = static_cast<int>(magnitude >> f.mantissa);
  const unsigned mantissa = magnitude % one + (exponent ? one : 0);
  return sign * std::ldexp(mantissa, std::max(exponent, 1) - f.bias - f.mantissa);
}

Half to_half(double v) {
  FloatEnvironment nearest;
  return {static_cast<uint16_t>(encode_small(DType::f16, v))};
}
BFloat16 to_bfloat16(double v) {
  FloatEnvironment nearest;
  return {static_cast<uint16_t>(encode_small(DType::bf16, v))};
}
double to_double(Half v) { return decode_small(DType::f16, v.bits); }
double to_double(BFloat16 v) { return decode_small(DType::bf16, v.bits); }

double round_to(DType d, double v) {
  if (d == DType::f32) return static_cast<float>(v);
  if (!is_float(d) || d == DType::f64) return v;
  FloatEnvironment nearest;
  return decode_small(d, encode_small(d, v));
}

// The processor is little-endian, as elements are.
int64_t load_int(DType d, const void* p) {
  int64_t v = 0;
  std::memcpy(&v, p, static_cast<size_t>(row(d).bytes));
  return wrap_to(d, v);
}

void store_int(DType d, void* p, int64_t v) {
  if (d == DType::boolean) v = v != 0;
  std::memcpy(p, &v, static_cast<size_t>(row(d).bytes));
}

double load_float(DType d, const void* p) {
  const int64_t bits = load_int(d, p);
  if (!is_float(d)) return static_cast<double>(bits);
  if (d == DType::f64) return std::bit_cast<double>(bits);
  if (d == DType::f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return decode_small(d, static_cast<unsigned>(bits));
}

void store_float(DType d, void* p, double v) {
  if (!is_float(d)) return store_int(d, p, static_cast<int64_t>(v));
  if (d == DType::f64) return store_int(d, p, std::bit_cast<int64_t>(v));
  if (d == DType::f32) return store_int(d, p, std::bit_cast<int32_t>(static_cast<float>(v)));
  store_int(d, p, encode_small(d, v));
}

}  // namespace mote
