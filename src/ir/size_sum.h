// Arithmetic of sizes that never wraps, and sums of them in one form: multiples of distinct
// expressions in a fixed order, then a number. So n + 5 and 5 + n are one node, and (n + 1) - n is
// the number 1.
#pragma once
#include "ir/node.h"

namespace mote {

// A User error where the result leaves 64 bits.
int64_t size_add(int64_t a, int64_t b);
int64_t size_mul(int64_t a, int64_t b);
// The bytes of so many elements.
inline int64_t size_bytes(int64_t count, DType dtype) { return size_mul(count, size_of(dtype)); }

// A User error where a size is negative, or there are more elements than 64 bits count. Sizes of 0
// do not make up for others: strides are counted too.
void check_sizes(std::span<const Dim> dims);

// a + factor * b; new nodes are made by `make`.
Dim size_sum(const Dim& a, int64_t factor, const Dim& b, Dim (*make)(Op, const Dim&, const Dim&));

}  // namespace mote
