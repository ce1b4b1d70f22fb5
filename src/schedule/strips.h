// Values that are kept while their kernel works on one row of them.
#pragma once
#include <optional>

#include "schedule/costs.h"
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
  int kernel = -1;       // the only one
  int host = -1;         // a request in a fold over exactly one row; -1: none
};

// Positions of a kernel's output loops.
double iterations(const KernelDraft& k);

// Empty where several kernels ask for the value, or none of their loops, or rows have no constant
// size.
std::optional<Strip> find_strip(UOp n, const Draft& draft);

// Whether a row is near enough, and the loops outside are enough for all workers or hardly needed.
bool may_be_kept(UOp n, const Strip& s, const Costs& costs, const Target& target);
// Instead of being stored by a kernel of its own and read so many times.
bool better_kept_than_stored(UOp n, const Strip& s, double evaluations, const Draft& draft,
                             const Costs& costs, const Target& target);
// Instead of being computed so many times.
bool better_kept_than_repeated(UOp n, const Strip& s, double evaluations, const Costs& costs,
                               const Target& target);

}  // namespace mote
