// From a kernel whose loops are chosen to a linear program.
//
// Takes: a kernel body Sink(End(Store(Index(Param, position), value), ranges...), ...) in the
// current arena, where an End may hold a Fetch too; every Range has a role. Gives: a Program, a
// Linear node whose sources are the statements in order:
//
//   Range                      opens a loop over it (roles Global, Loop, Reduce, Accumulate,
//                              Ordered). A Global is always the outermost loop and runs over
//                              [begin, end) given by the caller; all others run from 0 to their
//                              extent (src 0).
//                              Next come Local and Group ranges: positions of the worker in its
//                              block, which is at one of them only
//   Barrier                    all workers of the block have come here
//   Shuffle, Fragment, Wait    as ops.def has them
//   End(effect, range)         closes that loop
//   Alu, Load, Reduce          define a value
//   Store(place, value[, gate])  writes; place is Index(memory, position) or a Reg
//   Fetch(place)               asks for what will be read; the position may be anywhere. It stands
//                              in loops of others: where there are none, it is left out
//
// Const, Var, Param, Index, Reg, After and tile Ranges stand inside statements as operands only.
// Values are *tiles*: a node that depends on ranges of the tile roles (Upcast, Unroll, Vector) has
// one element for each combination of their positions, and elementwise ops work element by element
// (a source that does not depend on a tile range is the same for all its positions). A Vector
// range is a vector axis, of constant extent. Loop nests may have one each: no value depends on two
// of them.
//   Load(Index(memory, i)[, gate])  the element (0 where the gate is false: memory is not touched)
//   Load(After(Reg, effect...))     what the register tile holds after those effects
//   Reg(tile ranges...)             one register per combination of positions of its tile ranges
//   Reduce(value, tile ranges...)   folds those ranges of the tile, in ascending order of position
//                                   (the order of combination within a vector is a fixed tree)
// A memory is a Param or After(Param, effect...). Params of the space local are memory of the
// worker that lasts for one call, those of the space shared of its block; its content at the start
// is anything.
// All dtypes are ones the target has: no index, and where the target lacks a float type its values
// are computed in f32 and rounded after each op, its memory is the unsigned type of that width.
// A loop of the role Loop whose extent is a bool is a branch: it is run if some element of a tile
// needs what it computes.
// Ops that the target lacks are decomposed (decompose.h). IDiv and IMod remain only where the
// divisor cannot be 0 and does not overflow. No Invalid, FloorDiv, FloorMod is left.
#pragma once
#include <string>
#include <vector>

#include "ir/build.h"
#include "ir/program.h"
#include "ir/target.h"

namespace mote {

Program lower(UOp body, const Target& target);

// ---- the passes; lower.cpp says why they stand in this order

// Ranges of the role Fragment become lanes and registers, and the sum over them a Fragment.
UOp make_fragments(UOp body, const Target& target);
// Reduces over workers become those of each worker's own part, shuffles within a warp, and Stages
// of partial results in memory of the block.
UOp combine_groups(UOp body, const Target& target);
// Staged values become memory of the worker or of the block (Params of the spaces local and shared)
// and the effects that fill it.
UOp place_stages(UOp body);
// What only some workers of a block share out, the first of the others writes.
UOp write_once(UOp body, const Target& target);
// Loads and gates: every Index that is read becomes a Load, gates leave the positions.
UOp insert_loads(UOp body);
// Div, mod, narrow floats, curves, wide integers: only ops and dtypes of the target are left.
UOp decompose(UOp body, const Target& target);
// A product that goes into one sum and nothing else is fused with it (MulAdd) where that contracts.
UOp fuse_products(UOp body, const Target& target);
bool is_fusable(DType dtype);
// index becomes i32 where every position fits and the target prefers it, else i64.
UOp choose_index_width(UOp body, const Target& target);
// 0 <= x and x < n of a place x that was read become one comparison without sign.
UOp join_bounds(UOp body, const Target& target);
// Loops, accumulators, order. With `fuse`, products that are folded into sums are fused with them.
UOp linearize(UOp body, bool fuse = false);
// Barriers between writes and reads of the block's memory, in no loop that workers leave at
// different times.
UOp place_barriers(UOp linear, const Target& target);
// Waits before a pending result is used, and before a barrier: what it is made of may change then.
UOp place_waits(UOp linear, const Target& target);

}  // namespace mote
