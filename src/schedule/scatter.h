// Writes at computed places: a Reduce over r of where(a == f(r), v(r), identity), for all a of an
// axis of its result, is the effect "for r in order: out[f(r)] = op(out[f(r)], v(r))", which needs
// no step for each pair of a and r. Tensors say it the first way; here it is found among them
// (scattered_axes), so that it gets a kernel of its own, and that kernel becomes two
// (write_in_order in plan.h), by the exact expressions. Two other folds go the same way:
//   running folds   out[i] = the fold of x[j] for j <= i: each is made of the one before
//   counts          out[i] = how many j < i have the key of i: one counter for each key
#pragma once
#include "ir/build.h"
#include "ir/target.h"

namespace mote {

// The axes of a tensor-level Reduce's result that some position is compared with, as bits, where
// writing in order is cheaper; 0: none.
uint64_t scattered_axes(UOp reduce, const Target& target);

// Steps of either way for each element of the result.
struct ScatterSizes {
  double places = 1;  // that a write may go to
  double writes = 1;  // to all of these
  double others = 1;  // elements beside them: all of this happens for each
  double row = 1;     // of those: how many lie one after the other
};
bool pays_to_scatter(const ScatterSizes& sizes, DType dtype, const Target& target);

}  // namespace mote
