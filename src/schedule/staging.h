// Values that are staged: their kernel holds as much of them as one position of its outer loops
// needs, in memory of its own.
#pragma once
#include <optional>

#include "schedule/costs.h"
#include "schedule/ranges.h"

namespace mote {

// How one kernel asks for a value: the same loops outside in all requests, the stage inside.
struct Staging {
  uint64_t inner = 0;    // axes of the value that one position of the outer loops needs as a whole
  uint64_t outer = 0;    // slots of the loops outside
  double fills = 1;      // positions of those: how often the stage is filled
  double steps = 1;      // of them for one position of all but the last
  double elements = 1;   // that it holds
  bool whole = true;     // every request walks through all of it, element by element
  int kernel = -1;       // the only one
  int host = -1;         // a request in a fold over exactly the stage; -1: none
};

// Positions of a kernel's output loops.
double iterations(const KernelDraft& k);

// Empty where several kernels ask for the value, or none of their loops.
std::optional<Staging> find_staging(UOp n, const Draft& draft);

// Whether a stage is near enough, and the loops outside are enough for all workers or hardly
// needed.
bool may_be_staged(UOp n, const Staging& s, const Costs& costs, const Target& target);
// Instead of being stored by a kernel of its own and read so many times.
bool better_staged_than_stored(UOp n, const Staging& s, double evaluations, const Draft& draft,
                               const Costs& costs, const Target& target);
// Instead of being computed so many times.
bool better_staged_than_repeated(UOp n, const Staging& s, double evaluations, const Costs& costs,
                                 const Target& target);

}  // namespace mote
