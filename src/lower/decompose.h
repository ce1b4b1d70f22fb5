// Ops and dtypes the target lacks, written with those it has.
//
// The functions that replace one node return its replacement, or an empty UOp where the node is
// fine as it is. In what they return, casts, divisions and shifts are plain: in range, so that a
// renderer may print them as its language has them. They work in the current arena.
#pragma once
#include "ir/build.h"
#include "ir/target.h"
#include "rewrite/rewrite.h"

namespace mote {

// exp, exp2, log, log2, tanh, erf <= 1 ulp in f32, sin and cos <= 2; f64 within 1.5 and 2.5; NaN,
// inf, signed zeros, subnormals as IEEE/libm. Narrower types go through f32. Without fused
// multiply-adds f32's bounds hold if there is f64.
UOp decompose_curve(Op op, UOp x, const Target& target);
// a * b + c rounded once, for f32 on targets with f64; in two roundings otherwise.
UOp decompose_mul_add(UOp a, UOp b, UOp c, const Target& target);
UOp decompose_threefry(UOp counter, UOp key);
// Float to int saturates, NaN gives 0; to bool is x != 0; int to a narrow float goes through f32.
UOp decompose_cast(UOp x, DType to);
// x/0 = 0, x%0 = 0, INT_MIN/-1 wraps.
UOp decompose_divide(Op op, UOp a, UOp b);
// Floor division and modulo of integers whose divisor is not 0.
UOp decompose_floor(Op op, UOp a, UOp b);
// Shifts by any amount: out of range gives 0 (Shr of a negative value fills with ones).
UOp decompose_shift(Op op, UOp a, UOp b);

// Narrow floats as bit patterns: f32 value <-> bits of d (f16, bf16, f8e4m3, f8e5m2), nearest even.
UOp encode_float(UOp f32, DType d);   // gives the unsigned type of d's width
UOp decode_float(UOp bits, DType d);  // gives f32, exact
UOp round_float(UOp f32, DType d);    // decode(encode(f32))
UOp narrow_to_odd(UOp f64);           // f32 that rounds to any narrower float as f64 itself does
// f64 as bits in a u64; subnormals of f32 may be rounded twice.
UOp encode_double(UOp f32);
UOp decode_double(UOp bits);

// Shifts by a constant below the width.
inline UOp shift_left(UOp a, int by) { return binary(Op::Shl, a, constant(a->dtype, by)); }
inline UOp shift_right(UOp a, int by) { return binary(Op::Shr, a, constant(a->dtype, by)); }

// ---- The passes of `decompose` (lower.h), in order. Each visits every node once.

// Floats the target lacks become f32, narrow ones rounded by each op that makes new values. Their
// memory becomes unsigned integers. f64 is computed in f32.
UOp carry_floats(UOp body, const Target& target);
// The functions above, applied; each replacement is final.
UOp expand_ops(UOp body, const Target& target);
extern const RuleSet expansion_rules;  // their context is the Target
// 64-bit integers that the target lacks become pairs of u32, their memory u32 of twice the size.
UOp split_words(UOp body, const Target& target);
bool has_words(const Target& target);  // 64-bit integers

}  // namespace mote
