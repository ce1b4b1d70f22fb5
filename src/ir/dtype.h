// What the compiler asks of dtypes beyond the public header.
#pragma once
#include <mote/dtype.h>

#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mote {

struct DTypeRow {
  const char* name;
  int bytes;
  int bits;
  int mantissa;  // bits of it, of floats
  bool floating, integer, sign;
  int64_t lo, hi;  // of integers; u64's hi is saturated to int64 max
};
extern const DTypeRow dtype_rows[kDTypes];
inline const DTypeRow& row(DType d) { return dtype_rows[static_cast<int>(d)]; }
bool parse_dtype(std::string_view text, DType* dtype);
inline void append(std::string& out, DType d) { out += name(d); }

DType accumulator(DType d);  // what a sum of d's is computed in (16-bit floats: f32)
DType bits_type(int bits);   // the unsigned integer of that width

// How a float narrower than f32 lies in its bits: sign, exponent with this bias, mantissa.
struct SmallFloat {
  int bits, mantissa, bias;
  unsigned largest;   // the pattern of the largest finite magnitude
  unsigned infinity;  // what larger magnitudes become; f8e4m3 has none, and they become NaN
  unsigned nan;
};
SmallFloat layout_of(DType d);

// Round a double to what the float dtype d can hold (e4m3 saturates to NaN as PyTorch's fn
// variant).
double round_to(DType d, double v);
// Wrap an integer to the width of d (sign-extended or zero-extended into 64 bits).
int64_t wrap_to(DType d, int64_t v);

// One element in memory <-> value.
double load_float(DType d, const void* p);
int64_t load_int(DType d, const void* p);
void store_float(DType d, void* p, double v);
void store_int(DType d, void* p, int64_t v);

}  // namespace mote
