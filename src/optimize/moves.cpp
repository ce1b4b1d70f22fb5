#include "optimize/moves.h"

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

namespace {

constexpr int64_t kCuts[] = {2,  3,  4,  5,  6,  7,   8,   10,  12,  14,  16, 20,
                             24, 28, 32, 48, 64, 96,  128, 192, 256, 384, 512};
constexpr int64_t kLargestTile = 32;
constexpr int64_t kAhead = 4096;  // bytes

bool is_plain(UOp r) { return range_role(r) == Role::Loop || range_role(r) == Role::Reduce; }

class Candidates {
 public:
  Candidates(UOp body, const Target& target) : body_(body), target_(target), ranges_(body) {
    std::ranges::sort(ranges_.all, {}, range_slot);
  }

  std::vector<Action> run() {
    for (UOp r : ranges_.all)
      if (is_plain(r)) add_of(r);
    for (UOp a : ranges_.all)
      for (UOp b : ranges_.all)
        if (range_slot(a) < range_slot(b)) add_of_pair(a, b);
    add_of_memory();
    add_of_stages();
    return std::move(out_);
  }

 private:
  UOp body_;
  const Target& target_;
  Ranges ranges_;
  std::vector<Action> out_;

  void add_of(UOp r) {
    const int slot = range_slot(r);
    const bool reduces = range_role(r) == Role::Reduce;
    const int64_t most = std::max<int64_t>(r->src(0)->hi, 2);
    auto splits = [&](int64_t amount) {
      out_.push_back({Action::Split, slot, amount, range_role(r)});
      if (amount > kLargestTile) return;
      out_.push_back({Action::Split, slot, amount, Role::Upcast});
      if (reduces) out_.push_back({Action::Split, slot, amount, Role::Unroll});
      if (amount <= target_.vector_bytes)
        out_.push_back({Action::Split, slot, amount, Role::Vector});
    };
    for (int64_t amount : kCuts)
      if (amount <= most) splits(amount);
    if (most > 2 && std::ranges::find(kCuts, most) == std::end(kCuts)) splits(most);
    if (!reduces) out_.push_back({Action::Global, slot});
    if (reduces) out_.push_back({Action::Accumulate, slot});
    if (reduces) out_.push_back({Action::Skip, slot});
  }

  void add_of_pair(UOp a, UOp b) {
    if (range_role(a) == range_role(b) && is_plain(a)) {
      out_.push_back({Action::Merge, range_slot(a), range_slot(b)});
      out_.push_back({Action::Merge, range_slot(b), range_slot(a)});
    }
    if (!is_tile(range_role(a)) && !is_tile(range_role(b)))
      out_.push_back({Action::Order, range_slot(b), 0, Role::Loop, {range_slot(a)}});
  }

  void add_of_stages() {
    const std::vector<UOp> order = toposort(body_);
    if (std::ranges::none_of(order, [](UOp n) { return n->is(Op::Stage); })) return;
    for (UOp r : ranges_.all) {
      const int slot = range_slot(r);
      if (range_role(r) == Role::Reduce) out_.push_back({Action::Divide, slot});
      if (range_role(r) != Role::Loop) continue;
      out_.push_back({Action::Bound, slot});
      for (int64_t amount : kCuts)
        if (amount <= r->src(0)->hi) out_.push_back({Action::StageRows, slot, amount});
    }
  }

  void add_of_memory() {
    std::vector<int> params;
    UOp sum;
    for (UOp n : toposort(body_)) {
      if (n->is(Op::Reduce)) sum = n;
      if (n->is(Op::Store)) out_.push_back({Action::Stream, static_cast<int>(stored_to(n))});
      if (!n->is(Op::Index) || !n->src(0)->is(Op::Param)) continue;
      add_fetches(n);
      add_stages(static_cast<int>(n->src(0)->ints(0)), n);
    }
    if (sum) add_stages(Action::kSum, sum);
  }

  // In the outputs' nest, and in that of each fold.
  void add_fetches(UOp read) {
    const int memory = static_cast<int>(read->src(0)->ints(0));
    out_.push_back({Action::Ahead, memory, kAhead});
    for (UOp r : open_ranges(read)) {
      if (is_tile(range_role(r)) || range_role(r) == Role::Reduce) continue;
      out_.push_back({Action::Fetch, memory, range_slot(r)});
      for (UOp k : ranges_.all)
        if (range_role(k) == Role::Reduce)
          out_.push_back({Action::Fetch, memory, range_slot(r), Role::Loop, {range_slot(k)}});
    }
  }

  static int64_t stored_to(UOp store) { return store->src(0)->src(0)->ints(0); }

  // Over all tile ranges that the value depends on, and any of its loops: loops outside, tiles
  // inside, and the other way round.
  void add_stages(int slot, UOp value) {
    constexpr size_t kMost = 5;
    std::vector<UOp> loops;
    std::vector<int> tiles;
    for (UOp r : open_ranges(value)) {
      if (is_tile(range_role(r))) tiles.push_back(range_slot(r));
      else if (is_plain(r)) loops.push_back(r);
    }
    std::ranges::stable_sort(loops, {}, [](UOp r) { return range_role(r) == Role::Reduce; });
    if (loops.size() > kMost) loops.erase(loops.begin(), loops.end() - kMost);
    for (uint32_t chosen = 0; chosen < 1u << loops.size(); ++chosen) {
      std::vector<int> over;
      for (size_t i = 0; i < loops.size(); ++i)
        if (chosen >> i & 1) over.push_back(range_slot(loops[i]));
      over.insert(over.end(), tiles.begin(), tiles.end());
      if (over.empty()) continue;
      out_.push_back({Action::Stage, slot, 0, Role::Loop, over});
      if (over.size() < 2) continue;
      std::ranges::reverse(over);
      out_.push_back({Action::Stage, slot, 0, Role::Loop, over});
    }
    for (UOp a : loops)
      for (UOp b : loops)
        if (a != b && slot != Action::kSum) add_joined(slot, loops, tiles, {a, b});
  }

