// A lowered kernel; its form is specified in lower/lower.h.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/node.h"
#include "ir/target.h"

namespace mote {

// Ranges of these roles are no loops: a value that depends on them is a tile of registers.
inline bool is_tile(Role r) {
  return r == Role::Upcast || r == Role::Unroll || r == Role::Vector || r == Role::Fragment;
}
// Positions of a worker in its block: all workers are there at once.
inline bool is_worker(Role r) { return r == Role::Local || r == Role::Group; }
// A worker is at one position of these.
inline bool is_launched(UOp r) {
  return range_role(r) == Role::Global || is_worker(range_role(r));
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

// Loops of one nest stand in this order, outermost first; Global ranges stand outside all others,
// and workers' next.
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

// Memory of one worker, or of a block: the Param of this slot points to so many bytes, aligned as a
// vector is.
struct Scratch {
  int slot;
  int64_t bytes;
  Space space = Space::Local;
};

// The product of tiles of a kernel, the sum over k (and loops) of a, moved by i and k, times b, by
// k and j: its three ranges of the role Fragment. No sum: there is no such product.
struct TileProduct {
  UOp i, j, k, sum, a, b;  // a and b: before they are cast to the dtype of the sum
  UOp lane;                // of those that multiply; the outputs do not depend on it
};
TileProduct tile_product_of(UOp body);
// The row of the target that can do it, with a and b exchanged where it must be so; -1: none.
int fragment_row(TileProduct& product, const Target& target);

// How a Stage of the space Shared is filled: by stores, by asynchronous copies, or as a box.
enum class Fill : uint8_t { Stores, Copies, Boxes };
// The list of a Stage: [space, size] or [space, size, depth, fill]. A shared one that is several
// deep has as many memories of its size and is filled ahead: in each round of ring_loop() for the
// one depth - 1 rounds later.
Arg stage_arg(Space space, int64_t size, int64_t depth = 1, Fill fill = Fill::Stores);
inline int64_t depth_of(UOp stage) { return stage->ints().size() > 2 ? stage->ints(2) : 1; }
inline Fill fill_of(UOp stage) {
  return stage->ints().size() > 2 ? static_cast<Fill>(stage->ints(3)) : Fill::Stores;
}
// The only reduce loop that a Stage depends on, or else the innermost loop; empty: there is none.
UOp ring_loop(UOp stage);
// The loops that a loop of a Reduce or an End stands in.
std::vector<UOp> loops_around(UOp body, UOp loop);

struct Program {
  UOp linear;                  // lives in the arena it was lowered in
  std::string name;            // e.g. "r_512_32_24_24_25": loops of the kernel
  int params = 0;              // Param slots 0..params-1
  std::vector<Scratch> scratch;
  std::vector<UOp> vars;       // Vars in the order of the kernel's scalar arguments
  int64_t global_extent = 1;   // blocks: positions of all Global ranges
  bool has_global = false;
  std::vector<std::string> var_names() const;
  std::vector<int64_t> grid, block;  // extents of Global ranges, and of Local and Group ones
};

}  // namespace mote
