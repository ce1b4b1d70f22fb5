#include "schedule/choices.h"

#include <algorithm>
#include <bit>

namespace mote {

namespace {

uint64_t slots(const Request& r) {
  uint64_t mask = r.valid->ranges;
  for (UOp p : r.position) mask |= p->ranges;
  return mask;
}

}  // namespace

uint64_t hoisted_scope(const Request& r) {
  uint64_t mask = slots(r) & r.scope;
  return mask ? r.scope & (~uint64_t{0} >> std::countl_zero(mask)) : 0;
}

int loops_of(UOp n) {
  if (!n->is(Op::Reduce)) return 0;
  int loops = 0;
  for (size_t a = 1; a < n->ints().size(); ++a)
    loops += n->src(0)->shape->dims[static_cast<size_t>(n->ints(a))] != Dim(1);
  return loops;
}

std::vector<uint32_t> joined(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  std::vector<uint32_t> out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

// ---- costs

double Choices::evaluations(const Request& r) const {
  double n = 1;
  const KernelDraft& k = kernel_of(r);
  for (uint64_t rest = hoisted_scope(r); rest; rest &= rest - 1)
    n *= static_cast<double>(k.extents[static_cast<size_t>(std::countr_zero(rest))]);
  return n;
}

bool Choices::better_stored(UOp n, const Entry& e) const {
  if (has(n->op, Movement) || widens(n)) return false;  // rather what is below it
  if (costs_.in_closed_form(n)) return false;
  const Cost& c = costs_[n];
  const Target& target = target_of(n);
  if (c.bytes == 0 && c.each <= 4 * target.load_cost) return false;  // such as a causal mask
  const double elements = element_count(n), bytes = elements * size_of(n->dtype);
  std::vector<int> kernels;
  double evals = 0;
  for (const Request& r : e.requests) {
    if (kernels.empty() || kernels.back() != r.kernel) kernels.push_back(r.kernel);
    evals += evaluations(r);
  }
  std::ranges::sort(kernels);
  const auto nk =
      static_cast<double>(std::ranges::unique(kernels).begin() - kernels.begin());
  // A sum of sums becomes one loop nest: worth some repetition.
  if (n->is(Op::Reduce) && e.requests.size() == 1 && evals <= 2 * elements &&
      e.requests[0].folded_by == static_cast<Op>(n->ints(0)))
    return false;
  double fused = nk * c.bytes * target.byte_cost + evals * c.each;
  double stored = c.bytes * target.byte_cost + elements * c.each + evals * target.load_cost +
                  bytes * target.byte_cost * (1 + nk);
  if (fused > stored && evals * c.each > target.launch_cost * 0.02) return true;
  return n->is(Op::Reduce) && reduce_wants_own_kernel(n, e);
}

bool Choices::better_staged(UOp n, const Entry& e, const Staging& s, bool stored) const {
  if (!may_be_staged(n, s, costs_, target_of(n))) return false;
  if (n->is(Op::Contiguous) && adds_fold(n->src(0))) return false;
  double evals = 0;
  for (const Request& r : e.requests) evals += evaluations(r);
  const bool better = stored ? better_staged_than_stored(n, s, evals, draft_, costs_, target_of(n))
                             : better_staged_than_repeated(n, s, evals, costs_, target_of(n));
  return better && has_room_to_stage(n, e, s);
}

double Choices::lost_beside_others(UOp n) const {
  if (!n->is(Op::Reduce)) return 0;
  UOp sum = n;
  while (UOp inner = continued(sum)) sum = inner;
  const Cost& c = costs_[sum];
  const double products = element_count(sum->src(0));
  const bool reuses = products * size_of(n->dtype) > 8 * c.bytes;
  double across = 0;
  if (is_far(c.bytes, target_of(n))) {
    const int lane = costs_.lane(sum->src(0));
    const bool folded = std::ranges::count(std::span(sum->ints()).subspan(1), lane) > 0;
    if (lane >= 0 && !folded) across = c.bytes;
  }
  return mote::lost_beside_others(reuses ? products : 0, across, target_of(n));
}

bool Choices::disturbs(UOp n, const Request& r) const {
  const KernelDraft& k = kernel_of(r);
  if (n->is(Op::Contiguous)) return adds_fold(n->src(0));
  if (!n->is(Op::Reduce)) return false;
  if (k.staged || r.folded_by == static_cast<Op>(n->ints(0))) return false;
  if (!wants_kernel(n)) return k.is_tiled;
  const auto axes = std::ranges::count_if(r.position, [](UOp p) { return !is_const(p); });
  return k.reduce_slots || static_cast<size_t>(axes) < k.ranges.size();
}

bool Choices::adds_fold(UOp n) const {
  auto folds = [&](UOp v) { return wants_kernel(under_movement(v)); };
  n = under_movement(n);
  return folds(n) || (n->is(Op::Add) && (folds(n->src(0)) || folds(n->src(1))));
}

bool Choices::reduce_wants_own_kernel(UOp n, const Entry& e) const {
  const double elements = element_count(n), work = elements * costs_[n].each;
  if (work < target_of(n).launch_cost) return false;
  for (const Request& r : e.requests) {
    const KernelDraft& k = kernel_of(r);
    if (disturbs(n, r)) return true;
    bool merges = r.folded_by == static_cast<Op>(n->ints(0));
    if (!merges && (slots(r) & k.reduce_slots) && fold_count(n) > kMuch) return true;
    if (elements < target_of(n).parallel_results && iterations(k) > elements && !merges) return true;
  }
  return false;
}

// ---- room

std::vector<uint32_t> Choices::reads_with(const KernelDraft& k, UOp n) const {
  if (!counts_as_buffer(n)) return k.reads;  // its reads are among those of k already
  std::vector<uint32_t> out = joined(k.reads, bounds_.reads[n->id]);
  std::erase(out, n->id);
  return out;
}

int Choices::size_with(const KernelDraft& k, UOp n) const {
  return counts_as_buffer(n) ? k.size + bounds_.size[n->id] : k.size;
}

bool Choices::has_room_to_read(UOp n, const Entry& e) const {
  return std::ranges::all_of(e.requests, [&](const Request& r) {
    const KernelDraft& k = kernel_of(r);
    return fits(n, k.reads.size() + k.writes + k.staged + 1) ||
           std::ranges::binary_search(k.reads, n->id);
  });
}

bool Choices::has_room_to_loop(UOp n, const Entry& e) const {
  const int loops = loops_of(n);
  return !loops || std::ranges::all_of(e.requests, [&](const Request& r) {
    auto times = static_cast<int>(std::ranges::count(e.requests, r.kernel, &Request::kernel));
    return kernel_of(r).next_slot + times * loops <= kFusedLoops;
  });
}

bool Choices::has_room_to_stage(UOp n, const Entry& e, const Staging& s) const {
  const KernelDraft& k = kernel_of(e.requests[0]);
  const int loops = s.host >= 0 ? 0 : std::popcount(s.inner);
  return k.next_slot + loops + loops_of(n) <= kFusedLoops && size_with(k, n) <= target_of(n).max_ops &&
         fits(n, reads_with(k, n).size() + k.writes + k.staged + 1);
}

}  // namespace mote
