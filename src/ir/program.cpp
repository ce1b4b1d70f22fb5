#include "ir/program.h"

#include <algorithm>
#include <bit>

#include "ir/build.h"

namespace mote {

UOp value_of_two_vectors(UOp root) {
  uint64_t vectors = 0;
  for (UOp u : toposort(root)) {
    if (u->is(Op::Range) && range_role(u) == Role::Vector) vectors |= u->ranges;
    const bool value = !has(u->op, Effect) || u->is(Op::Store);
    uint64_t ranges = u->ranges;
    if (u->is(Op::Reduce))  // also over vectors that what it folds does not depend on
      for (Node* s : u->src()) ranges |= s->ranges;
    if (value && std::popcount(ranges & vectors) > 1) return u;
  }
  return {};
}

int nest_order(UOp r) { return range_slot(r) - (range_role(r) == Role::Global ? kSlots : 0); }

std::span<Node* const> closed_ranges(UOp n) {
  if (n->is(Op::Stage)) return n->src().subspan(2);
  if (n->is(Op::Reduce) || n->is(Op::End)) return n->src().subspan(1);
  return {};
}

UOp row_range(UOp stage) {
  const bool counted =
      stage->is(Op::Stage) && stage->nsrc == 3 && stage->src(1) == stage->src(2);
  return counted ? stage->src(2) : UOp();
}

std::vector<UOp> accumulated_ranges(UOp n) {
  std::vector<UOp> found;
  if (n->is(Op::Reduce))
    for (Node* r : closed_ranges(n))
      if (r->op == Op::Range && range_role(UOp(r)) == Role::Accumulate) found.emplace_back(r);
  return found;
}

namespace {

// The loops that lowering puts into one another for a Stage, a Reduce or an output.
void add_loops(UOp n, std::vector<UOp>& nest) {
  for (Node* r : closed_ranges(n))
    if (!n->is(Op::Reduce) || range_role(UOp(r)) != Role::Accumulate) nest.emplace_back(r);
  UOp value = n->is(Op::Stage) ? n->src(0) : n;
  if (n->is(Op::End) && n->src(0)->is(Op::Store)) value = n->src(0)->src(1);
  if (value != n)
    for (UOp r : accumulated_ranges(value)) nest.push_back(r);
}

UOp misplaced_in(std::span<const UOp> nest) {
  for (UOp r : nest)
    for (UOp other : nest)
      if ((r->src(0)->ranges & slot_bit(other)) && nest_order(other) >= nest_order(r))
        return r;
  return {};
}

}  // namespace

UOp misplaced_loop(UOp root) {
  const std::vector<UOp> order = toposort(root);
  uint64_t tiles = 0, needed = 0;
  for (UOp n : order) {
    if (!n->is(Op::Range)) continue;
    needed |= n->src(0)->ranges;
    if (is_tile(range_role(n))) tiles |= slot_bit(n);
  }
  if (!needed) return {};
  std::vector<UOp> outputs, nest;
  for (UOp n : order) {
    if (n->is(Op::Range) && (n->src(0)->ranges & tiles)) return n;
    nest.clear();
    add_loops(n, n->is(Op::End) ? outputs : nest);
    if (UOp r = misplaced_in(nest)) return r;
  }
  return misplaced_in(outputs);  // all of them stand in one nest
}

}  // namespace mote
