// How much memory a device's tensors take.
#pragma once
#include <mote/types.h>

namespace mote {

struct MemoryStats {
  int64_t live_bytes = 0;   // held by tensors and running work, as they were asked for
  int64_t peak_bytes = 0;   // the most that was in use at once, rounding included
  int64_t kept_bytes = 0;   // kept for whoever asks next
  int64_t allocations = 0;  // how often the system was asked
};
// Of the default device, where none is named.
MemoryStats memory_stats(const std::string& device = {}, Loc = MOTE_HERE);

}  // namespace mote
