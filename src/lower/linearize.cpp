// Loops, accumulators and order. Every loop range owns one scope; a node stands in the scope of the
// innermost loop it depends on, so everything is hoisted as far as it can be.
#include <algorithm>
#include <bit>
#include <memory>
#include <ranges>
#include <unordered_map>
#include <unordered_set>

#include "algebra/algebra.h"
#include "base/error.h"
#include "ir/dots.h"
#include "lower/guards.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

namespace mote {

namespace {

struct Scope {
  UOp range;  // empty: the whole program
  Scope* parent = nullptr;
  int depth = 0;
  struct Item {
    UOp statement;
    Scope* scope = nullptr;
  };
  std::vector<Item> items;
  std::vector<UOp> stores;  // after everything else: loads of the same place come first
  Scope* chain = nullptr;   // the next output loop
};

// Reduces and writes to local memory over the same loops in the same place share one nest; choices
// by one condition share one branch.
struct Group {
  std::vector<UOp> members;
  std::vector<UOp> loops;
  uint64_t outside = 0;
  bool emitted = false;
  Scope* guarded = nullptr;  // of choices by one condition: what they rarely need
};

class Linearizer {
 public:
  Linearizer(UOp body, bool fuse) : body_(body), fuse_(fuse) {}

  UOp run() {
    split_shared_loops();
    find_accumulated_stores();
    find_loops();
    leave_out_fetches();
    find_branches();
    guard_ordered_writes();
    find_carried();
    find_needs();
    auto place_next = [this](UOp n, const Mapped& now) {
      now_ = &now;
      return placed(n);
    };
    return map_nodes("place statements", body_, place_next, [this](UOp n) {
      auto it = needs_.find(n.get());
      return it == needs_.end() ? n->src() : it->second;
    });
  }

 private:
  UOp body_;
  bool fuse_;
  Scope root_;
  Scope* base_ = &root_;  // where the workers of a block are: nothing stands outside
  std::vector<std::unique_ptr<Scope>> scopes_;
  Scope* by_slot_[kSlots] = {};
  uint64_t loop_slots_ = 0, slots_ = 0;  // of loops; in use at all
  std::vector<Group> groups_;
  std::unordered_map<const Node*, size_t> group_of_;
  std::unordered_map<const Node*, std::vector<Node*>> needs_;  // more than its sources
  std::unordered_map<const Node*, UOp> made_;                  // of members of groups
  const Mapped* now_ = nullptr;
  std::unordered_set<const Node*> listed_;
  std::unordered_set<const Node*> ended_;    // effects that stand in loops of their own
  std::unordered_set<const Node*> stepped_;  // Fragments that add to what was summed up before
  std::unordered_map<const Node*, Node*> stored_by_;  // a Reduce that accumulates: its Store
  std::unordered_map<const Node*, Scope*> guarded_;   // what stands behind a branch
  struct Carried {
    UOp store, round, reg;
  };
  std::unordered_map<const Node*, Carried> carried_;  // loads
  std::unordered_map<const Node*, Scope*> ordered_;   // of these: accesses that need no other gate
  int next_reg_ = 0;

  static bool is_nest(UOp n) { return n->is(Op::Reduce) || n->is(Op::End); }
  static bool is_fetch(UOp n) { return n->is(Op::End) && n->src(0)->is(Op::Fetch); }
  static bool is_accumulated(UOp r) {
    return r->is(Op::Range) && range_role(r) == Role::Accumulate;
  }

  // The loops of a Reduce or an End. Those that accumulate are loops of the End that stores it;
  // workers are no loop of anything, for they are always there.
  static std::vector<UOp> loops_of(UOp n) {
    std::vector<UOp> loops;
    for (uint32_t i = 1; i < n->nsrc; ++i)
      if (is_loop(n->src(i)) && !is_worker(range_role(n->src(i))) &&
          (!is_accumulated(n->src(i)) || is_fetch(n)))
        loops.push_back(n->src(i));
    if (n->is(Op::End) && n->src(0)->is(Op::Store))
      for (UOp b : accumulated_ranges(n->src(0)->src(1))) loops.push_back(b);
    std::ranges::sort(loops, {}, nest_order);
    return loops;
  }

