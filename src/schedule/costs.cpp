#include "schedule/costs.h"

#include <algorithm>

namespace mote {

bool is_far(double bytes, const Target& target) {
  return bytes > static_cast<double>(target.l2_bytes);
}

double lost_beside_others(double products, double bytes_across, const Target& target) {
  constexpr int kElement = 4;   // bytes, as most have
  constexpr double kWaits = 3;  // a line that is waited for, in lines that come in time
  return products * target.load_cost * (target.vector_bytes / kElement) +
         (is_far(bytes_across, target) ? kWaits * bytes_across * target.byte_cost : 0);
}

double element_count(UOp n) { return static_cast<double>(n->shape->count()); }

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
  double in = element_count(reduce->src(0)), out = element_count(reduce);
  return out == 0 ? 0 : in / out;
}

static bool is_buffer(UOp n) {
  return OpSet{Op::Param, Op::After, Op::Contiguous, Op::Copy, Op::Source}.has(n->op);
}

// Writes in order happen once each, however many places they may go to.
static double folds_of(UOp reduce, uint64_t scattered) {
  if (!scattered) return fold_count(reduce);
  double places = 1;
  for (size_t d = 0; d < reduce->shape->dims.size(); ++d)
    if (scattered >> d & 1) places *= static_cast<double>(reduce->shape->dims[d].size);
  return 1 + element_count(reduce->src(0)) / element_count(reduce) / places;
}

// Whether readers find the value in memory, as far as can be told before all is decided.
static bool will_be_stored(UOp n, const Bounds& bounds) {
  return bounds.forced[n->id] || (n->is(Op::Reduce) && fold_count(n) > kMuch);
}

static int last_axis(UOp n) {
  int axis = static_cast<int>(n->shape->dims.size()) - 1;
  while (axis >= 0 && n->shape->dims[static_cast<size_t>(axis)] == Dim(1)) --axis;
  return axis;
}

static int64_t elements_inside(UOp n, int axis) {
  int64_t count = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < n->shape->dims.size(); ++i)
    count *= n->shape->dims[i].size;
  return count;
}

// Where the axis of a movement's source is afterwards.
static int moved_lane(UOp n, int lane) {
  if (lane < 0 || n->src(0)->shape->dims[static_cast<size_t>(lane)] == Dim(1)) return -1;
  if (n->is(Op::Permute))
    return static_cast<int>(std::ranges::find(n->ints(), lane) - n->ints().begin());
  if (!n->is(Op::Reshape)) return lane;
  const int64_t inside = elements_inside(n->src(0), lane);
  for (int axis = last_axis(n); axis >= 0; --axis)
    if (n->shape->dims[static_cast<size_t>(axis)] != Dim(1) && elements_inside(n, axis) == inside)
      return axis;
  return -1;
}

int Costs::find_lane(UOp n, const Bounds& bounds) const {
  if (is_buffer(n) || will_be_stored(n, bounds)) return last_axis(n);
  UOp largest;
  for (Node* s : n->src())
    if (s->shape && (!largest || by_id_[s->id].bytes > by_id_[largest->id].bytes)) largest = UOp(s);
  if (!largest) return -1;
  const int below = lane(largest);
  return has(n->op, Movement) ? moved_lane(n, below) : below;
}

void Costs::add_parts(UOp s, const Bounds& bounds, const Target& target) {
  const Part read[] = {{s->id, {target.load_cost, element_count(s) * size_of(s->dtype)}}};
  const std::span<const Part> more = will_be_stored(s, bounds) ? read : parts_[s->id];
  union_.clear();
  std::ranges::set_union(joined_, more, std::back_inserter(union_), {}, &Part::id, &Part::id);
  std::swap(joined_, union_);
}

// The cost of n is that of the parts joined so far and its own; `whole`: it is one part from here.
void Costs::keep(UOp n, bool whole, Cost alone) {
  constexpr size_t kMostParts = 32;
  Cost all = alone;
  for (const Part& p : joined_) all.each += p.cost.each, all.bytes += p.cost.bytes;
  by_id_[n->id] = all;
  if (whole || joined_.size() >= kMostParts) joined_.assign(1, {n->id, all});
  else if (alone.each > 0)
    joined_.insert(std::ranges::upper_bound(joined_, n->id, {}, &Part::id), {n->id, alone});
  parts_[n->id] = lists_.keep(joined_);
}

void Costs::weigh(UOp n, const Bounds& bounds, const Target& target) {
  joined_.clear();
  if (is_buffer(n))
    return keep(n, true, {target.load_cost, element_count(n) * size_of(n->dtype)});
  for (Node* s : n->src())
    if (s->shape) add_parts(UOp(s), bounds, target);
  double each = 0, bytes = 0;
  for (const Part& p : joined_) each += p.cost.each, bytes += p.cost.bytes;
  auto as_whole = [&](double whole_each, double whole_bytes) {
    joined_.clear();
    keep(n, true, {whole_each, whole_bytes});
  };
  if (n->is(Op::Reduce)) return as_whole(folds_of(n, bounds.scattered[n->id]) * (each + 1), bytes);
  // Of a part of a buffer, only that part is read.
  if (n->is(Op::Shrink) && is_leaf(n))
    return as_whole(each, std::min(bytes, element_count(n) * size_of(n->dtype)));
  if (n->is(Op::Expand)) {
    // What is repeated a lot will be stored before it is repeated.
    const double once = element_count(n->src(0)), more = once ? element_count(n) / once - 1 : 0;
    if (more * each > 2 * size_of(n->dtype) * target.byte_cost)
      return as_whole(target.load_cost, bytes);
  } else if (has(n->op, Movement) && !n->is(Op::Reshape)) {
    return as_whole(each, bytes);  // at another place it is evaluated again
  }
  const double own = !has(n->op, Alu) ? 0 : has(n->op, Curve) ? target.curve_cost : 1;
  keep(n, false, {own, 0});
}

Costs::Costs(std::span<const UOp> order, const Bounds& bounds, const Targets& targets) {
  by_id_.resize(arena().size());
  lanes_.resize(arena().size(), -1);
  parts_.resize(arena().size());
  for (UOp n : order) {
    if (UOp by = n->is(Op::Reduce) ? gathers_by(n) : UOp()) in_closed_form_.insert(by.get());
    if (!n->shape) continue;
    weigh(n, bounds, targets[n->device]);
    lanes_[n->id] = static_cast<int16_t>(find_lane(n, bounds));
  }
}

}  // namespace mote
