// Ops and dtypes the target lacks, written with those it has. Each function returns the replacement
// for one node or an empty UOp; `decompose` (lower.h) runs them to a fixed point.
#pragma once
#include "ir/build.h"
#include "ir/target.h"

namespace mote {

// exp, exp2, log, log2, tanh, erf <= 1 ulp in f32, sin and cos <= 2; f64 within a few ulp; NaN, inf,
// signed zeros, subnormals as IEEE/libm. Narrower types go through f32. With or without fused
// multiply-adds the bounds are the same.
UOp decompose_curve(Op op, UOp x, bool fma);
UOp decompose_threefry(UOp counter, UOp key);
// Float to int saturates, NaN gives 0; to bool is x != 0.
UOp decompose_cast(UOp x, DType to);
// Narrow floats as bit patterns: f32 value <-> bits of d (f16, bf16, f8e4m3, f8e5m2), nearest even.
UOp encode_float(UOp f32, DType d);   // gives the unsigned type of d's width
UOp decode_float(UOp bits, DType d);  // gives f32, exact
// Floor division and modulo of integers whose divisor is not 0.
UOp decompose_floor(Op op, UOp a, UOp b);
// x/0 = 0, x%0 = 0, INT_MIN/-1 wraps.
UOp decompose_divide(Op op, UOp a, UOp b);
// Shifts by any amount: out of range gives 0 (Shr of a negative value fills with ones).
UOp decompose_shift(Op op, UOp a, UOp b);

}  // namespace mote
