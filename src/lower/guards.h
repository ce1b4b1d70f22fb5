// Values that are hardly ever needed: which nodes a branch may leave out. Inside this folder.
#pragma once
#include "ir/build.h"

namespace mote {

// Choices by one condition, none of which needs another, and what only their rare sides need.
struct Guard {
  std::vector<UOp> members;  // Where [1]
  std::vector<UOp> inside;   // elementwise nodes, in no particular order
};
std::vector<Guard> find_guards(UOp body);

}  // namespace mote
