// A lowered kernel; its form is specified in lower/lower.h.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/node.h"

namespace mote {

// Ranges of these roles are no loops: a value that depends on them is a tile of registers.
inline bool is_tile(Role r) {
  return r == Role::Upcast || r == Role::Unroll || r == Role::Vector;
}
inline bool is_loop(UOp r) { return r->is(Op::Range) && !is_tile(range_role(r)); }
inline bool is_tile_range(UOp r) { return r->is(Op::Range) && is_tile(range_role(r)); }

// What is read or written at a place of a program: a Param, a Reg or an Index.
inline UOp without_effects(UOp place) {
  while (place->is(Op::After)) place = place->src(0);
  return place;
}

// A value or Store that depends on two Vector ranges, which none may; empty if there is none.
UOp value_of_two_vectors(UOp root);

// Loops of one nest stand in this order, outermost first; a Global range stands outside all others.
int nest_order(UOp range);

// A range of a kernel whose extent depends on one that does not stand outside it: on a later loop
// of its nest, or on a tile, which is no loop. None may; empty if there is none.
UOp misplaced_loop(UOp root);

// The ranges that a Stage, Reduce or End closes; none: it is something else.
std::span<Node* const> closed_ranges(UOp n);

// The range of a row that is staged as it is counted; empty: the stage holds something else.
UOp row_range(UOp stage);

// Of a Reduce the ranges of the role Accumulate: they stand among the loops of what stores it.
std::vector<UOp> accumulated_ranges(UOp n);

// Memory of one worker: the Param of this slot points to so many bytes, aligned as a vector is.
struct Scratch {
  int slot;
  int64_t bytes;
};

struct Program {
  UOp linear;                  // lives in the arena it was lowered in
  std::string name;            // e.g. "r_512_32_24_24_25": loops of the kernel
  int params = 0;              // Param slots 0..params-1
  std::vector<Scratch> scratch;
  std::vector<UOp> vars;       // Vars in the order of the kernel's scalar arguments
  int64_t global_extent = 1;   // of the Global range; 1: no such range
  bool has_global = false;
};

}  // namespace mote