  void find_accumulated_stores() {
    for (UOp n : toposort(body_))
      if (n->is(Op::Store) && !accumulated_ranges(n->src(1)).empty())
        stored_by_[n->src(1).get()] = n.get();
  }

  // Two nests (of reduces, or of what fills local memory) may use one range only if they stand in
  // the same place and neither needs the other.
  void split_shared_loops() {
    for (bool changed = true; changed;) {
      changed = false;
      uint64_t used = 0;
      const std::unordered_set<const Node*> outputs(body_->src().begin(), body_->src().end());
      std::vector<UOp> order = toposort(body_);
      for (UOp n : order)
        if (n->is(Op::Range)) used |= slot_bit(n);
      std::vector<UOp> seen;
      for (UOp n : order) {
        if (!is_nest(n) || outputs.count(n.get())) continue;
        for (UOp other : seen)
          if (clash(other, n)) {
            body_ = with_own_loops(n, used);
            changed = true;
            break;
          }
        if (changed) break;
        seen.push_back(n);
      }
    }
  }

  static bool clash(UOp a, UOp b) {
    std::vector<UOp> x = loops_of(a), y = loops_of(b);
    bool shared = std::ranges::any_of(x, [&](UOp r) { return std::ranges::count(y, r) > 0; });
    if (!shared) return false;
    if (x != y || a->ranges != b->ranges) return true;
    std::vector<UOp> below = toposort(b);
    return std::ranges::count(below, a) > 0;
  }

  UOp with_own_loops(UOp n, uint64_t used) {
    Renaming map;
    for (UOp r : loops_of(n)) {
      int64_t ints[] = {take_slot(used), static_cast<int64_t>(range_role(r))};
      UOp extent = substitute(r->src(0), map);  // of loops outside, which have theirs by now
      map.emplace_back(r, make(Op::Range, r->dtype, {extent}, Arg::of(intern_arg(ints))));
    }
    std::pair<UOp, UOp> whole[] = {
        {n, renamed(n, map)}
    };
    return substitute(body_, whole);
  }

  using Renaming = std::vector<std::pair<UOp, UOp>>;
  // A nest below n that closes one of the ranges has a loop of its own there, which stays.
  static UOp renamed(UOp n, const Renaming& map) {
    Renaming all = map;
    for (UOp inner : toposort(n)) {
      if (inner == n || !is_nest(inner)) continue;
      std::vector<UOp> closed = loops_of(inner);
      Renaming left = map;
      std::erase_if(left, [&](const auto& m) { return std::ranges::count(closed, m.first) > 0; });
      if (left.size() == map.size()) continue;
      all.emplace_back(inner, left.empty() ? inner : renamed(inner, left));
    }
    return substitute(n, all);
  }

  Scope* new_scope(UOp range, Scope* parent) {
    Scope* s = scopes_.emplace_back(std::make_unique<Scope>()).get();
    s->range = range;
    s->parent = parent;
    s->depth = parent->depth + 1;
    by_slot_[range_slot(range)] = s;
    loop_slots_ |= slot_bit(range);
    return s;
  }

  Scope* home_of(UOp n) {
    auto it = guarded_.find(n.get());
    return it == guarded_.end() ? home(n->ranges) : it->second;
  }

  Scope* home(uint64_t slots) {
    Scope* innermost = base_;
    for (uint64_t rest = slots & loop_slots_; rest; rest &= rest - 1) {
      Scope* s = by_slot_[std::countr_zero(rest)];
      if (s->depth > innermost->depth) innermost = s;
    }
    return innermost;
  }

