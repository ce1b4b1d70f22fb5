// Rounds of a loop in which a tile lies within a size that a variable gives: all but the last ones.
#pragma once
#include <map>

#include "render/tile.h"

namespace mote {

// A comparison of positions that has one outcome for the whole tile in most rounds: a + reach < b
// is that outcome, a and b being what it compares at the tile's first position.
struct EdgeTest {
  UOp less;  // Lt(a, b)
  bool outcome;
  int64_t reach;
};

// By the loop: those in it, where it has no loops inside. Of a size that is a number only what the
// last of many rounds alone goes beyond.
std::map<const Node*, std::vector<EdgeTest>> edge_tests(const Program& program, Tiles& tiles);

}  // namespace mote
