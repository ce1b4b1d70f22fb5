// Whether a value is stored, staged by its kernel or computed where it is asked for: by what each
// would cost, and by what the kernels that ask have room for.
#pragma once
#include <span>
#include <vector>

#include "schedule/costs.h"
#include "schedule/ranges.h"
#include "schedule/staging.h"

namespace mote {

// The loops around a request once it is hoisted out of all inner ones it does not depend on.
uint64_t hoisted_scope(const Request& r);
// How many loops a node opens where it is evaluated.
int loops_of(UOp n);
// The union of two sorted lists.
std::vector<uint32_t> joined(std::span<const uint32_t> a, std::span<const uint32_t> b);

// Looks at what the draft has so far.
class Choices {
 public:
  Choices(const Draft& draft, const Bounds& bounds, const Costs& costs, const Targets& targets)
      : draft_(draft), bounds_(bounds), costs_(costs), targets_(targets) {}

  bool better_stored(UOp n, const Entry& e) const;
  bool better_staged(UOp n, const Entry& e, const Staging& s, bool stored) const;
  // Whether the loops of the kernel that folds n are to be chosen for this fold: it would lose more
  // beside another one than a launch costs.
  bool wants_kernel(UOp n) const { return lost_beside_others(n) > target_of(n).launch_cost; }
  // Whether a reduce, or what is to be in memory and adds to one, and the rest of the kernel that
  // asks for it would keep each other from the loops that they want. What stages values has nests
  // with loops that are chosen for each by itself.
  bool disturbs(UOp n, const Request& r) const;

  bool counts_as_buffer(UOp n) const { return bounds_.stored[n->id] || bounds_.forced[n->id]; }
  // In a kernel on the device of n.
  bool fits(UOp n, size_t buffers) const {
    return buffers <= static_cast<size_t>(target_of(n).max_buffers);
  }
  // What kernel k reads, and how large it is at most, once it evaluates n itself.
  std::vector<uint32_t> reads_with(const KernelDraft& k, UOp n) const;
  int size_with(const KernelDraft& k, UOp n) const;
  // Every kernel that asks for the value may take it as an argument.
  bool has_room_to_read(UOp n, const Entry& e) const;
  // Every kernel that asks for the value may open its loops, once per request.
  bool has_room_to_loop(UOp n, const Entry& e) const;

 private:
  const Draft& draft_;
  const Bounds& bounds_;
  const Costs& costs_;
  const Targets& targets_;

  const Target& target_of(UOp n) const { return targets_[n->device]; }

  const KernelDraft& kernel_of(const Request& r) const {
    return draft_.kernels[static_cast<size_t>(r.kernel)];
  }
  double evaluations(const Request& r) const;
  double lost_beside_others(UOp n) const;
  bool adds_fold(UOp n) const;
  bool has_room_to_stage(UOp n, const Entry& e, const Staging& s) const;
  // A fused reduce must not rob its consumer of parallel loops, nor stand inside another loop nest
  // that the optimiser could not tile.
  bool reduce_wants_own_kernel(UOp n, const Entry& e) const;
};

}  // namespace mote
