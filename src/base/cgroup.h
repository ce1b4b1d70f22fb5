// What the control groups this process lives in allow it. Linux, versions 1 and 2; elsewhere no
// limits.
#pragma once
#include <cstdint>

namespace mote {

struct CgroupLimits {
  double cpus = 0;           // CPU time per wall time, 0: no limit
  int64_t memory_bytes = 0;  // 0: no limit
};

// The tightest limit of the process's own group and all groups above it. Reads files on each call;
// never throws.
CgroupLimits cgroup_limits();

}  // namespace mote
