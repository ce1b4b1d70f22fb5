#include "lower/lower.h"

#include <algorithm>

#include "algebra/algebra.h"

namespace mote {

// "e_4096" elementwise, "r_64_64_128" with a reduce: the loops from outside in, tiles marked.
static std::string kernel_name(UOp linear) {
  std::string loops;
  bool reduces = false;
  for (Node* n : linear->src()) {
    if (n->op != Op::Range) continue;
    const Role role = range_role(UOp(n));
    reduces |= role == Role::Reduce || role == Role::Block;
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
    if (n->is(Op::Range) && range_role(n) == Role::Thread) {
      p.threaded = true;
      p.thread_extent = n->src(0)->hi;
    }
  }
  std::ranges::sort(p.vars, {}, [](UOp v) { return v->arg.object->str; });
  return p;
}

Program lower(UOp body, const Target& target) {
  body = place_stages(simplify(body));
  body = insert_loads(body);
  body = decompose(body, target);
  body = choose_index_width(body, target);
  return describe(linearize(body));
}

}  // namespace mote