  // The same of all loops, with two as one axis; and of these two alone.
  void add_joined(int slot, std::span<const UOp> loops, std::span<const int> tiles,
                  std::pair<UOp, UOp> pair) {
    const int joined[] = {range_slot(pair.first), ~range_slot(pair.second)};
    std::vector<int> over;
    for (UOp r : loops)
      if (r != pair.first && r != pair.second) over.push_back(range_slot(r));
    for (bool whole : {true, false}) {
      if (!whole) over.clear();
      over.insert(over.end(), std::begin(joined), std::end(joined));
      over.insert(over.end(), tiles.begin(), tiles.end());
      out_.push_back({Action::Stage, slot, 0, Role::Loop, over});
    }
  }
};

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

std::vector<Action> accepted(UOp body, std::span<const Action> list) {
  std::vector<Action> out;
  for (const Action& a : list) {
    UOp next = apply(body, a);
    if (!next) continue;
    body = next;
    out.push_back(a);
  }
  return out;
}

std::vector<Action> candidate_actions(UOp body, const Target& target) {
  return Candidates(body, target).run();
}

namespace {

// How often loops are run through. A nest stands in the loops of another up to the innermost one it
// depends on, and with it in all that the other stands in.
class Steps {
 public:
  Steps(UOp body, std::span<const UOp> order) : all_(Ranges(body).all) {
    uint64_t accumulated = 0;
    for (UOp r : all_)
      if (range_role(r) == Role::Accumulate) accumulated |= slot_bit(r);
    for (UOp n : order) {
      if (!n->is(Op::Stage) && !n->is(Op::Reduce) && !n->is(Op::End)) continue;
      uint64_t closed = n->is(Op::End) ? accumulated : 0;
      for (Node* s : n->src())
        if (s->op == Op::Range) closed |= slot_bit(UOp(s));
      nests_.push_back({closed, n->ranges});
    }
  }

  double total() const {
    double steps = 0;
    for (const Nest& n : nests_) steps += positions(around(n.closed | n.open));
    return steps;
  }

 private:
  struct Nest {
    uint64_t closed, open;  // its own loops; what it depends on
  };
  std::vector<UOp> all_;
  std::vector<Nest> nests_;

  uint64_t around(uint64_t loops) const {
    for (uint64_t before = 0; before != loops;) {
      before = loops;
      for (const Nest& n : nests_) {
        if (!(n.closed & loops)) continue;
        int innermost = -kSlots - 1;
        for (UOp r : all_)
          if (slot_bit(r) & n.closed & loops) innermost = std::max(innermost, nest_order(r));
        for (UOp r : all_)
          if ((slot_bit(r) & n.closed) && nest_order(r) < innermost) loops |= slot_bit(r);
        loops |= n.open;
      }
    }
    return loops;
  }

  double positions(uint64_t loops) const {
    double out = 1;
    for (UOp r : all_)
      if (slot_bit(r) & loops) out *= static_cast<double>(std::max<int64_t>(r->src(0)->hi, 1));
    return out;
  }
};

}  // namespace

Footprint footprint(UOp body) {
  Footprint out;
  int64_t sizes[kSlots];
  std::ranges::fill(sizes, 1);
  const std::vector<UOp> order = toposort(body);
  for (UOp n : order) {
    if (n->is(Op::Range) && is_tile(range_role(n))) sizes[range_slot(n)] = n->src(0)->hi;
    if (n->is(Op::Stage)) out.scratch_bytes += n->ints(1) * size_of(n->dtype);
  }
  for (UOp n : order) {
    int64_t elements = 1;
    for (uint64_t rest = n->ranges; rest; rest &= rest - 1)
      elements *= sizes[std::countr_zero(rest)];
    out.tile = std::max(out.tile, elements);
  }
  out.steps = Steps(body, order).total();
  return out;
}

std::vector<Action> draw_actions(UOp body, const Target& target, uint64_t seed, int most) {
  constexpr int kTries = 12;
  constexpr int64_t kMostTile = 64, kMostScratch = 1 << 22;
  constexpr int kMostStages = 3;  // each may fill those inside it again and again
  const double most_steps = 2e5 + 8 * footprint(body).steps;
  Random random(seed, body->hash);
  std::vector<Action> out;
  int stages = 0;
  for (int tries = 0; static_cast<int>(out.size()) < most && tries < kTries * most; ++tries) {
    // A kind first: most candidates are splits.
    std::vector<Action> all = candidate_actions(body, target);
    const auto kind = static_cast<Action::Kind>(random.below(Action::kKinds));
    std::erase_if(all, [&](const Action& a) { return a.kind != kind; });
    if (all.empty()) continue;
    Action& a = all[static_cast<size_t>(random.below(static_cast<int64_t>(all.size())))];
    UOp next = apply(body, a);
    if (!next || !runs_on(next, target)) continue;
    if (kind == Action::Stage && stages == kMostStages) continue;
    const Footprint size = footprint(next);
    if (size.tile > kMostTile || size.scratch_bytes > kMostScratch || size.steps > most_steps)
      continue;
    body = next;
    stages += kind == Action::Stage;
    out.push_back(std::move(a));
  }
  return out;
}

}  // namespace mote
