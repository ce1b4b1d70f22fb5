// Where an expression fused without end would outgrow the target.
#include <algorithm>
#include <utility>

#include "ir/freedoms.h"
#include "schedule/ranges.h"
#include "schedule/scatter.h"

namespace mote {

UOp continued(UOp reduce) {
  UOp at = reduce->src(0);
  while (has(at->op, Movement)) at = at->src(0);
  const bool one = at->is(Op::Reduce) && at->ints(0) == reduce->ints(0) && may_reorder(at);
  return one ? at : UOp();
}

namespace {

constexpr int kCurveOps = 32;  // that an exp and the like become, sines even more

struct Load {
  int size = 0;  // ops when everything below is fused; shared parts may be counted again
  std::span<const uint32_t> leaves;  // distinct buffers read, by node id, sorted
};

// The reduce of whose result a cast or a cut leaves fewer bytes.
UOp narrowed_by(UOp n) {
  if (!n->is(Op::Cast) && !n->is(Op::Shrink)) return {};
  UOp at = n->src(0);
  auto passes = [](UOp m) {
    return m->is(Op::Cast) || (has(m->op, Movement) && !m->is(Op::Expand) && !m->is(Op::Window));
  };
  while (passes(at)) at = at->src(0);
  if (!at->is(Op::Reduce)) return {};
  auto bytes = [](UOp m) { return m->shape->count() * size_of(m->dtype); };
  return bytes(n) < bytes(at) ? at : UOp();
}

// Much folded into little is as good as always stored. Cutting there, well before a chain is too
// long, cuts every layer of a deep network at the same places.
bool folds_much(UOp n) {
  if (!n->is(Op::Reduce)) return false;
  if (n->src(0)->shape->count() > kMuch * n->shape->count()) return true;
  UOp inner = continued(n);
  return inner && folds_much(inner);
}

class Bounder {
 public:
  Bounder(std::span<const UOp> order, const Targets& targets)
      : targets_(targets),
        load_(arena().size()),
        users_(load_.size()),
        counts_(load_.size()),
        continued_(load_.size()),
        narrowed_(load_.size()),
        seen_(load_.size()),
        bounds_{std::vector<bool>(load_.size()), std::vector<bool>(load_.size()),
                std::vector<uint64_t>(load_.size()), std::vector<bool>(load_.size()),
                std::vector<std::span<const uint32_t>>(load_.size()),
                std::vector<int>(load_.size()), Lists()} {
    for (size_t i = order.size(); i-- > 0;) {
      UOp n = order[i];
      bool passes_on = has(n->op, Movement) || n->is(Op::Cast);
      for (Node* s : n->src()) users_[s->id] += passes_on ? users_[n->id] : 1;
    }
    for (UOp n : order) {
      if (UOp wide = narrowed_by(n); wide && users_[wide->id] == users_[n->id])
        narrowed_[wide->id] = n;
      if (n->is(Op::Reduce)) {
        if (UOp inner = continued(n); inner && users_[inner->id] == 1) continued_[inner->id] = true;
        bounds_.scattered[n->id] = scattered_axes(n, targets_[n->device]);
        bounds_.scatters[n->id] = bounds_.scattered[n->id] != 0;
      }
      counts_[n->id] = n->shape ? n->shape->count() : 0;
      if (n->is(Op::Store) && keeps_value(n)) bounds_.stored[n->src(1)->id] = true;
      if (n->is(Op::Contiguous)) bounds_.stored[n->id] = true;
    }
    follow_scatters(order);
    // What is forced late also counts for the consumers that were visited before.
    do {
      grown_ = false;
      for (UOp n : order)
        if (!has(n->op, Effect) || n->is(Op::After)) visit(n);
    } while (grown_);
  }

  Bounds result() { return std::move(bounds_); }

 private:
  const Targets& targets_;
  std::vector<Load> load_;          // these four by node id
  std::vector<int> users_;
  std::vector<int64_t> counts_;     // elements
  std::vector<bool> continued_;     // by another reduce, its only user
  std::vector<UOp> narrowed_;       // the last cast or cut that all who use a reduce see it through
  std::vector<uint32_t> seen_;      // by node id: the last walk that was there
  uint32_t walk_ = 0;
  Bounds bounds_;
  bool grown_ = false;
  std::vector<uint32_t> union_;     // of joined, kept warm

  // Each is stored as all of its users see it, so that rows of what they see are written.
  void follow_scatters(std::span<const UOp> order) {
    std::vector<bool>& carries = bounds_.scatters;
    const auto first = std::ranges::find_if(order, [&](UOp n) { return carries[n->id]; });
    order = {first, order.end()};  // their users are among these
    if (order.empty()) return;
    std::vector<int> direct(load_.size());
    for (UOp n : order)
      for (Node* s : n->src()) ++direct[s->id];
    for (UOp n : order)
      for (Node* s : n->src()) {
        if (!carries[s->id]) continue;
        const bool moves = n->is(Op::Permute) || (n->is(Op::Reshape) && keeps_axes_apart(n));
        if (moves && direct[s->id] == 1) carries[n->id] = true;
        else bounds_.forced[s->id] = true;
      }
  }

  // Axes may be cut but not joined: a position stays one of its own axis.
  static bool keeps_axes_apart(UOp reshape) {
    auto next = reshape->shape->dims.begin();
    const auto end = reshape->shape->dims.end();
    for (const Dim& d : reshape->src(0)->shape->dims) {
      if (d == Dim(1)) continue;
      while (next != end && *next == Dim(1)) ++next;
      if (next != end && *next == d) {
        ++next;
        continue;
      }
      if (d.symbol) return false;
      int64_t parts = 1;
      while (next != end && !next->symbol && parts < d.size) parts *= (next++)->size;
      if (parts != d.size) return false;
    }
    return true;
  }

