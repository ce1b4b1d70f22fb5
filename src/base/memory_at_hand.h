// How much memory this process could still take.
#pragma once
#include <cstdint>

namespace mote {

// What the system says is available, within the limits of the control group and of `ulimit -v`.
// Reads files on each call; never throws. INT64_MAX where nothing is known.
int64_t memory_at_hand();

}  // namespace mote