  void find_loops() {
    std::vector<UOp> outer;
    auto add_outer = [&](UOp r) {
      if (!std::ranges::count(outer, r)) outer.push_back(r);
    };
    for (Node* end : body_->src()) {
      if (is_fetch(UOp(end))) continue;
      for (UOp r : loops_of(UOp(end))) add_outer(r);
      for (Node* r : closed_ranges(UOp(end)))
        if (is_worker(range_role(UOp(r)))) add_outer(UOp(r));
    }
    std::ranges::stable_sort(outer, {}, nest_order);
    Scope* at = &root_;
    for (UOp r : outer) {
      at = at->chain = new_scope(r, at);
      if (is_worker(range_role(r))) base_ = at;
    }

    std::vector<UOp> order = toposort(body_);
    // Outer reduces first, so that an inner one finds the loops it stands in.
    const std::unordered_set<const Node*> outputs(body_->src().begin(), body_->src().end());
    for (size_t i = order.size(); i-- > 0;) {
      UOp n = order[i];
      if (is_nest(n) && !outputs.count(n.get())) add_to_group(n);
    }
  }

  // Fetches make no loops of their own: what has none of others is left out.
  void leave_out_fetches() {
    std::vector<UOp> kept;
    for (Node* end : body_->src())
      if (!is_fetch(UOp(end)) || stands_in_loops(UOp(end))) kept.emplace_back(end);
    if (kept.size() < body_->nsrc) body_ = make(Op::Sink, DType::none, kept, body_->arg);
  }

  bool stands_in_loops(UOp end) {
    std::vector<UOp> missing = loops_of(end);
    for (Scope* s = home(slots_of(missing)); s != &root_; s = s->parent)
      std::erase(missing, s->range);
    return missing.empty();
  }

  static uint64_t slots_of(std::span<const UOp> loops) {
    uint64_t slots = 0;
    for (UOp r : loops) slots |= slot_bit(r);
    return slots;
  }

  // The loops around a nest. One that accumulates starts from memory: also those that say where.
  uint64_t outside_of(UOp n) const {
    uint64_t outside = n->ranges;
    for (UOp b : accumulated_ranges(n)) outside |= b->ranges;
    if (auto it = stored_by_.find(n.get()); it != stored_by_.end()) outside |= it->second->ranges;
    return outside;
  }

  void add_to_group(UOp n) {
    std::vector<UOp> loops = loops_of(n);
    if (loops.empty() && n->is(Op::Reduce)) return;
    const uint64_t outside = outside_of(n);
    size_t g = 0;
    while (g < groups_.size() && (loops.empty() || groups_[g].loops != loops)) ++g;
    if (g == groups_.size()) {
      groups_.push_back({{}, loops, outside, false});
      Scope* parent = home(outside);
      for (UOp r : loops) parent = new_scope(r, parent);
    }
    if (n->is(Op::End)) ended_.insert(n->src(0).get());
    if (n->src(0)->is(Op::Fragment)) stepped_.insert(n->src(0).get());
    groups_[g].members.push_back(n);
    group_of_[n.get()] = g;
  }

  // What depends on fewer loops than the choice is computed outside of them, once.
  void find_branches() {
    for (UOp n : toposort(body_))
      if (n->is(Op::Range)) slots_ |= slot_bit(n);
    int left = kSlots - std::popcount(slots_);
    for (const RareBranch& g : find_guards(body_)) {
      if (left-- == 0) return;
      const uint64_t outside = g.members[0]->ranges;
      Scope* s = scopes_.emplace_back(std::make_unique<Scope>()).get();
      s->parent = home(outside);
      for (UOp n : g.inside)
        if (home(n->ranges) == s->parent) guarded_[n.get()] = s;
      for (UOp m : g.members) group_of_[m.get()] = groups_.size();
      groups_.push_back({g.members, {}, outside, false, s});
    }
  }

