#include "lower/lower.h"

#include <algorithm>

#include "algebra/algebra.h"
#include "base/error.h"
#include "ir/freedoms.h"
#include "rewrite/rewrite.h"

namespace mote {

// "e_4096" elementwise, "r_64_64_128" with a reduce: the loops from outside in, tiles marked.
static std::string kernel_name(UOp linear) {
  std::string loops;
  bool reduces = false;
  for (Node* n : linear->src()) {
    if (n->op != Op::Range) continue;
    const Role role = range_role(UOp(n));
    reduces |= role == Role::Reduce || role == Role::Accumulate;
    loops += "_" + std::to_string(n->sources[0]->hi);
  }
  for (UOp n : toposort(linear)) {
    if (!n->is(Op::Range) || !is_tile(range_role(n))) continue;
    loops += std::string("_") + name(range_role(n))[0] + std::to_string(n->src(0)->hi);
  }
  return (reduces ? "r" : "e") + loops;
}

static void note_memory(UOp param, Program& p) {
  const int slot = static_cast<int>(param->ints(0));
  if (space_of(param) == Space::Global) p.params = std::max(p.params, slot + 1);
  else p.scratch.push_back({slot, param->ints(1) * size_of(param->dtype), space_of(param)});
}

static Program describe(UOp linear) {
  Program p;
  p.linear = linear;
  p.name = kernel_name(linear);
  for (UOp n : toposort(linear)) {
    if (n->is(Op::Param)) note_memory(n, p);
    if (n->is(Op::Var)) p.vars.push_back(n);
  }
  for (Node* n : linear->src()) {
    if (n->op != Op::Range) continue;
    const Role role = range_role(UOp(n));
    if (role != Role::Global && !is_worker(role)) continue;
    ensure(role == Role::Global || n->sources[0]->op == Op::Const,
           "workers share out a loop whose extent is not a number");
    (role == Role::Global ? p.grid : p.block).push_back(n->sources[0]->hi);
  }
  p.has_global = !p.grid.empty();
  for (int64_t n : p.grid) p.global_extent *= n;
  std::ranges::sort(p.vars, {}, [](UOp v) { return v->arg.object->str; });
  return p;
}

// clang-format off
static const Pass passes[] = {
    {"simplify",           [](UOp b, const Target&) { return simplify(b); },
     "actions leave split positions behind, and the passes below read less without them"},
    {"make fragments",     make_fragments,
     "first, because it says who the workers are"},
    {"combine groups",     combine_groups,
     "before stages are placed, because it makes some"},
    {"place stages",       [](UOp b, const Target&) { return place_stages(b); },
     "early, because what fills a stage is a loop nest of its own with loads of its own"},
    {"write once",         write_once,
     "when all effects on memory are there, and gates are still in their positions"},
    {"insert loads",       [](UOp b, const Target&) { return insert_loads(b); },
     "decompositions need to know what is memory and what is gated"},
    {"decompose",          decompose,
     "positions are index still, exact and without width, so that their divisions stay exact"},
    {"fuse products",      fuse_products,
     "when no rule will take products apart again, and before their places in loops are known"},
    {"choose index width", choose_index_width,
     "when all positions there will be are known"},
    {"join bounds",        join_bounds,
     "when positions have a width to wrap at"},
    {"linearize",
     [](UOp b, const Target& t) { return linearize(b, contracts(t) && !t.fuses_itself); },
     "from here on there is an order, and nothing is rewritten"},
    {"place barriers",     place_barriers,
     "on the list, because loops and order say who reads what others wrote"},
    {"place waits",        place_waits,
     "last, because a barrier may have to wait, too"},
};
// clang-format on

Program lower(UOp body, const Target& target) { return describe(run_passes(body, passes, target)); }

}  // namespace mote
