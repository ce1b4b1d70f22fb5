#include "ir/program.h"

#include <bit>

#include "ir/build.h"

namespace mote {

UOp value_of_two_lanes(UOp root) {
  uint64_t lanes = 0;
  for (UOp u : toposort(root)) {
    if (u->is(Op::Range) && range_role(u) == Role::Lane) lanes |= u->ranges;
    const bool value = !has(u->op, Effect) || u->is(Op::Store);
    uint64_t ranges = u->ranges;
    if (u->is(Op::Reduce))  // also over lanes that what it folds does not depend on
      for (Node* s : u->src()) ranges |= s->ranges;
    if (value && std::popcount(ranges & lanes) > 1) return u;
  }
  return {};
}

int nest_order(UOp r) { return range_slot(r) - (range_role(r) == Role::Thread ? kSlots : 0); }

std::span<Node* const> closed_ranges(UOp n) {
  if (n->is(Op::Stage)) return n->src().subspan(2);
  if (n->is(Op::Reduce) || n->is(Op::End)) return n->src().subspan(1);
  return {};
}

}  // namespace mote
