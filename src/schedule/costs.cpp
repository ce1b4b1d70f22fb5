#include "schedule/costs.h"

#include <algorithm>

namespace mote {

static double count(UOp n) { return static_cast<double>(n->shape->count()); }

// A sum over where(position == index, x, 0) reads one element and will collapse to a gather. Gives
// the comparison, or nothing.
static UOp gathers_by(UOp reduce) {
  UOp value = reduce->src(0);
  if (static_cast<Op>(reduce->ints(0)) != Op::Add) return {};
  while (has(value->op, Movement) || value->is(Op::Cast)) value = value->src(0);
  if (!value->is(Op::Where)) return {};
  UOp condition = value->src(0);
  while (has(condition->op, Movement) || condition->is(Op::And)) condition = condition->src(0);
  if (!condition->is(Op::Eq)) return {};
  for (Node* side : condition->src()) {
    while (has(side->op, Movement) || side->op == Op::Cast) side = side->sources[0];
    if (side->op == Op::Iota) return condition;
  }
  return {};
}

double fold_count(UOp reduce) {
  if (gathers_by(reduce)) return 1;
  double in = count(reduce->src(0)), out = count(reduce);
  return out == 0 ? 0 : in / out;
}

Cost Costs::weigh(UOp n, const Bounds& bounds, const Target& target) const {
  if (n->is(Op::Param) || n->is(Op::After) || n->is(Op::Contiguous) || n->is(Op::Copy))
    return {target.load_cost, count(n) * size_of(n->dtype)};
  Cost c;
  for (Node* s : n->src()) {
    if (!s->shape) continue;
    bool stored = bounds.forced[s->id] || (s->op == Op::Reduce && fold_count(UOp(s)) > 16);
    c.each += stored ? target.load_cost : by_id_[s->id].each;
    c.bytes += stored ? count(UOp(s)) * size_of(s->dtype) : by_id_[s->id].bytes;
  }
  // Of a part of a buffer, only that part is read.
  if (n->is(Op::Shrink) && is_leaf(n)) c.bytes = std::min(c.bytes, count(n) * size_of(n->dtype));
  // What is repeated a lot will be stored before it is repeated.
  if (n->is(Op::Expand) && n->src(0)->shape->count() > 0) {
    double more = count(n) / count(n->src(0)) - 1;
    if (more * c.each > 2 * size_of(n->dtype) * target.byte_cost) c.each = target.load_cost;
  }
  if (n->is(Op::Reduce)) c.each = fold_count(n) * (c.each + 1);
  else if (has(n->op, Alu)) c.each += has(n->op, Curve) ? target.curve_cost : 1;
  return c;
}

Costs::Costs(std::span<const UOp> order, const Bounds& bounds, const Target& target) {
  by_id_.resize(arena().size());
  for (UOp n : order) {
    if (UOp by = n->is(Op::Reduce) ? gathers_by(n) : UOp()) in_closed_form_.insert(by.get());
    if (n->shape) by_id_[n->id] = weigh(n, bounds, target);
  }
}

}  // namespace mote