  void visit(UOp n) {
    Load& mine = load_[n->id];
    if (n->is(Op::Param) || n->is(Op::After)) {
      mine = only(n.get());
      bounds_.reads[n->id] = mine.leaves;
      bounds_.size[n->id] = mine.size;
      return;
    }
    const Target& target = targets_[n->device];
    mine = total(n);
    if (mine.size > target.max_ops) mine.size = distinct_ops(n);
    // One argument is kept for the output.
    const auto most = static_cast<size_t>(std::max(2, target.max_buffers - 1));
    // Store the heaviest sources until the rest fits.
    while (mine.size > target.max_ops || mine.leaves.size() > most) {
      if (!force_heaviest_source(n)) break;
      mine = total(n);
      if (mine.size > target.max_ops) mine.size = distinct_ops(n);
    }
    bounds_.reads[n->id] = mine.leaves;
    bounds_.size[n->id] = mine.size;
    const bool long_chain = mine.size > target.max_ops / 4 || mine.leaves.size() > most / 4;
    if (ends_fold(n, long_chain ? 0 : target.launch_cost) || repeats_reads(n, mine))
      bounds_.forced[n->id] = true;
    if (takes_all(n) || bounds_.stored[n->id] || bounds_.forced[n->id]) mine = only(n.get());
  }

  // Whether a fold of much, of more than `work` elements, is complete here: at the reduce, or where
  // its result is narrowed.
  bool ends_fold(UOp n, double work) const {
    UOp wide = narrowed_by(n), reduce = wide ? wide : n;
    if (!reduce->is(Op::Reduce)) return false;
    if ((narrowed_[reduce->id] ? narrowed_[reduce->id] : reduce) != n) return false;
    if (continued_[reduce->id] || bounds_.scattered[reduce->id]) return false;
    return static_cast<double>(counts_[reduce->src(0)->id]) > work && folds_much(reduce);
  }

  // Whether several users would each read many buffers as large as the value itself again.
  bool repeats_reads(UOp n, const Load& mine) const {
    if (users_[n->id] < 2 || !has(n->op, Alu)) return false;
    const int64_t count = n->shape->count();
    return std::ranges::count_if(mine.leaves, [&](uint32_t leaf) {
             return counts_[leaf] >= count;
           }) > 4;
  }

  Load only(const Node* n) { return {1, bounds_.lists.keep(std::vector{n->id})}; }

  Load total(UOp n) {
    Load sum{has(n->op, Curve) ? kCurveOps : 1, {}};
    for (Node* s : n->src()) {
      sum.size = std::min(kEndless, sum.size + load_[s->id].size);
      sum.leaves = joined(sum.leaves, load_[s->id].leaves);
    }
    return sum;
  }

  // The size with every part counted once that is evaluated at the same position, however many use
  // it. A walk over all of them, so it is left to what seems too large.
  int distinct_ops(UOp n) {
    ++walk_;
    int size = 0;
    std::vector<Node*> stack{n.get()};
    while (!stack.empty()) {
      Node* at = stack.back();
      stack.pop_back();
      const bool same_place = at == n.get() || (has(at->op, Alu) && !bounds_.stored[at->id] &&
                                                !bounds_.forced[at->id]);
      if (!same_place) {
        size = std::min(kEndless, size + load_[at->id].size);
        continue;
      }
      size += has(at->op, Curve) ? kCurveOps : 1;
      for (Node* s : at->src())
        if (std::exchange(seen_[s->id], walk_) != walk_) stack.push_back(s);
    }
    return size;
  }

  // Most unions are one of the two: a new list is the exception.
  std::span<const uint32_t> joined(std::span<const uint32_t> a, std::span<const uint32_t> b) {
    if (a.size() < b.size()) std::swap(a, b);
    if (a.data() == b.data() || std::ranges::includes(a, b)) return a;
    union_.clear();
    std::ranges::set_union(a, b, std::back_inserter(union_));
    return bounds_.lists.keep(union_);
  }

  Node* heaviest_source(const Node* n) const {
    Node* heaviest = nullptr;
    for (Node* s : n->src())
      if (load_[s->id].size > 1 && (!heaviest || load_[s->id].size > load_[heaviest->id].size))
        heaviest = s;
    return heaviest;
  }

  // The value to store is found below movement and widening casts, and below what is made of much
  // smaller ones: the products that a matrix product sums are never stored.
  bool force_heaviest_source(UOp n) {
    Node* at = heaviest_source(n.get());
    if (!at) return false;
    std::vector<Node*> path;
    for (Node* next = at; next;) {
      at = next;
      next = has(at->op, Movement) || widens(UOp(at)) ? at->sources[0] : heaviest_source(at);
      if (!next || load_[next->id].size <= 1) break;
      if (!has(at->op, Movement) && !widens(UOp(at)) && !is_made_of_less(at)) break;
      path.push_back(at);
    }
    grown_ |= !bounds_.forced[at->id];
    bounds_.forced[at->id] = true;
    load_[at->id] = only(at);
    for (size_t i = path.size(); i-- > 0;) load_[path[i]->id] = total(UOp(path[i]));
    return true;
  }

  bool is_made_of_less(const Node* n) const {
    return std::ranges::all_of(load_[n->id].leaves, [&](uint32_t leaf) {
      return counts_[n->id] > 4 * counts_[leaf];
    });
  }
};

}  // namespace

Bounds bound_kernels(std::span<const UOp> order, const Targets& targets) {
  return Bounder(order, targets).result();
}

}  // namespace mote