  // Writes at computed places, and what they make of what is there, happen behind one branch for
  // each gate: no other place need be found for a read whose gate is false.
  void guard_ordered_writes() {
    std::unordered_map<const Node*, Scope*> by_gate;
    for (Node* end : body_->src()) {
      if (!is_guarded_write(UOp(end))) continue;
      const UOp store = UOp(end)->src(0);
      Scope*& s = by_gate[store->src(2).get()];
      Scope* parent = home(slots_of(loops_of(UOp(end))));
      if (s ? s->parent != parent : std::popcount(slots_) + by_gate.size() > kSlots) continue;
      if (!s) s = scopes_.emplace_back(std::make_unique<Scope>()).get();
      s->parent = parent;
      ordered_[store.get()] = s;
      for (UOp n : toposort(store->src(1))) {
        const bool reads = n->is(Op::Load) && n->src(0) == store->src(0);
        if (reads) ordered_[n.get()] = s;
        if (reads || std::ranges::any_of(n->src(), [&](Node* m) { return guarded_.contains(m); }))
          guarded_[n.get()] = s;
      }
    }
  }

  // What a round reads where the round before it wrote, as a running fold does, stays in a register.
  void find_carried() {
    for (Node* end : body_->src()) {
      const UOp store = UOp(end)->src(0);
      const std::vector<UOp> loops = loops_of(UOp(end));
      if (loops.empty() || !store->is(Op::Store) || store->nsrc > 2) continue;
      const UOp r = *std::ranges::max_element(loops, {}, nest_order);
      if (range_role(r) != Role::Ordered) continue;
      for (UOp n : toposort(store->src(1)))
        if (n->is(Op::Load) && n->nsrc == 1 && n->src(0)->src(0) == store->src(0)->src(0) &&
            is_next(n->src(0)->src(1), store->src(0)->src(1), r))
          carried_[n.get()] = {store, r, {}};
    }
  }

  // Whether `place` is where `before` is a round later.
  static bool is_next(UOp before, UOp place, UOp r) {
    const std::pair<UOp, UOp> later[] = {
        {r, r + constant(r->dtype, 1)}
    };
    return simplify(substitute(before, later)) == simplify(place);
  }

  UOp place_carried(UOp load, Carried& c) {
    const UOp read = with_src(load, now_->src), r = mapped(c.round);
    const std::pair<UOp, UOp> at_first[] = {
        {r, zero_like(r)}
    };
    const UOp first = substitute(read, at_first);
    for (UOp n : toposort(first)) add(home(n->ranges), n);
    Scope* inner = by_slot_[range_slot(c.round)];
    c.reg = new_register(load->dtype, tile_of(first, first));
    const UOp start = make(Op::Store, DType::none, {c.reg, first});
    inner->parent->items.push_back({start, nullptr});
    const UOp before = make(Op::Load, load->dtype, {make(Op::After, load->dtype, {c.reg, start})});
    add(inner, before);
    return before;
  }

  // A reduce needs the sources of its whole group; fetches come first, for they may stand in the
  // loops of any group.
  void find_needs() {
    std::vector<Node*> ends(body_->src().begin(), body_->src().end());
    std::ranges::stable_partition(ends, [](Node* end) { return is_fetch(UOp(end)); });
    needs_[body_.get()] = ends;
    auto add_needs = [&](UOp m, std::vector<Node*>& out) {
      if (auto s = stored_by_.find(m.get()); s != stored_by_.end())
        for (uint32_t i = 0; i < s->second->nsrc; ++i)
          if (i != 1) out.push_back(s->second->sources[i]);
      out.insert(out.end(), m->src().begin(), m->src().end());
    };
    for (const auto& [reduce, store] : stored_by_) add_needs(store->src(1), needs_[reduce]);
    for (const Group& g : groups_) {
      std::vector<Node*> all;
      for (UOp m : std::views::reverse(g.members)) add_needs(m, all);
      for (UOp m : g.members) needs_[m.get()] = all;
    }
  }

  UOp mapped(UOp n) { return (*now_)(n); }

  static constexpr OpSet kValues{Op::Load, Op::Reduce, Op::Shuffle, Op::Fragment};

