// Exact trivia decided when a node is made: constants, identities, order, degenerate intervals.
// Only what holds for every value of the dtype (floats: bitwise, NaN and signed zero included).
#pragma once
#include <optional>

#include "ir/graph.h"

namespace mote {

// Whether the two sources of a commuting op stand in the wrong order: constants are right, the rest
// is ordered by hash so that equal values meet.
bool wants_swap(const Parts& parts);

// What to make instead of the parts given; nothing: the node as it is.
struct Folded {
  Node* existing = nullptr;      // this node
  std::optional<Arg> literal;    // or a Const of the parts' dtype with this value
};
Folded fold(const Parts& parts, const Derived& derived);

}  // namespace mote
