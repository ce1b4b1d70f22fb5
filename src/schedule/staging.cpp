#include "schedule/staging.h"

#include <algorithm>
#include <bit>

namespace mote {

namespace {

bool covers_axis(UOp position, const Dim& size) {
  if (!position->is(Op::Range)) return false;
  return size.symbol ? position->src(0) == loop_extent(size)
                     : position->src(0)->is_const(size.size);
}

// The axis whose position is the loop in all requests; -1: none.
int axis_of(UOp loop, UOp n, const Entry& e, uint64_t free) {
  for (uint64_t rest = free; rest; rest &= rest - 1) {
    const auto d = static_cast<size_t>(std::countr_zero(rest));
    if (!covers_axis(loop, n->shape->dims[d])) continue;
    if (std::ranges::all_of(e.requests, [&](const Request& r) { return r.position[d] == loop; }))
      return static_cast<int>(d);
  }
  return -1;
}

// The slots of the loops through a stage, 0 where the request does something else.
uint64_t loops_through(UOp n, const Request& r, uint64_t inner) {
  uint64_t slots = 0;
  for (uint64_t rest = inner; rest; rest &= rest - 1) {
    const auto d = static_cast<size_t>(std::countr_zero(rest));
    UOp p = r.position[d];
    if (!covers_axis(p, n->shape->dims[d]) || (slots & p->ranges)) return 0;
    slots |= p->ranges;
  }
  return slots;
}

bool others_use(const Entry& e, size_t host, uint64_t slots) {
  for (size_t i = 0; i < e.requests.size(); ++i) {
    if (i == host) continue;
    for (UOp p : e.requests[i].position)
      if (p->ranges & slots) return true;
  }
  return false;
}

// Whether something is folded below n that has one element for each filling of a stage: no element
// of n is known before all of the stage is.
bool folds_all(UOp n, double fills) {
  constexpr size_t kMost = 64;
  std::vector<UOp> seen{n};
  for (size_t at = 0; at < seen.size() && seen.size() < kMost; ++at) {
    if (seen[at]->is(Op::Reduce)) {
      if (static_cast<double>(seen[at]->shape->count()) == fills) return true;
      continue;
    }
    if (OpSet{Op::After, Op::Contiguous, Op::Copy, Op::Source}.has(seen[at]->op)) continue;
    for (Node* s : seen[at]->src())
      if (s->shape && !std::ranges::count(seen, UOp(s))) seen.emplace_back(s);
  }
  return false;
}

constexpr double kMany = 4;

// Of one element.
double cost_of(UOp n, const Costs& costs) {
  return costs[n->is(Op::Contiguous) ? n->src(0) : n].each;
}

}  // namespace

double iterations(const KernelDraft& k) {
  double n = 1;
  for (UOp range : k.ranges) n *= static_cast<double>(range->src(0)->hi);
  return n;
}

std::optional<Staging> find_staging(UOp n, const Draft& draft) {
  if (has(n->op, Movement) || widens(n) || n->dtype == DType::index) return {};
  const Entry& e = draft.entries[n->id];
  if (e.requests.empty() || n->shape->dims.size() > 64) return {};
  const int kernel = e.requests[0].kernel;
  const KernelDraft& k = draft.kernels[static_cast<size_t>(kernel)];
  if (k.whole || k.scatters) return {};
  for (const Request& r : e.requests)
    if (r.kernel != kernel) return {};
  Staging s;
  s.kernel = kernel;
  for (size_t d = 0; d < n->shape->dims.size(); ++d)
    if (n->shape->dims[d] != Dim(1)) s.inner |= uint64_t{1} << d;
  for (UOp loop : k.ranges) {
    const int axis = axis_of(loop, n, e, s.inner);
    if (axis < 0) break;
    s.inner &= ~(uint64_t{1} << axis);
    s.outer |= loop->ranges;
    s.steps = static_cast<double>(loop->src(0)->hi);
    s.fills *= s.steps;
  }
  if (!s.inner) return {};
  for (uint64_t rest = s.inner; rest; rest &= rest - 1) {
    const Dim& size = n->shape->dims[static_cast<size_t>(std::countr_zero(rest))];
    s.elements *= static_cast<double>(size.size);
  }
  uint64_t last = 0;
  for (size_t i = 0; i < e.requests.size(); ++i) {
    const Request& r = e.requests[i];
    const uint64_t slots = loops_through(n, r, s.inner);
    s.whole &= slots != 0;
    if (n->is(Op::Reduce)) continue;  // keeps loops of its own, to be tiled
    if (!slots || (slots & ~k.reduce_slots) || (r.scope & ~(s.outer | slots))) continue;
    // Of several the loop made last: what is folded in it needs no other's result, in whatever
    // order they asked.
    if (slots > last && r.valid->is_const(1) && !others_use(e, i, slots))
      s.host = static_cast<int>(i), last = slots;
  }
  return s;
}

bool may_be_staged(UOp n, const Staging& s, const Costs& costs, const Target& target) {
  if (s.elements * size_of(n->dtype) > static_cast<double>(target.l2_bytes) / 8) return false;
  return s.fills >= target.parallel_results ||
         element_count(n) * cost_of(n, costs) <= target.launch_cost;
}

bool better_staged_than_stored(UOp n, const Staging& s, double evaluations, const Draft& draft,
                             const Costs& costs, const Target& target) {
  const KernelDraft& k = draft.kernels[static_cast<size_t>(s.kernel)];
  // What is to be in some memory may be in this one. Without loops outside all is done by one
  // worker, which pays for little work only.
  if (n->is(Op::Contiguous))
    return s.fills >= target.parallel_results || iterations(k) <= target.launch_cost;
  if (!s.whole) return false;
  // What many results are made of, and what is known only as a whole: what main memory
  // would be asked for again is near. A product with them reads as many other values for each
  // element as there are results: those should not come from far either, for every filling.
  const double results = evaluations / element_count(n), l2 = static_cast<double>(target.l2_bytes);
  if (!n->is(Op::Reduce) && s.fills > 1 && results >= kMany && folds_all(n, s.fills))
    return s.elements * results * size_of(n->dtype) <= 2 * l2;
  // What else they are made of is done here if all that is read for it stays near, too.
  const double operands = costs[n].bytes / s.fills * s.steps;
  return k.staged > 0 && operands <= l2 / 2;
}

bool better_staged_than_repeated(UOp n, const Staging& s, double evaluations, const Costs& costs,
                               const Target& target) {
  const double saved = (evaluations - element_count(n)) * cost_of(n, costs);
  const double moved = 2 * (element_count(n) + evaluations) * target.load_cost;
  return s.host >= 0 && saved > moved && saved > target.launch_cost * 0.02;
}

}  // namespace mote