  // A node built from others may fold to one of them, which is a statement already, or to a leaf.
  void add(Scope* scope, UOp n) {
    const bool statement = has(n->op, Alu) || kValues.has(n->op);
    if (statement && listed_.insert(n.get()).second) scope->items.push_back({n, nullptr});
  }

  UOp placed(UOp n) {
    if (n->is(Op::Sink)) return finished();
    auto it = group_of_.find(n.get());
    if (it != group_of_.end()) {
      Group& g = groups_[it->second];
      if (!g.emitted) g.guarded ? place_branch(g) : place_group(g);
      g.emitted = true;
      return made_.at(n.get());
    }
    if (kMeetings.has(n->op) && !ended_.count(n.get())) return placed_meeting(n);
    if (has(n->op, Effect) && !n->is(Op::After)) return {};
    if (auto c = carried_.find(n.get()); c != carried_.end()) return place_carried(n, c->second);
    const bool accumulates = n->is(Op::Reduce) && !accumulated_ranges(n).empty();
    UOp now = accumulates ? accumulate_step(n) : n->nsrc ? with_src(n, now_->src) : n;
    if (n->is(Op::Load) && ordered_.contains(n.get())) now = make(n->op, n->dtype, {now->src(0)});
    if (!stepped_.count(n.get())) add(home_of(n), now);
    return now;
  }

  static constexpr OpSet kMeetings{Op::Barrier, Op::Wait, Op::Await, Op::Box};

  UOp placed_meeting(UOp n) {
    UOp now = with_src(n, now_->src);
    home_of(n)->items.push_back({now, nullptr});
    return now;
  }

  UOp finished() {
    for (Node* end : body_->src())
      if (auto it = ordered_.find(UOp(end)->src(0).get()); it != ordered_.end())
        place_ordered_write(UOp(end)->src(0), it->second);
      else
        home(slots_of(loops_of(UOp(end))))->stores.push_back(mapped(UOp(end)->src(0)));
    for (auto& [load, c] : carried_) {
      const UOp keep = make(Op::Store, DType::none, {c.reg, mapped(c.store->src(1))});
      by_slot_[range_slot(c.round)]->stores.push_back(keep);
    }
    std::vector<UOp> out;
    flatten(&root_, out);
    return make(Op::Linear, DType::none, out, body_->arg);
  }

  void place_ordered_write(UOp store, Scope* guard) {
    const UOp now = mapped(store), extent = cast(now->src(2), DType::i32);
    add(guard->parent, extent);
    if (!guard->range) guard->parent->items.push_back({UOp(), guard});
    if (!guard->range) guard->range = loop_of_own(extent);
    guard->stores.push_back(make(Op::Store, DType::none, {now->src(0), now->src(1)}, now->arg));
  }

  // A loop that is run once where some element of the tile is rare. Registers hold the usual values
  // before it.
  void place_branch(Group& g) {
    Scope* outside = g.guarded->parent;
    UOp condition = mapped(g.members[0]->src(0)), any = condition;
    const std::vector<UOp> tile = tile_of(condition, condition);
    if (!tile.empty()) any = reduce_over(Op::Max, condition, tile);
    UOp extent = cast(any, DType::i32);
    add(outside, any);
    add(outside, extent);
    g.guarded->range = loop_of_own(extent);
    std::vector<UOp> regs;
    for (UOp m : g.members) {
      UOp usual = mapped(m->src(2)), chosen = where(condition, mapped(m->src(1)), usual);
      add(g.guarded, chosen);
      regs.push_back(new_register(m->dtype, tile_of(chosen, usual)));
      outside->items.push_back({make(Op::Store, DType::none, {regs.back(), usual}), nullptr});
      g.guarded->stores.push_back(make(Op::Store, DType::none, {regs.back(), chosen}));
    }
    outside->items.push_back({UOp(), g.guarded});
    for (size_t i = 0; i < regs.size(); ++i) {
      UOp end = make(Op::End, DType::none, {g.guarded->stores[i], g.guarded->range});
      UOp after = make(Op::After, regs[i]->dtype, {regs[i], end});
      UOp result = make(Op::Load, after->dtype, {after});
      add(outside, result);
      made_[g.members[i].get()] = result;
    }
  }

