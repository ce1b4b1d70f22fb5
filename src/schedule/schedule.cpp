#include "schedule/schedule.h"

#include "base/flags.h"
#include "ir/spec.h"
#include "rewrite/rewrite.h"
#include "schedule/ranges.h"

namespace mote {

static constexpr PassFor<Targets> passes[] = {
    {"write in order", write_in_order, "before others add to kernels of one fold"},
    {"merge siblings", merge_siblings, "kernels are as tensors gave them: equal loops meet"},
    {"arrange", arrange, "merging has decided which kernels there are"},
    {"cut to pieces", cut_to_pieces, "what reads the same memory has been merged"},
    {"partial sums", partial_sums, "parts and their sum stay neighbours"},
};

UOp improve(UOp plan, const Targets& targets) {
  plan = run_passes(plan, passes, targets);
  if (flag(Flag::SPEC)) verify(plan, Stage::Plan, "schedule");
  return plan;
}

UOp schedule(UOp sink, const Targets& targets) {
  if (!flag(Flag::NOFUSE)) sink = split_reduces(sink, targets);
  Draft draft = assign_ranges(sink, targets);
  build_kernels(draft);
  return improve(order_kernels(std::move(draft)), targets);
}

}  // namespace mote
