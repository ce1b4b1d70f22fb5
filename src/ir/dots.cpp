#include "ir/dots.h"

#include <algorithm>

#include "ir/build.h"
#include "ir/program.h"

namespace mote {

std::span<const Dot> dots() {
  static constexpr Dot rows[] = {
#define DOT(op, a, b, sum, meaning) {Op::op, DType::a, DType::b, DType::sum},
#include "ir/dots.def"
#undef DOT
  };
  return rows;
}

const Dot* dot_of(Op op) {
  const auto row = std::ranges::find(dots(), op, &Dot::op);
  return row == dots().end() ? nullptr : &*row;
}

bool is_word(UOp n) {
  return n->is(Op::Reduce) && n->dtype == DType::u32 &&
         n->ints(0) == static_cast<int64_t>(Op::Or) &&
         std::ranges::all_of(n->src().subspan(1), [](Node* r) { return is_tile_range(UOp(r)); });
}

UOp word_over(UOp value, UOp r) {
  const int bits = row(value->dtype).bits;
  UOp part = cast(make(Op::Bitcast, bits_type(bits), {value}), DType::u32);
  return reduce_over(Op::Or, binary(Op::Shl, part, cast(r * bits, DType::u32)), {{r}});
}

}  // namespace mote