  UOp loop_of_own(UOp extent) {
    int64_t ints[] = {take_slot(slots_), static_cast<int64_t>(Role::Loop)};
    return make(Op::Range, extent->dtype, {extent}, Arg::of(intern_arg(ints)));
  }

  UOp new_register(DType dtype, const std::vector<UOp>& tile) {
    int64_t slot[] = {next_reg_++};
    return make(Op::Reg, dtype, tile, Arg::of(intern_arg(slot)));
  }

  // One more value folded.
  UOp step(Op op, UOp before, UOp value) const {
    if (value->is(Op::Fragment)) {
      std::vector<UOp> src(value->src().begin(), value->src().end());
      src[0] = before;
      return make(Op::Fragment, value->dtype, src, value->arg);
    }
    if (dot_of(value->op) && value->src(2) == fold_identity(op, value->dtype))
      return make(value->op, value->dtype, {value->src(0), value->src(1), before});
    if (!fuse_ || op != Op::Add || !value->is(Op::Mul) || !is_fusable(value->dtype))
      return binary(op, before, value);
    return mul_add(value->src(0), value->src(1), before);
  }

  // A Reduce without loops of its own: what is in memory, and the tile folded.
  UOp accumulate_step(UOp n) {
    const uint64_t outside = outside_of(n);
    std::vector<UOp> tile;
    for (Node* r : n->src().subspan(1))
      if (!is_accumulated(UOp(r))) tile.push_back(mapped(UOp(r)));
    const Op op = static_cast<Op>(n->ints(0));
    UOp value = mapped(n->src(0));
    if (!tile.empty()) value = reduce_over(op, value, tile);
    add(home(outside), value);
    UOp now = step(op, start_of(n, home(outside)), value);
    add(home(outside), now);
    return now;
  }

  // Registers before the loops, one step in the innermost, the result after them.
  void place_group(Group& g) {
    Scope* outside = home(g.outside);
    std::vector<Sum> sums;
    for (UOp m : g.members)
      if (m->is(Op::End))
        place_write(g, m, outside);
      else
        sums.push_back(place_sum(g, m, outside));
    link(g, outside);
    for (const Sum& s : sums) finish(g, s, outside);
  }

  struct Sum {
    UOp reduce, reg, update;
  };
  Sum place_sum(const Group& g, UOp m, Scope* outside) {
    Scope* inner = by_slot_[range_slot(g.loops.back())];
    const Op op = static_cast<Op>(m->ints(0));
    UOp value = mapped(m->src(0));
    std::vector<UOp> unrolled;
    for (uint32_t i = 1; i < m->nsrc; ++i)
      if (range_role(m->src(i)) == Role::Unroll) unrolled.push_back(m->src(i));
    if (!unrolled.empty()) {
      value = reduce_over(op, value, unrolled);
      add(inner, value);
    }
    UOp first = folds_tile(m) ? fold_identity(op, m->dtype) : start_of(m, outside);
    UOp reg = new_register(m->dtype, tile_of(value, first));
    UOp start = make(Op::Store, DType::none, {reg, first});
    outside->items.push_back({start, nullptr});
    UOp before = make(Op::Load, m->dtype, {make(Op::After, m->dtype, {reg, start})});
    UOp next = step(op, before, value);
    add(inner, before);
    add(inner, next);
    UOp update = make(Op::Store, DType::none, {reg, next});
    inner->stores.push_back(update);
    return {m, reg, update};
  }

  // Puts a group's loops into one another, and the outermost in its place.
  void link(const Group& g, Scope* outside) {
    for (size_t i = g.loops.size(); i-- > 1;)
      by_slot_[range_slot(g.loops[i - 1])]->items.push_back(
          {UOp(), by_slot_[range_slot(g.loops[i])]});
    if (!g.loops.empty()) outside->items.push_back({UOp(), by_slot_[range_slot(g.loops.front())]});
  }

