// What the workers of a block do together. Targets without blocks have none of it.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "algebra/algebra.h"
#include "base/error.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

namespace mote {

namespace {

bool is_worker_range(const Node* n) { return n->op == Op::Range && is_worker(range_role(n)); }

// Of the kernel, outermost first.
std::vector<UOp> workers_of(UOp body) {
  std::vector<UOp> found;
  for (UOp n : toposort(body))
    if (is_worker_range(n.get())) found.push_back(n);
  std::ranges::sort(found, {}, nest_order);
  return found;
}

int64_t size(UOp r) { return r->src(0)->hi; }

// Row-major over these ranges, of which some stand for others.
UOp number_of(std::span<const UOp> ranges) {
  UOp n = index(0);
  for (UOp r : ranges) n = n * size(r) + r;
  return simplify(n);
}

class Combiner {
 public:
  Combiner(UOp body, const Target& target) : target_(target), workers_(workers_of(body)) {
    for (UOp n : toposort(body))
      if (n->is(Op::Range)) slots_ |= slot_bit(n);
  }

  UOp combined(UOp n, UOp value) {
    std::vector<UOp> own;
    uint64_t over = 0;
    for (Node* r : closed_ranges(n)) {
      if (is_worker_range(r))
        over |= slot_bit(UOp(r));
      else
        own.emplace_back(r);
    }
    if (!over) return {};
    const Op op = static_cast<Op>(n->ints(0));
    if (!own.empty()) value = reduce_over(op, value, own);
    const int64_t lanes = in_step(over);
    for (int64_t step = lanes / 2; step > 0; step /= 2)
      value = binary(op, value, make(Op::Shuffle, value->dtype, {value, partner(step)}));
    return through_memory(op, value, over, lanes);
  }

 private:
  const Target& target_;
  std::vector<UOp> workers_;
  uint64_t slots_ = 0;

  // How many neighbours of one warp fold together: a power of two of the innermost range.
  int64_t in_step(uint64_t over) const {
    if (!(over & slot_bit(workers_.back()))) return 1;
    int64_t lanes = 1;
    while (lanes * 2 <= target_.warp && size(workers_.back()) % (lanes * 2) == 0) lanes *= 2;
    return lanes;
  }

  // The lane whose number differs in this bit.
  UOp partner(int64_t step) const {
    UOp lane = number_of(workers_) % target_.warp;
    return simplify(lane + index(step) - (lane / step) % 2 * (2 * step));
  }

  // Partial results in memory of the block, which every worker folds. Workers that have nothing to
  // do with the fold share it.
  UOp through_memory(Op op, UOp value, uint64_t over, int64_t lanes) {
    UOp place = index(0), from = index(0), first = truth(true);
    std::vector<UOp> closed, loops;
    int64_t count = 1;
    for (UOp w : workers_) {
      const bool folded = over & slot_bit(w);
      if (!folded && !(value->ranges & slot_bit(w))) continue;
      closed.push_back(w);
      const int64_t part = w == workers_.back() && folded ? lanes : 1, parts = size(w) / part;
      if (part > 1) first = lt(w % part, index(1));
      place = place * parts + w / part;
      UOp at = w;
      if (folded) {
        at = parts > 1 ? range(take_slot(slots_), index(parts), Role::Reduce) : index(0);
        if (parts > 1) loops.push_back(at);
      }
      from = from * parts + at;
      count *= parts;
    }
    if (loops.empty()) return value;
    std::vector<UOp> src{value, gated(first, simplify(place))};
    src.insert(src.end(), closed.begin(), closed.end());
    UOp stage = make(Op::Stage, value->dtype, src, stage_arg(Space::Shared, count));
    return reduce_over(op, make(Op::Index, value->dtype, {stage, simplify(from)}), loops);
  }
};

}  // namespace

UOp combine_groups(UOp body, const Target& target) {
  if (!target.workers) return body;
  Combiner combiner(body, target);
  return map_nodes("combine groups", body, [&](UOp n, const Mapped& now) {
    return n->is(Op::Reduce) ? combiner.combined(n, UOp(now.src[0])) : UOp();
  });
}

UOp write_once(UOp body, const Target& target) {
  if (!target.workers) return body;
  const std::vector<UOp> workers = workers_of(body);
  return map_nodes("write once", body, [&](UOp n, const Mapped& now) {
    if (!n->is(Op::End) || !now.src[0]->is(Op::Store)) return UOp();
    UOp store = now.src[0], place = store->src(0);
    if (space_of(without_effects(place->src(0))) == Space::Local) return UOp();
    std::vector<UOp> src(now.src.begin(), now.src.end());
    UOp first = truth(true);
    for (UOp w : workers) {
      if (std::ranges::count(src, w)) continue;
      first = first & lt(w, index(1));
      src.push_back(w);
    }
    const Gated at = split_gate(place->src(1));
    place = make(Op::Index, place->dtype, {place->src(0), gated(at.valid & first, at.idx)});
    src[0] = make(Op::Store, DType::none, {place, store->src(1)}, store->arg);
    return make(Op::End, DType::none, src);
  });
}

namespace {

// Memories of the block by number, as bits.
struct Used {
  uint64_t read = 0, written = 0, copied = 0;  // copied: asynchronously, and nobody waited
  bool operator==(const Used&) const = default;
  void join(const Used& o) { read |= o.read, written |= o.written, copied |= o.copied; }
};

class Barriers {
 public:
  explicit Barriers(UOp linear) : linear_(linear), list_(linear->src()) {
    for (UOp n : toposort(linear))
      if (n->is(Op::After) &&
          std::ranges::any_of(n->src(), [](Node* s) { return s->op == Op::Barrier; }))
        rings_.insert(without_effects(n).get());
    std::vector<size_t> open;
    inside_.resize(list_.size());
    for (size_t i = 0; i < list_.size(); ++i) {
      uses_.push_back(uses_of(UOp(list_[i])));
      if (list_[i]->op == Op::Range) open.push_back(i);
      for (size_t loop : open) inside_[loop].join(uses_[i]);
      if (list_[i]->op == Op::End) open.pop_back();
    }
    before_.resize(list_.size());
    awaited_.resize(list_.size());
    waits_.resize(list_.size());
    heads_.resize(list_.size());
  }

