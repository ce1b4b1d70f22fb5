// How much memory a device's tensors take.
#pragma once
#include <mote/types.h>

namespace mote {

struct MemoryStats {
  int64_t live_bytes = 0;   // held by tensors and running work, as requested
  int64_t peak_bytes = 0;   // the most that was in use at once, rounding included
  int64_t kept_bytes = 0;   // free, and kept for reuse
  int64_t allocations = 0;  // requests to the system
};
// Of the default device if none is named.
MemoryStats memory_stats(const std::string& device = {}, Loc = MOTE_HERE);

}  // namespace mote
