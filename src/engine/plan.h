// From a flat graph of effects to kernels that are ready to run, kept by the graph's words.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/kernel_cache.h"
#include "engine/realize.h"
#include "ir/flat.h"
#include "runtime/device.h"
#include "schedule/schedule.h"

namespace mote {

struct CompiledStep {
  std::shared_ptr<const Kernel> kernel;  // null: a copy
  std::vector<int> buffers;              // as Step::buffers, written ones first
  int outputs = 0;
  std::vector<Elements> written;  // as Step::written
  std::vector<bool> reads;  // per buffer; a kernel may read what it writes
  uint8_t device = 0;       // 0: the plan's
  std::vector<uint32_t> provenance;
  bool writes(size_t i) const { return static_cast<int>(i) < outputs; }
};

struct CompiledPlan {
  std::vector<CompiledStep> steps;
  std::vector<PlannedBuffer> buffers;
  std::map<uint8_t, int64_t> arenas;
  int64_t unplanned_bytes = 0;
  int distinct = 0;
};

// Held by whoever plans, realizes or replays: one at a time in a process. Guards the plans and
// counts.
std::recursive_mutex& engine_mutex();
EngineCounts& counts_so_far();

// `device` is where values live that name none (constants, positions).
std::shared_ptr<const CompiledPlan> plan_for(const Flat& flat, Device& device);
void clear_plans();

}  // namespace mote
