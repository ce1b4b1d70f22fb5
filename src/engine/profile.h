// What PROFILE=1 prints when the process ends: where the time of kernels went.
#pragma once
#include "engine/kernel_cache.h"

namespace mote {

// A kernel ran so long, for the call with this provenance (ir/provenance.h; 0: unknown). Thread-
// safe.
void note_kernel_run(const Kernel& kernel, uint32_t provenance, double seconds);
// The table so far: a row per kernel, module and line, those that took longest first.
std::string profile_text();
void clear_profile();

}  // namespace mote
