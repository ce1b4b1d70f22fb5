// A kernel while its actions are chosen: the body so far and what its memory accesses look like.
#pragma once
#include "optimize/optimize.h"

namespace mote {

struct Access {
  UOp memory;
  UOp position;   // without its gate
  bool store;
  uint64_t nest;  // ranges of the reduces it stands in, and of what is around them

  DType dtype() const { return memory->dtype; }
  bool depends_on(UOp range) const { return position->ranges & range->ranges; }
};

struct Sketch {
  UOp body;
  const Target& target;
  std::vector<Action> actions;
  // By slot, as of the last look().
  std::vector<UOp> outputs, reduces;
  std::vector<Access> accesses;

  Sketch(UOp kernel, const Target& on) : body(kernel), target(on) { look(); }
  void look();
  bool act(const Action& a);  // and look; false: refused
  // The slot of the inner range, -1 where the action was refused.
  int split(int slot, int64_t amount, Role role);
  UOp range_of(int slot) const;  // empty: there is none, or no longer
  int next_slot() const;
  static int64_t size(UOp r) { return is_const(r->src(0)) ? r->src(0)->arg.i : 0; }
};

// Register tile, blocks and packed operands of a sum of products with reuse on two output axes.
// False: the kernel is something else and stays as it is.
bool tile_contraction(Sketch& sketch);

}  // namespace mote
