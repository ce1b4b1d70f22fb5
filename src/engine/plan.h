// From a flat graph of effects to kernels that are ready to run, kept by the graph's words.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/kernel_cache.h"
#include "engine/realize.h"
#include "ir/flat.h"
#include "runtime/device.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace mote {

// A plan and the code of its kernels.
struct CompiledPlan {
  explicit CompiledPlan(UOp plan);  // before plan_memory, in any arena; without kernels
  Arena arena{Arena::kKept};
  UOp steps;   // each temporary is a memory of its own
  UOp placed;  // temporaries are slices of arenas
  std::map<std::pair<const Node*, uint8_t>, std::shared_ptr<const Kernel>> kernels;

  static std::pair<const Node*, uint8_t> key(UOp call) {
    return {call->src(0).get(), call->device};
  }
  const std::shared_ptr<const Kernel>& kernel(UOp call) const { return kernels.at(key(call)); }
};

// Threads may plan at the same time.
std::shared_ptr<const CompiledPlan> plan_for(const Flat& flat);
// The plan with code for its kernels.
std::shared_ptr<const CompiledPlan> compile_plan(UOp plan);

}  // namespace mote
