// Arithmetic on registers: what is known already is not written.
#pragma once
#include "render/expand.h"

namespace mote {

struct Arithmetic {
  Writer& writer;
  bool chooses = false;  // what a known bool chooses or leaves as it is, is not written either

  Value alu(Op op, DType dtype, std::span<const Value> src, bool exact);
  // Sums in their order. The largest value is one of the larger ones of pairs.
  Value fold(Op op, std::vector<Value>& values);
  Value fold_lanes(Op op, Value v);  // to one element

 private:
  Value multiply_words(Op op, DType dtype, std::span<const Value> src);
  Value with_zero(Op op, std::span<const Value> src, const Value& chosen);
};

}  // namespace mote
