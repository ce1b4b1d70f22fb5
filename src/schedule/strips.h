// Values that are kept while their kernel works on one row of them.
#pragma once
#include <optional>

#include "schedule/ranges.h"

namespace mote {

// How one kernel asks for a value: the same loops outside in all requests, its rows inside.
struct Strip {
  uint64_t inner = 0;    // axes of the value that one position of the outer loops needs as a whole
  uint64_t outer = 0;    // slots of the loops outside
  double rows = 1;       // positions of those
  double steps = 1;      // of them for one position of all but the last
  double elements = 1;   // of a row
  bool whole = true;     // every request walks through all of a row, element by element
  int host = -1;         // a request in a fold over exactly one row; -1: none
};

// Empty where several kernels ask for the value, or none of their loops, or rows have no constant
// size.
std::optional<Strip> find_strip(UOp n, const Draft& draft);

// Whether something is folded below n that has one element for each of so many rows: no element
// of n is known before all of the row is.
bool folds_rows(UOp n, double rows);

}  // namespace mote
