#include "optimize/moves.h"

#include <algorithm>

#include "base/random.h"
#include "optimize/apply.h"
#include "optimize/cost.h"

namespace mote {

Site::Site(UOp kernel, const Target& on) : body(kernel), target(on), ranges(kernel) {
  std::ranges::sort(ranges.all, {}, range_slot);
  for (UOp n : toposort(body)) {
    if (n->is(Op::Reduce)) sum = n;
    if (n->is(Op::Stage)) stages = true;
    if (n->is(Op::Store)) stored.push_back(static_cast<int>(n->src(0)->src(0)->ints(0)));
    if (n->is(Op::Index) && n->src(0)->is(Op::Param)) places.push_back(n);
  }
}

std::vector<UOp> Site::of_role(Role role) const {
  std::vector<UOp> found;
  std::ranges::copy_if(ranges.all, std::back_inserter(found),
                       [&](UOp r) { return range_role(r) == role; });
  return found;
}

namespace {

class Neighbours {
 public:
  Neighbours(UOp body, std::span<const Action> list, const Target& target)
      : list_(list.begin(), list.end()), target_(target) {
    for (const Action& a : list_) {
      const int before = Ranges(body).next_slot;
      if (UOp next = apply(body, a)) body = next;
      made_.emplace_back(before, Ranges(body).next_slot);
    }
    last_ = body;
  }

  std::vector<std::vector<Action>> run() {
    for (size_t i = 0; i < list_.size(); ++i)
      for (int64_t amount : other_cuts(list_[i], kWide)) add(i, amount, i, amount);
    for (size_t i = 0; i < list_.size(); ++i)
      for (size_t j = 0; j < i; ++j) change_both(i, j);
    for (size_t i = 0; i < list_.size(); ++i) out_.push_back(without(i));
    for (Action& a : candidate_actions(last_, target_)) {
      out_.push_back(list_);
      out_.back().push_back(std::move(a));
    }
    return std::move(out_);
  }

 private:
  static constexpr double kWide = 4, kNear = 2;
  std::vector<Action> list_;
  const Target& target_;
  std::vector<std::pair<int, int>> made_;  // slots [first, second), by action
  UOp last_;
  std::vector<std::vector<Action>> out_;

  static std::vector<int64_t> other_cuts(const Action& a, double factor) {
    std::vector<int64_t> out;
    if (!row(a.kind).has(Cut)) return out;
    for (int64_t c : kCuts) {
      const double ratio = static_cast<double>(c) / static_cast<double>(a.amount);
      if (c != a.amount && ratio <= factor && ratio * factor >= 1) out.push_back(c);
    }
    return out;
  }

  void add(size_t i, int64_t amount, size_t j, int64_t other) {
    std::vector<Action> changed = list_;
    changed[i].amount = amount;
    changed[j].amount = other;
    out_.push_back(std::move(changed));
  }

  // Registers are shared out: one axis of the tile longer, the other shorter.
  void change_both(size_t i, size_t j) {
    if (list_[i].role != Role::Upcast || list_[j].role != Role::Upcast) return;
    for (int64_t a : other_cuts(list_[i], kNear))
      for (int64_t b : other_cuts(list_[j], kNear))
        if ((a > list_[i].amount) != (b > list_[j].amount)) add(i, a, j, b);
  }

  // Ranges that later actions made have lower slots without it; what named its own ranges goes too.
  std::vector<Action> without(size_t i) const {
    const auto [first, end] = made_[i];
    std::vector<Action> out(list_.begin(), list_.begin() + static_cast<long>(i));
    for (size_t k = i + 1; k < list_.size(); ++k) {
      Action a = list_[k];
      bool gone = false;
      auto move = [&, lo = first, hi = end](auto& slot) {
        gone |= slot >= lo && slot < hi;
        if (slot >= hi) slot -= hi - lo;
      };
      if (row(a.kind).has(OfRange)) move(a.slot);
      if (row(a.kind).has(SecondRange)) move(a.amount);
      for (int& slot : a.over) {
        int plain = slot < 0 ? ~slot : slot;  // joined to the one before, or not
        move(plain);
        slot = slot < 0 ? ~plain : plain;
      }
      if (!gone) out.push_back(std::move(a));
    }
    return out;
  }
};

}  // namespace

std::vector<std::vector<Action>> neighbours(UOp body, std::span<const Action> list,
                                            const Target& target) {
  return Neighbours(body, list, target).run();
}

Tuned accepted(UOp body, std::span<const Action> list) {
  Tuned out{body, {}};
  for (const Action& a : list) {
    UOp next = apply(out.body, a);
    if (!next) continue;
    out.body = next;
    out.actions.push_back(a);
  }
  return out;
}

std::vector<Action> candidate_actions(UOp body, const Target& target) {
  const Site site(body, target);
  std::vector<Action> out;
  for (const ActionRow& row : action_rows) row.propose(site, out);
  return out;
}

std::vector<Action> draw_actions(UOp body, const Target& target, uint64_t seed, int most) {
  constexpr int kTries = 15;  // some kinds have nothing to propose
  constexpr int64_t kMostTile = 64, kMostScratch = 1 << 22;
  constexpr int kMostStages = 3;  // each may fill those inside it again and again
  const Spent given = cost(body, target);
  // Blocks of workers are run by a model, one worker after the other.
  const double most_steps = (target.workers ? 2e4 : 2e5) + 8 * given.steps;
  Random random(seed, body->hash);
  std::vector<Action> out;
  for (int tries = 0; static_cast<int>(out.size()) < most && tries < kTries * most; ++tries) {
    // A kind first: most candidates are splits.
    std::vector<Action> all;
    const auto kind = static_cast<Action::Kind>(random.below(Action::kKinds));
    row(kind).propose(Site(body, target), all);
    if (all.empty()) continue;
    Action& a = all[static_cast<size_t>(random.below(static_cast<int64_t>(all.size())))];
    UOp next = apply(body, a);
    if (!next || !runs_on(next, target, body)) continue;
    const Spent size = cost(next, target);
    if (size.stages > given.stages + kMostStages) continue;
    if (size.tile > kMostTile || size.scratch_bytes > kMostScratch || size.steps > most_steps)
      continue;
    body = next;
    out.push_back(std::move(a));
  }
  return out;
}

}  // namespace mote
