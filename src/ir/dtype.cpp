#include "ir/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/float_environment.h"

namespace mote {

static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

const DTypeRow dtype_rows[kDTypes] = {
    {"void", 0, 0, false, false, false, kMin, kMax},
    {"bool", 1, 1, false, false, false, 0, 1},
    {"u8", 1, 8, false, true, false, 0, UINT8_MAX},
    {"u16", 2, 16, false, true, false, 0, UINT16_MAX},
    {"u32", 4, 32, false, true, false, 0, UINT32_MAX},
    {"u64", 8, 64, false, true, false, 0, kMax},
    {"i8", 1, 8, false, true, true, INT8_MIN, INT8_MAX},
    {"i16", 2, 16, false, true, true, INT16_MIN, INT16_MAX},
    {"i32", 4, 32, false, true, true, INT32_MIN, INT32_MAX},
    {"i64", 8, 64, false, true, true, kMin, kMax},
    {"f8e4m3", 1, 8, true, false, true, kMin, kMax},
    {"f8e5m2", 1, 8, true, false, true, kMin, kMax},
    {"bf16", 2, 16, true, false, true, kMin, kMax},
    {"f16", 2, 16, true, false, true, kMin, kMax},
    {"f32", 4, 32, true, false, true, kMin, kMax},
    {"f64", 8, 64, true, false, true, kMin, kMax},
    {"index", 8, 64, false, true, true, kMin, kMax},
};

const char* name(DType d) { return row(d).name; }
int size_of(DType d) { return row(d).bytes; }
bool is_float(DType d) { return row(d).floating; }
bool is_int(DType d) { return row(d).integer; }
bool is_signed(DType d) { return row(d).sign; }

bool parse_dtype(std::string_view text, DType* dtype) {
  for (int i = 0; i < kDTypes; ++i)
    if (text == dtype_rows[i].name) {
      *dtype = static_cast<DType>(i);
      return true;
    }
  return false;
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
  switch (d) {
    case DType::boolean: return v != 0;
    case DType::u8: return static_cast<uint8_t>(v);
    case DType::u16: return static_cast<uint16_t>(v);
    case DType::u32: return static_cast<uint32_t>(v);
    case DType::i8: return static_cast<int8_t>(v);
    case DType::i16: return static_cast<int16_t>(v);
    case DType::i32: return static_cast<int32_t>(v);
    default: return v;
  }
}

// A small float of e exponent and m mantissa bits, as an unsigned pattern; nearest even.
static unsigned encode_small(double v, int e, int m, bool has_inf) {
  const unsigned sign = std::signbit(v) ? 1u << (e + m) : 0;
  const unsigned all = (1u << e) - 1;
  const unsigned nan = has_inf ? (all << m) | (1u << (m - 1)) : (all << m) | ((1u << m) - 1);
  if (std::isnan(v)) return sign | nan;
  const int bias = (1 << (e - 1)) - 1;
  double a = std::fabs(v);
  int exp2 = a == 0 || std::isinf(a) ? 0 : std::ilogb(a);
  int unit = std::max(exp2, 1 - bias) - m;  // weight of the last mantissa bit
  double q = std::isinf(a) ? a : std::nearbyint(std::ldexp(a, -unit));
  double largest = std::ldexp(2.0 - std::ldexp(1.0, -m) * (has_inf ? 1 : 2),
                              static_cast<int>(all) - bias - (has_inf ? 1 : 0));
  if (std::isinf(a) || std::ldexp(q, unit) > largest)
    return sign | (has_inf ? all << m : nan);
  auto mant = static_cast<unsigned>(q);
  unsigned biased = static_cast<unsigned>(unit + m + bias);
  if (mant < (1u << m)) return sign | mant;  // subnormal (or zero): exponent field 0
  return sign | ((biased << m) + (mant - (1u << m)));
}

static double decode_small(unsigned bits, int e, int m, bool has_inf) {
  const int bias = (1 << (e - 1)) - 1;
  const unsigned all = (1u << e) - 1, exp = bits >> m & all, mant = bits & ((1u << m) - 1);
  const double sign = bits >> (e + m) & 1 ? -1.0 : 1.0;
  if (exp == all && (has_inf || mant == (1u << m) - 1)) {
    if (has_inf && mant == 0) return sign * INFINITY;
    return std::copysign(std::nan(""), sign);
  }
  if (exp == 0) return sign * std::ldexp(mant, 1 - bias - m);
  return sign * std::ldexp(mant + (1u << m), static_cast<int>(exp) - bias - m);
}

Half to_half(double v) {
  FloatEnvironment nearest;
  return {static_cast<uint16_t>(encode_small(v, 5, 10, true))};
}
BFloat16 to_bfloat16(double v) {
  FloatEnvironment nearest;
  return {static_cast<uint16_t>(encode_small(v, 8, 7, true))};
}
double to_double(Half v) { return decode_small(v.bits, 5, 10, true); }
double to_double(BFloat16 v) { return decode_small(v.bits, 8, 7, true); }

double round_to(DType d, double v) {
  switch (d) {
    case DType::f64: return v;
    case DType::f32: return static_cast<float>(v);
    case DType::f16: return to_double(to_half(v));
    case DType::bf16: return to_double(to_bfloat16(v));
    case DType::f8e4m3: return decode_small(encode_small(v, 4, 3, false), 4, 3, false);
    case DType::f8e5m2: return decode_small(encode_small(v, 5, 2, true), 5, 2, true);
    default: return v;
  }
}

template <class T>
static T read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
static void write(void* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

double load_float(DType d, const void* p) {
  switch (d) {
    case DType::f64: return read<double>(p);
    case DType::f32: return read<float>(p);
    case DType::f16: return decode_small(read<uint16_t>(p), 5, 10, true);
    case DType::bf16: return decode_small(read<uint16_t>(p), 8, 7, true);
    case DType::f8e4m3: return decode_small(read<uint8_t>(p), 4, 3, false);
    case DType::f8e5m2: return decode_small(read<uint8_t>(p), 5, 2, true);
    default: return static_cast<double>(load_int(d, p));
  }
}

int64_t load_int(DType d, const void* p) {
  switch (d) {
    case DType::boolean: return read<uint8_t>(p) != 0;
    case DType::u8: return read<uint8_t>(p);
    case DType::u16: return read<uint16_t>(p);
    case DType::u32: return read<uint32_t>(p);
    case DType::i8: return read<int8_t>(p);
    case DType::i16: return read<int16_t>(p);
    case DType::i32: return read<int32_t>(p);
    default: return read<int64_t>(p);
  }
}

void store_float(DType d, void* p, double v) {
  switch (d) {
    case DType::f64: return write<double>(p, v);
    case DType::f32: return write<float>(p, static_cast<float>(v));
    case DType::f16: return write<uint16_t>(p, static_cast<uint16_t>(encode_small(v, 5, 10, true)));
    case DType::bf16: return write<uint16_t>(p, static_cast<uint16_t>(encode_small(v, 8, 7, true)));
    case DType::f8e4m3:
      return write<uint8_t>(p, static_cast<uint8_t>(encode_small(v, 4, 3, false)));
    case DType::f8e5m2: return write<uint8_t>(p, static_cast<uint8_t>(encode_small(v, 5, 2, true)));
    default: return store_int(d, p, static_cast<int64_t>(v));
  }
}

void store_int(DType d, void* p, int64_t v) {
  switch (row(d).bytes) {
    case 1: return write<uint8_t>(p, static_cast<uint8_t>(d == DType::boolean ? v != 0 : v));
    case 2: return write<uint16_t>(p, static_cast<uint16_t>(v));
    case 4: return write<uint32_t>(p, static_cast<uint32_t>(v));
    default: return write<int64_t>(p, v);
  }
}

}  // namespace mote
