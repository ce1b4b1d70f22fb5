// Where an expression fused without end would outgrow the target.
#include <algorithm>

#include "schedule/ranges.h"

namespace mote {

namespace {

struct Load {
  int size = 0;                 // ops when everything below is fused (shared parts counted again)
  std::vector<uint32_t> leaves; // distinct buffers read, by node id
};

void merge(std::vector<uint32_t>& into, const std::vector<uint32_t>& from) {
  std::vector<uint32_t> both;
  std::ranges::set_union(into, from, std::back_inserter(both));
  into.swap(both);
}

}  // namespace

std::vector<bool> bound_kernels(std::span<const UOp> order, const Target& target) {
  std::vector<Load> load(arena().size());
  std::vector<bool> forced(arena().size(), false);
  // One argument is kept for the output.
  const auto most = static_cast<size_t>(std::max(2, target.max_buffers - 1));
  for (UOp n : order) {
    Load& mine = load[n->id];
    if (n->is(Op::Param) || n->is(Op::After)) {
      mine = {1, {n->id}};
      continue;
    }
    if (has(n->op, Effect)) continue;
    auto total = [&] {
      mine = {1, {}};
      for (Node* s : n->src()) {
        mine.size += load[s->id].size;
        merge(mine.leaves, load[s->id].leaves);
      }
    };
    total();
    // Store the heaviest sources until the rest fits.
    while (mine.size > target.max_ops || mine.leaves.size() > most) {
      Node* heaviest = nullptr;
      for (Node* s : n->src())
        if (load[s->id].size > 1 &&
            (!heaviest || load[s->id].size > load[heaviest->id].size))
          heaviest = s;
      if (!heaviest) break;
      while (has(heaviest->op, Movement)) heaviest = heaviest->sources[0];
      forced[heaviest->id] = true;
      for (Node* s : n->src()) {
        Node* at = s;
        while (at != heaviest && has(at->op, Movement)) at = at->sources[0];
        if (at == heaviest) load[s->id] = {1, {heaviest->id}};
      }
      load[heaviest->id] = {1, {heaviest->id}};
      total();
    }
    if (n->is(Op::Contiguous) || n->is(Op::Copy)) mine = {1, {n->id}};
  }
  return forced;
}

}  // namespace mote
