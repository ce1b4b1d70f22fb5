// Between the files of algebra/: bounds without saturation, and the functions rules call.
#pragma once
#include "algebra/algebra.h"
#include "algebra/exact.h"

namespace mote {

WideInterval wide_bounds(const Linear& sum);
Linear nearest_congruent(const Linear& sum, int64_t c);  // modulo c, coefficients near zero
bool always_negative(const Linear& sum);  // knows that a range stays below its symbolic extent

// Each gives the replacement, or an empty UOp when there is nothing to do.
bool put_together(Linear& sum);  // quotients with their remainders; whether there were any
UOp canonical_sum(UOp sum);      // Add, or Mul of a sum by a constant
UOp fold_divmod(Op op, UOp x, int64_t divisor);  // FloorDiv, FloorMod by a constant
UOp fold_divmod(Op op, UOp x, UOp divisor);      // by a positive expression
UOp canonical_less(UOp a, UOp b);
UOp canonical_equal(UOp a, UOp b);
UOp simplify_conjunction(UOp conjunction);
UOp open_window(UOp less);  // x % c < d as bounds of a sum
UOp simplify_disjunction(UOp disjunction);
UOp simplify_gate(UOp gate);  // where(valid, idx, Invalid)

std::span<const Rule> collapse_rule_table();

}  // namespace mote
