// Sums of sizes in one form: multiples of distinct expressions in a fixed order, then a number. So
// n + 5 and 5 + n are one node, and (n + 1) - n is the number 1.
#pragma once
#include "ir/node.h"

namespace mote {

// a + factor * b; new nodes are made by `make`.
Dim size_sum(const Dim& a, int64_t factor, const Dim& b, Dim (*make)(Op, const Dim&, const Dim&));

}  // namespace mote
