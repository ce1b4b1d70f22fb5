// From a flat graph of effects to kernels that are ready to run, kept by the graph's words.
#pragma once
#include <atomic>
#include <map>
#include <memory>
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

// EngineCounts, as threads add to them.
struct EngineCounters {
  std::atomic<uint64_t> schedules{0}, schedule_hits{0}, kernels_run{0}, nodes{0}, visits{0},
      attempts{0}, plan_kernels{0}, plan_distinct{0};
  std::atomic<double> lower_ms{0};
};
EngineCounters& counters();

// `device` is where values live that name none (constants, positions). Threads may plan at the
// same time.
std::shared_ptr<const CompiledPlan> plan_for(const Flat& flat, Device& device);
void clear_plans();

}  // namespace mote
