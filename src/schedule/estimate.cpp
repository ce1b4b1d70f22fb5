// Work of a kernel body: every op times the loops it stands in, every distinct buffer once.
#include <bit>
#include <cmath>

#include "schedule/schedule.h"

namespace mote {

Estimate estimate(UOp body) {
  Estimate e;
  double extent[kSlots];
  for (double& x : extent) x = 1;
  std::vector<UOp> order = toposort(body);
  for (UOp n : order)
    if (n->is(Op::Range))
      extent[range_slot(n)] = static_cast<double>(n->src(0)->hi);
  auto times = [&](uint64_t slots) {
    double k = 1;
    for (uint64_t rest = slots; rest; rest &= rest - 1) k *= extent[std::countr_zero(rest)];
    return k;
  };
  for (UOp n : order) {
    if (n->dtype == DType::index) continue;
    if (has(n->op, Alu) && !n->is(Op::Cast) && !n->is(Op::Bitcast)) e.ops += times(n->ranges);
    if (n->is(Op::Reduce)) e.ops += times(n->src(0)->ranges);
    if (n->is(Op::Index) && n->src(0)->is(Op::Param)) {
      double places = times(n->src(1)->ranges), all = static_cast<double>(n->src(0)->ints(1));
      e.bytes += std::fmin(places, all) * size_of(n->dtype);
    }
  }
  return e;
}

}  // namespace mote
