// A reduce of very much into very little runs on one core: it becomes two, the first with an axis
// of partial results.
#include <algorithm>

#include "ir/freedoms.h"
#include "rewrite/rewrite.h"
#include "schedule/ranges.h"

namespace mote {

namespace {

UOp listed(Op op, UOp a, std::span<const int64_t> ints) {
  return make(op, a->dtype, {a}, Arg::of(intern_arg(ints)));
}

UOp in_two_steps(UOp n, UOp value, const Target& target) {
  if (value->shape->symbolic || !may_reorder(n)) return {};
  double out = static_cast<double>(n->shape->count());
  double in = static_cast<double>(value->shape->count());
  if (out == 0 || out >= target.parallel_results || in < target.launch_cost) return {};
  std::vector<int64_t> sizes = value->shape->sizes();
  int64_t axis = -1;
  for (size_t i = 1; i < n->ints().size(); ++i)
    if (axis < 0 || sizes[static_cast<size_t>(n->ints(i))] > sizes[static_cast<size_t>(axis)])
      axis = n->ints(i);
  int64_t length = sizes[static_cast<size_t>(axis)], parts = 0;
  for (int64_t f = std::min<int64_t>(256, length / kMuch); f >= 8; --f)
    if (length % f == 0) {
      parts = f;
      break;
    }
  if (!parts) return {};
  // (.., length, ..) as (.., parts, length/parts, ..): all but `parts` is folded first.
  std::vector<int64_t> shape = sizes, first{n->ints(0)}, second{n->ints(0)};
  shape[static_cast<size_t>(axis)] = parts;
  shape.insert(shape.begin() + axis + 1, length / parts);
  for (size_t i = 1; i < n->ints().size(); ++i) {
    int64_t a = n->ints(i);
    first.push_back(a >= axis ? a + 1 : a);
  }
  second.push_back(axis);
  UOp partial = listed(Op::Reduce, listed(Op::Reshape, value, shape), first);
  partial = make(Op::Contiguous, partial->dtype, {partial});
  UOp whole = listed(Op::Reduce, partial, second);
  return listed(Op::Reshape, whole, n->shape->sizes());
}

}  // namespace

UOp two_step_reduce(UOp sink, const Targets& targets) {
  return map_nodes("two-step reduce", sink, [&](UOp n, const Mapped& now) {
    return n->is(Op::Reduce) ? in_two_steps(n, now.src[0], targets[n->device]) : UOp();
  });
}

}  // namespace mote
