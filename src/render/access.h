// How a Load or Store of a tile walks memory: which registers' addresses differ by constants only,
// and along which axis its elements are neighbours.
#pragma once
#include "render/tile.h"

namespace mote {

struct TileAccess {
  UOp position;
  UOp gate;  // may be empty
  int slot;
  DType dtype;
  DType unit;             // of the memory, which positions count
  int parts;              // of the memory in an element: several if it is a word
  TileSet linear;         // ranges that only move the address by a constant
  TileSet position_open;  // the others the position depends on
  int lanes;              // of the statement
  bool streamed;
  bool lane_step_known;
  int64_t lane_step;
};

TileAccess access_of(Tiles& tiles, UOp statement, UOp index, UOp gate);
TileAccess without_gate(TileAccess a);

bool is_contiguous(const TileAccess& a);
// A few vectors have all lanes and what lies between them.
bool is_little_apart(const TileAccess& a);
// The axis along which a tile whose lanes lie apart is contiguous, whole vectors of it; -1: none.
int transposed_axis(Tiles& tiles, const TileAccess& a, TileSet open);
// The axis of two neighbours where lanes step over two; -1: none.
int paired_axis(Tiles& tiles, const TileAccess& a, TileSet open);

}  // namespace mote