  static std::vector<UOp> tile_of(UOp value, UOp first) {
    std::vector<UOp> tile;
    for (UOp part : {value, first})
      for (UOp r : open_ranges(part))
        if (is_tile(range_role(r)) && !std::ranges::count(tile, r)) tile.push_back(r);
    std::ranges::sort(tile, {}, range_slot);
    return tile;
  }

  // Lanes and several accumulators are folded after the loops, and what was accumulated too.
  static bool is_folded_late(UOp r) { return !is_loop(r) && range_role(r) != Role::Unroll; }
  static bool folds_tile(UOp m) {
    return std::ranges::any_of(m->src().subspan(1), [](Node* r) { return is_folded_late(UOp(r)); });
  }

  // What a reduce starts from: in all rounds that accumulate but the first what is in memory.
  UOp start_of(UOp m, Scope* outside) {
    const Op op = static_cast<Op>(m->ints(0));
    UOp identity = fold_identity(op, m->dtype), later;
    auto listed = [&](UOp n) {
      add(outside, n);
      return n;
    };
    for (UOp b : accumulated_ranges(m)) {
      UOp one = listed(lt(zero_like(mapped(b)), mapped(b)));
      later = later ? listed(later | one) : one;
    }
    if (!later) return identity;
    UOp store = stored_by_.at(m.get());
    UOp gate = store->nsrc > 2 ? listed(later & mapped(store->src(2))) : later;
    UOp there = listed(make(Op::Load, m->dtype, {mapped(store->src(0)), gate}));
    return identity == zero_like(m) ? there : listed(where(later, there, identity));
  }

  void place_write(const Group& g, UOp end, Scope* outside) {
    UOp write = mapped(end->src(0));
    if (g.loops.empty())
      outside->items.push_back({write, nullptr});
    else
      by_slot_[range_slot(g.loops.back())]->stores.push_back(write);
    std::vector<UOp> src{write};
    for (Node* r : end->src().subspan(1)) src.push_back(mapped(UOp(r)));
    made_[end.get()] = make(Op::End, DType::none, src);
  }

  void finish(const Group& g, const Sum& s, Scope* outside) {
    UOp member = s.reduce;
    std::vector<UOp> src{s.update};
    for (UOp r : g.loops) src.push_back(mapped(r));
    UOp end = make(Op::End, DType::none, src);
    UOp result = make(Op::Load, member->dtype, {make(Op::After, member->dtype, {s.reg, end})});
    add(outside, result);
    std::vector<UOp> tile;
    for (Node* r : member->src().subspan(1))
      if (is_folded_late(UOp(r))) tile.emplace_back(r);
    if (!tile.empty()) {
      const Op op = static_cast<Op>(member->ints(0));
      result = reduce_over(op, result, tile);
      add(outside, result);
      if (!accumulated_ranges(member).empty())
        result = binary(op, start_of(member, outside), result);
      add(outside, result);
    }
    made_[member.get()] = result;
  }

  void flatten(Scope* root, std::vector<UOp>& out) {
    struct At {
      Scope* scope;
      size_t next;
    };
    std::vector<At> stack{
        {root, 0}
    };
    while (!stack.empty()) {
      At& at = stack.back();
      Scope* s = at.scope;
      if (at.next == 0 && s->range) out.push_back(s->range);
      size_t i = at.next++;
      if (i < s->items.size()) {
        if (s->items[i].scope)
          stack.push_back({s->items[i].scope, 0});
        else
          out.push_back(s->items[i].statement);
        continue;
      }
      if (i == s->items.size() && s->chain) {
        stack.push_back({s->chain, 0});
        continue;
      }
      for (UOp store : s->stores) out.push_back(store);
      if (s->range) out.push_back(make(Op::End, DType::none, {out.back(), s->range}));
      stack.pop_back();
    }
  }
};

}  // namespace

UOp linearize(UOp body, bool fuse) { return Linearizer(body, fuse).run(); }

}  // namespace mote