  UOp run() {
    if (memories_.empty()) return linear_;
    while (walk()) {}
    std::vector<UOp> out;
    int64_t number = 0;
    for (size_t i = 0; i < list_.size(); ++i) {
      if (before_[i] || waits_[i]) ++number;
      const int64_t all[] = {number, 0};
      if (waits_[i]) out.push_back(make(Op::Wait, DType::none, {}, Arg::of(intern_arg(all))));
      if (before_[i]) out.push_back(make(Op::Barrier, DType::none, {}, Arg::of(number)));
      out.emplace_back(list_[i]);
    }
    return make(Op::Linear, DType::none, out, linear_->arg);
  }

 private:
  UOp linear_;
  std::span<Node* const> list_;
  std::unordered_map<const Node*, int> memories_;
  std::vector<Used> uses_, inside_, heads_;  // of statements, in loops, when a round begins
  // Statements with a barrier before them; where copies end for a barrier of a ring; all waits.
  std::vector<bool> before_, awaited_, waits_;
  std::unordered_set<const Node*> rings_;  // memories that have barriers of their own

  uint64_t memory_bit(UOp place) {
    if (!place->is(Op::Index)) return 0;
    UOp memory = without_effects(place->src(0));
    if (space_of(memory) != Space::Shared || rings_.contains(memory.get())) return 0;
    const int next = static_cast<int>(memories_.size());
    return uint64_t{1} << memories_.emplace(memory.get(), next).first->second;
  }

  Used uses_of(UOp s) {
    if (s->is(Op::Load)) return {.read = memory_bit(s->src(0))};
    if (s->is(Op::Fragment)) return {.read = memory_bit(s->src(1)) | memory_bit(s->src(2))};
    if (!s->is(Op::Store)) return {};
    const uint64_t written = memory_bit(s->src(0));
    return {0, written, s->arg.i == 2 ? written : 0};
  }

  // Whether workers may run it differently often.
  static bool diverges(UOp range) {
    const std::vector<UOp> order = toposort(range->src(0));
    return std::ranges::any_of(order,
                               [](UOp n) { return n->is(Op::Load) || is_worker_range(n.get()); });
  }

  static bool clash(const Used& a, const Used& b) {
    return (a.read & b.written) || (a.written & b.read);
  }

