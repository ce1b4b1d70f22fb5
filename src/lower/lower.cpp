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
  if (static_cast<Space>(param->ints(2)) == Space::Local)
    p.scratch.push_back({slot, param->ints(1) * size_of(param->dtype)});
  else
    p.params = std::max(p.params, slot + 1);
}

static Program describe(UOp linear) {
  Program p;
  p.linear = linear;
  p.name = kernel_name(linear);
  for (UOp n : toposort(linear)) {
    if (n->is(Op::Param)) note_memory(n, p);
    if (n->is(Op::Var)) p.vars.push_back(n);
    if (n->is(Op::Range) && range_role(n) == Role::Global) {
      ensure(is_const(n->src(0)), "workers share out a loop whose extent is not a number");
      p.has_global = true;
      p.global_extent = n->src(0)->hi;
    }
  }
  std::ranges::sort(p.vars, {}, [](UOp v) { return v->arg.object->str; });
  return p;
}

// clang-format off
static const Pass passes[] = {
    {"simplify",           [](UOp b, const Target&) { return simplify(b); },
     "actions leave split positions behind, and the passes below read less without them"},
    {"place stages",       [](UOp b, const Target&) { return place_stages(b); },
     "first, because what fills a stage is a loop nest of its own with loads of its own"},
    {"insert loads",       [](UOp b, const Target&) { return insert_loads(b); },
     "decompositions need to know what is memory and what is gated"},
    {"decompose",          decompose,
     "positions are index still, exact and without width, so that their divisions stay exact"},
    {"fuse products",      fuse_products,
     "when no rule will take products apart again, and before their places in loops are known"},
    {"choose index width", choose_index_width,
     "when all positions there will be are known"},
    {"linearize",
     [](UOp b, const Target& t) { return linearize(b, contracts(t) && !t.fuses_itself); },
     "last: from here on there is an order, and nothing is rewritten"},
};
// clang-format on

Program lower(UOp body, const Target& target) { return describe(run_passes(body, passes, target)); }

}  // namespace mote
