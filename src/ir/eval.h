// What every elementwise op means on scalars: one row per op. The reference for constant folding,
// the interpreters and the fuzzers.
#pragma once
#include "ir/node.h"

namespace mote {

// A scalar: integers, bool and index in i (wrapped to the dtype); floats in f (rounded to it).
struct Scalar {
  DType dtype = DType::none;
  int64_t i = 0;
  double f = 0;
};
Scalar scalar(DType dtype, int64_t v);
Scalar scalar(DType dtype, double v);
Scalar scalar_of(UOp constant);
Arg arg_of(const Scalar& s);

// The value of `op` giving `dtype`; sources already of the dtypes the op wants. Index overflow in
// FloorDiv, Add, Mul is the caller's care (saturates). Division of an index by 0 gives 0.
Scalar eval(Op op, DType dtype, std::span<const Scalar> src);
// What folding nothing with an associative op gives.
Scalar identity_of(Op op, DType dtype);
bool same_bits(const Scalar& a, const Scalar& b);  // NaNs are equal, -0.0 and 0.0 are not
uint64_t threefry(uint64_t counter, uint64_t key);

}  // namespace mote
