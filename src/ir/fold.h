// Exact trivia decided when a node is made: constants, identities, order, degenerate intervals.
// Only what holds for every value of the dtype (floats: bitwise, NaN and signed zero included).
#pragma once
#include <optional>

#include "ir/graph.h"

namespace mote {

// What to make instead of the parts given.
struct Folded {
  Node* existing = nullptr;      // this node
  std::optional<Arg> literal;    // or a Const of the parts' dtype with this value
  bool swap = false;             // or the same op with its two sources exchanged
};
Folded fold(const Parts& parts);

}  // namespace mote
