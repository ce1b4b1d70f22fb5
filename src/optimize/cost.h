// How long a kernel takes: one estimate behind every choice of loops.
#pragma once
#include "ir/build.h"
#include "ir/target.h"

namespace mote {

// A kernel is a set of nests: its outputs, every Stage and every Reduce, each in the loops of
// others up to the innermost that it depends on. A nest takes the time of what it does most of, and
// shows a part of the rest: its instructions, and lines of memory that come from beyond each cache.
// What the loops inside some depth touch stays in a cache that has room for all of it.
struct Spent {
  double total = 0;  // these in units of one vector operation; of one worker
  double compute = 0, near = 0, far = 0, memory = 0;
  double steps = 0;  // positions of all loops that are run through, stages filled again
  struct Nest {
    uint64_t loops = 0;  // slots of those that it is run in
    double total = 0;
  };
  std::vector<Nest> nests;
  int64_t tile = 1;  // elements of the largest tile: instructions one by one
  int stages = 0;
  int64_t scratch_bytes = 0;  // of all stages
};
Spent cost(UOp body, const Target& target);

}  // namespace mote
