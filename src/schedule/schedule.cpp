#include "schedule/schedule.h"

#include "base/flags.h"
#include "ir/spec.h"
#include "schedule/ranges.h"

namespace mote {

namespace {

struct PlanPass {
  const char* name;
  UOp (*run)(UOp plan, const Targets& targets);
  const char* why;  // it stands here
};

constexpr PlanPass passes[] = {
    {"merge siblings", merge_siblings, "kernels are as the tensors gave them: equal loops meet"},
    {"arrange", arrange, "merging has decided which kernels there are"},
    {"partial sums", partial_sums, "parts and their sum stay neighbours"},
};

}  // namespace

UOp improve(UOp plan, const Targets& targets) {
  const bool checks = flag(Flag::SPEC);
  for (const PlanPass& pass : passes) {
    plan = pass.run(plan, targets);
    if (checks) verify(plan, Stage::Plan, pass.name);
  }
  return plan;
}

UOp schedule(UOp sink, const Targets& targets) {
  if (!flag(Flag::NOFUSE)) sink = two_step_reduce(sink, targets);
  Draft draft = assign_ranges(sink, targets);
  build_kernels(draft);
  return improve(order_kernels(std::move(draft)), targets);
}

}  // namespace mote
