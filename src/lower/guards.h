// Values that are hardly ever needed: which nodes a branch may leave out. Inside this folder.
#pragma once
#include "ir/build.h"

namespace mote {

// Choices by one condition, none of which needs another, and what only their rare sides need.
struct RareBranch {
  std::vector<UOp> members;  // Where [1]
  std::vector<UOp> inside;   // elementwise nodes, in no particular order
};
std::vector<RareBranch> find_guards(UOp body);

// An output at a computed place whose gate is the same for a whole tile.
bool is_guarded_write(UOp end);

}  // namespace mote