  // Outside of the loops that the other side of the clash does not stand in.
  size_t meeting_place(size_t i, std::span<const size_t> open) const {
    size_t at = i;
    while (!open.empty() && !clash(uses_[i], inside_[open.back()])) {
      at = open.back();
      open = open.first(open.size() - 1);
    }
    const bool divergent =
        std::ranges::any_of(open, [&](size_t loop) { return diverges(UOp(list_[loop])); });
    ensure(!divergent && !before_[at], "workers meet in a loop that some of them leave earlier");
    return at;
  }

  // Before a barrier of a ring: outside of the loops that start none of these copies.
  size_t waiting_place(size_t i, std::span<const size_t> open, uint64_t copied) const {
    for (; !open.empty() && !(inside_[open.back()].copied & copied);
         open = open.first(open.size() - 1))
      i = open.back();
    return i;
  }

  bool again() {
    heads_.assign(list_.size(), {});
    return true;
  }

  // Once through the statements; true: something is new, and it is to be done again.
  bool walk() {
    Used now;
    std::vector<size_t> open;
    bool changed = false;
    for (size_t i = 0; i < list_.size(); ++i) {
      UOp s(list_[i]);
      waits_[i] = now.copied && (before_[i] || awaited_[i]);
      if (waits_[i] || (s->is(Op::Wait) && s->ints(1) == 0)) now.copied = 0;
      if (s->is(Op::Barrier) && now.copied) {
        awaited_[waiting_place(i, open, now.copied)] = true;
        return again();
      }
      if (before_[i] || s->is(Op::Barrier)) now = {};
      if (s->is(Op::Range)) {
        open.push_back(i);
        heads_[i].join(now);
        now = heads_[i];
      } else if (s->is(Op::End) && is_launched(s->src(1))) {
        open.pop_back();
      } else if (s->is(Op::End)) {
        Used& head = heads_[open.back()];
        const Used old = head;
        head.join(now);
        changed |= head != old;
        if (s->src(1)->src(0)->lo < 1) now = head;
        open.pop_back();
      } else if (clash(uses_[i], now)) {
        before_[meeting_place(i, open)] = true;
        return again();
      }
      now.join(uses_[i]);
    }
    return changed;
  }
};

}  // namespace

UOp place_barriers(UOp linear, const Target& target) {
  return target.workers ? Barriers(linear).run() : linear;
}

namespace {

// Who uses a value before it is there.
class Waits {
 public:
  explicit Waits(const Target& target) : target_(target) {}

  UOp run(UOp linear) {
    const bool any =
        std::ranges::any_of(linear->src(), [&](Node* s) { return is_pending(UOp(s)); });
    if (!any) return linear;
    std::vector<UOp> out;
    for (Node* s : linear->src()) {
      if (uses_pending(UOp(s)) || s->op == Op::Barrier) {
        const int64_t ints[] = {++number_, 0, 1};
        out.push_back(make(Op::Wait, DType::none, {}, Arg::of(intern_arg(ints))));
        if (s->op != Op::Barrier) pending_.clear();
      }
      note(UOp(s));
      out.emplace_back(s);
    }
    return make(Op::Linear, DType::none, out, linear->arg);
  }

 private:
  const Target& target_;
  int64_t number_ = 0;
  std::unordered_set<const Node*> pending_;  // values and registers

  bool is_pending(UOp s) const {
    return s->is(Op::Fragment) && target_.fragments[static_cast<size_t>(s->ints(0))].pending;
  }
  bool has(UOp u) const { return pending_.contains(without_effects(u).get()); }
  static bool is_move(UOp s) {
    return (s->is(Op::Load) || s->is(Op::Store)) && without_effects(s->src(0))->is(Op::Reg);
  }

  // Other than as the sum of another product, or into and out of registers.
  bool uses_pending(UOp s) const {
    if (is_move(s) || s->is(Op::End)) return false;
    for (uint32_t i = s->is(Op::Fragment) ? 1 : 0; i < s->nsrc; ++i)
      if (has(s->src(i))) return true;
    return false;
  }

  void note(UOp s) {
    if (is_pending(s)) pending_.insert(s.get());
    if (!is_move(s)) return;
    if (s->is(Op::Load) && has(s->src(0))) pending_.insert(s.get());
    if (s->is(Op::Store) && has(s->src(1))) pending_.insert(without_effects(s->src(0)).get());
  }
};

}  // namespace

UOp place_waits(UOp linear, const Target& target) {
  return target.fragments.empty() ? linear : Waits(target).run(linear);
}

}  // namespace mote
