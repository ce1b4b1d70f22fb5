// Products of words: u32 whose parts are narrow numbers, the first one lowest (dots.def).
#pragma once
#include <span>

#include "ir/node.h"

namespace mote {

struct Dot {
  Op op;
  DType a, b, sum;
  int parts() const { return 4 / size_of(a); }
};
std::span<const Dot> dots();
const Dot* dot_of(Op op);  // null: it is none

// A word made of the values at the positions of a range: a Reduce of u32 with Or over tiles alone.
bool is_word(UOp n);
// The word of the values of n, a whole number of them in 32 bits, at the positions of this range.
UOp word_over(UOp value, UOp range);

}  // namespace mote
