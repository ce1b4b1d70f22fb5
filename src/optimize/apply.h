// What the applications of actions share; inside this folder.
#pragma once
#include "optimize/optimize.h"

namespace mote {

struct Ranges {
  std::vector<UOp> all;
  int next_slot = 0;
  explicit Ranges(UOp body);
  UOp find(int slot) const;  // empty: there is none
};

// How many positions a range has at most, 0 where that is not known here.
int64_t most_positions(UOp range);

// Says why and is empty.
UOp refuse(std::string* refused, std::string why);

UOp apply_stage(UOp body, const Action& a, const Ranges& ranges, std::string* refused);

}  // namespace mote
