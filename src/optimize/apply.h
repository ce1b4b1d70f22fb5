// What the applications of actions share; inside this folder.
#pragma once
#include "optimize/optimize.h"

namespace mote {

// How many actions may make: lowering gives some nests loops of their own.
constexpr int kMostRanges = kSlots - 16;

struct Ranges {
  std::vector<UOp> all;
  int next_slot = 0;
  explicit Ranges(UOp body);
  UOp find(int slot) const;  // empty: there is none
};

// Slots of the ranges that an index moves with, without those that only say how far others go.
uint64_t ranges_in(UOp position);

// How many positions a range has at most, 0 where that is not known here.
int64_t most_positions(UOp range);

// Where a range that is run as far as most_positions() has the position it is at: `skip` gives it
// the extent where(gate, n, 0), and `bound` one that depends on other loops.
UOp runs_where(UOp range);

// A read that might leave its memory where the gate is false happens only where it is true.
UOp gated_read(UOp read, UOp gate);
// All of a value, without those that depend on a range of the slots `except`.
UOp gated_reads(UOp value, UOp gate, uint64_t except);

// The range of a row that is staged as it is counted; empty: the stage holds something else.
UOp row_range(UOp stage);

// What lowering relies on and this body does not keep; empty: it is legal.
std::string broken_law(UOp body);

// Whether a memory is read: what stands at one of its places is a value.
bool is_read(std::span<const UOp> order, UOp memory);

// Says why and is empty.
UOp refuse(std::string* refused, std::string why);

// The Reduce over this range; empty where there is none or several.
UOp only_reduce(UOp body, UOp range, std::string* refused);

UOp apply_bound(UOp body, UOp row, std::string* refused);
UOp apply_divide(UOp body, UOp r, std::string* refused);
UOp apply_stage_rows(UOp body, const Action& a, const Ranges& ranges, std::string* refused);
UOp apply_stage(UOp body, const Action& a, const Ranges& ranges, std::string* refused);
UOp apply_fetch(UOp body, const Action& a, const Ranges& ranges, std::string* refused);
UOp apply_ahead(UOp body, const Action& a, std::string* refused);

// What is read from a Param in dependence on all of these slots; none: refused.
std::vector<UOp> reads_of(UOp body, int param, uint64_t slots, std::string* refused);
// The same where it is one read; empty: refused.
UOp only_read(UOp body, int param, uint64_t slots, std::string* refused);

}  // namespace mote
