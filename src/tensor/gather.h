// Reading and writing at computed positions, as comparisons with every position and a fold over
// them. The compiler turns "sum over i of where(i == p, x, 0)" into one load at p.
#pragma once
#include "tensor/checks.h"

namespace mote {

// Is each position (index dtype) one of 0 ... size-1?
Tensor in_range(const Tensor& at, const Dim& size);
// Positions as the index dtype, negative ones counted from the end.
Tensor as_positions(const Tensor& index, const Dim& size);
// x: (..., A), at: (..., 1) of integers or positions, broadcast against each other. x there,
// without the last axis; 0 where a position is none.
Tensor pick_last(const Tensor& x, const Tensor& at);
// at == position for positions 0 ... size-1 on a new last axis but one: (..., L) to (..., size, L).
Tensor matches(const Tensor& at, const Dim& size);
// For each position 0 ... size-1 the sum of the values (..., L) that are `at` it: (..., size).
Tensor sum_at(const Tensor& at, const Tensor& values, const Dim& size);
// Of the values (..., L) that match, broadcast, the last one; `old` (...) where none does.
Tensor last_match(const Tensor& match, const Tensor& values, const Tensor& old);
// Integers that a user gave: of an integer dtype; and in range, checked now or when they are known
// (tensor/checks.h). What mote computes itself needs no check, and the functions above make none.
void expect_index(const Tensor& index);
Tensor checked_index(const Tensor& index, const Dim& size);
// gather and index_select of integers that are in range.
Tensor gather_at(const Tensor& t, int64_t axis, const Tensor& index);
Tensor select_at(const Tensor& t, int64_t axis, const Tensor& index);

}  // namespace mote
