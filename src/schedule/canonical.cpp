// Numbers for the leaves of a kernel that depend only on how they are used. Commuting sources stand
// in the order of their hashes, and those contain the old numbers: two layers of a network would
// otherwise give two kernels that differ in nothing else.
#include "base/hash.h"
#include "base/lifetime.h"
#include "ir/freedoms.h"
#include "schedule/ranges.h"

namespace mote {

namespace {

// By node id; kept between calls so that a call costs only its own nodes.
struct Columns {
  std::vector<uint64_t> colour, context;
};

bool is_param_or_range(UOp n) { return n->is(Op::Param) || n->is(Op::Range); }

// What is known of a leaf without its number.
uint64_t leaf_colour(UOp n) {
  if (n->is(Op::Range)) return mix(n->src(0)->hash, static_cast<uint64_t>(n->ints(1)));
  return mix(static_cast<uint64_t>(n->dtype), static_cast<uint64_t>(n->ints(1)));
}

// From the sources of each node, in either order where they commute.
void colour_upwards(std::span<const UOp> order) {
  auto& colour = PerThread<Columns>::get().colour;
  for (UOp n : order) {
    if (is_param_or_range(n)) continue;
    uint64_t h = mix(static_cast<uint64_t>(n->op) << 8 | static_cast<uint64_t>(n->dtype),
                     arg_hash(n->op, n->arg));
    if (has(n->op, Commutes)) {
      uint64_t a = colour[n->src(0)->id], b = colour[n->src(1)->id];
      h = mix(h, mix(a + b, a ^ b));
    } else {
      for (Node* s : n->src()) h = mix(h, colour[s->id]);
    }
    colour[n->id] = h;
  }
}

// From the users of each node: tells leaves apart that look alike but are used elsewhere too.
void colour_downwards(std::span<const UOp> order, std::span<const UOp> roots) {
  auto& [colour, context] = PerThread<Columns>::get();
  for (UOp n : order) context[n->id] = 0;
  for (size_t i = 0; i < roots.size(); ++i) context[roots[i]->id] += mix(i, roots.size());
  for (size_t i = order.size(); i-- > 0;) {
    UOp n = order[i];
    uint64_t own = mix(context[n->id], colour[n->id]);
    for (uint32_t s = 0; s < n->nsrc; ++s)
      context[n->src(s)->id] += mix(own, has(n->op, Commutes) ? 0 : s + 1);
  }
}

// Leaves as they are first met, the smaller colour first where sources commute.
void collect(std::span<const UOp> roots, std::vector<UOp>& out) {
  auto& [colour, context] = PerThread<Columns>::get();
  std::vector<UOp> stack(roots.rbegin(), roots.rend());
  while (!stack.empty()) {
    UOp n = stack.back();
    stack.pop_back();
    if (!context[n->id]) continue;
    context[n->id] = 0;
    if (is_param_or_range(n)) out.push_back(n);
    bool swap = has(n->op, Commutes) && colour[n->src(1)->id] < colour[n->src(0)->id];
    // The numbers of loops say how they nest: where that matters, before those who use them.
    const bool nests = n->is(Op::Reduce) && !may_reorder(n);
    if (nests) stack.push_back(n->src(0));
    for (uint32_t i = n->nsrc; i-- > nests;) stack.push_back(n->src(swap ? 1 - i : i));
  }
}

}  // namespace

std::vector<UOp> canonical_leaves(std::span<const UOp> roots, std::span<const UOp> numbered) {
  auto& [colour, context] = PerThread<Columns>::get();
  if (colour.size() < arena().size()) {
    colour.resize(arena().size() * 2);
    context.resize(arena().size() * 2);
  }
  std::vector<UOp> order = toposort(roots);
  for (UOp n : order)
    if (is_param_or_range(n)) colour[n->id] = leaf_colour(n);
  for (size_t i = 0; i < numbered.size(); ++i) colour[numbered[i]->id] = mix(i, ~uint64_t{0});
  colour_upwards(order);
  colour_downwards(order, roots);
  for (UOp n : order)
    if (is_param_or_range(n)) colour[n->id] = mix(colour[n->id], context[n->id]);
  colour_upwards(order);
  for (UOp n : order) context[n->id] = 1;  // from here on: it is still to be visited
  std::vector<UOp> leaves;
  collect(roots, leaves);
  return leaves;
}

}  // namespace mote
