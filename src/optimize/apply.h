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

// The range alone; its `ranges` are also those that its extent depends on.
inline uint64_t slot_bit(UOp range) { return uint64_t{1} << range_slot(range); }

// Slots of the ranges that an index moves with, without those that only say how far others go.
uint64_t ranges_in(UOp position);

// How many positions a range has at most, 0 where that is not known here.
int64_t most_positions(UOp range);

// Says why and is empty.
UOp refuse(std::string* refused, std::string why);

UOp apply_bound(UOp body, UOp row, std::string* refused);
UOp apply_divide(UOp body, UOp r, std::string* refused);
UOp apply_strip(UOp body, const Action& a, const Ranges& ranges, std::string* refused);
UOp apply_stage(UOp body, const Action& a, const Ranges& ranges, std::string* refused);

}  // namespace mote
