// From drawn kernels to ordered steps.
#include <algorithm>
#include <queue>

#include "algebra/algebra.h"
#include "base/error.h"
#include "base/flags.h"
#include "schedule/ranges.h"

namespace mote {

namespace {

class Orderer {
 public:
  Orderer(Drawn drawn, const Target& target) : d_(std::move(drawn)), target_(target) {}

  Plan run() {
    for (size_t k = 0; k < d_.kernels.size(); ++k) avoid_overlap(k);
    while (!find_edges()) {}
    merge_siblings();
    while (!find_edges()) {}
    return emit();
  }

 private:
  struct Weight {
    int ops = 0;
    bool heavy = false;         // has a reduce that reuses what it loads, such as a matrix product
    std::vector<int> operands;  // of heavy ones: Index nodes in such reduces, by id, sorted
  };

  Drawn d_;
  const Target& target_;
  std::vector<std::vector<int>> reads_;    // holder ids, per kernel, sorted
  std::vector<std::set<int>> before_;      // kernels that must run earlier
  std::vector<int> level_;
  std::vector<int> sequence_;
  std::vector<Weight> weights_;            // once asked for

  DrawnKernel& kernel(int k) { return d_.kernels[static_cast<size_t>(k)]; }

  UOp holder_param(const Holder& h) {
    return d_.holders.param_of(h, d_.buffers[static_cast<size_t>(h.buffer)]);
  }

  std::vector<int> holders_in(const DrawnKernel& k) {
    if (k.copy) return {d_.holders.id(k.copy_source)};
    std::vector<UOp> roots;
    for (const Write& w : k.writes) {
      roots.push_back(w.value);
      roots.push_back(w.position);
    }
    std::vector<int> found;
    for (UOp n : toposort(roots))
      if (n->is(Op::Param)) found.push_back(static_cast<int>(n->ints(0)));
    std::ranges::sort(found);
    return found;
  }

  // A kernel that writes a buffer it also reads elsewhere than at the place of the write first
  // fills a temporary; the copy back is a kernel of its own.
  void avoid_overlap(size_t at) {
    if (d_.kernels[at].copy) return;
    for (size_t i = 0; i < d_.kernels[at].writes.size(); ++i) {
      Write w = d_.kernels[at].writes[i];
      if (!w.holder.version || !overlaps(d_.kernels[at], w)) continue;
      PlannedBuffer temp = d_.buffers[static_cast<size_t>(w.holder.buffer)];
      std::vector<UOp> position;
      Shape shape{0, {}, false};
      for (UOp r : d_.kernels[at].ranges)
        if (w.slots & r->ranges) {
          position.push_back(r);
          shape.dims.emplace_back(r->src(0));
        }
      temp = {temp.dtype, shape.count(), temp.device, -1, -1};
      d_.buffers.push_back(temp);
      Holder held{static_cast<int>(d_.buffers.size()) - 1, {}};
      DrawnKernel back;
      back.ranges = d_.kernels[at].ranges;
      std::erase_if(back.ranges, [&](UOp r) { return !(w.slots & r->ranges); });
      back.device = d_.kernels[at].device;
      UOp flat = flatten(position, shape);
      Write copy = w;
      copy.value = make(Op::Index, temp.dtype, {holder_param(held), flat});
      back.writes = {copy};
      d_.kernels[at].writes[i].position = flat;
      d_.kernels[at].writes[i].holder = held;
      d_.kernels[at].writes[i].before = {};
      d_.kernels.push_back(back);
    }
  }

  bool overlaps(const DrawnKernel& k, const Write& w) {
    std::vector<UOp> roots;
    for (const Write& other : k.writes) {
      roots.push_back(other.value);
      roots.push_back(other.position);
    }
    for (UOp n : toposort(roots)) {
      if (!n->is(Op::Index)) continue;
      const Holder& h = d_.holders[static_cast<size_t>(n->src(0)->ints(0))];
      if (h.buffer == w.holder.buffer && (n->src(1) != w.position || h.version != w.before))
        return true;
    }
    return false;
  }

  // Who must run before whom. False when a snapshot had to be added: then the edges change.
  bool find_edges() {
    size_t n = d_.kernels.size();
    reads_.assign(n, {});
    before_.assign(n, {});
    std::vector<std::pair<Holder, int>> writer;
    for (size_t k = 0; k < n; ++k) {
      reads_[k] = holders_in(d_.kernels[k]);
      for (const Write& w : d_.kernels[k].writes)
        writer.emplace_back(w.holder, static_cast<int>(k));
    }
    auto by_buffer = [](const auto& a, const auto& b) { return a.first.buffer < b.first.buffer; };
    std::ranges::stable_sort(writer, by_buffer);
    auto writers_of = [&](int buffer) {
      return std::ranges::equal_range(writer, buffer, {}, [](const auto& e) {
        return e.first.buffer;
      });
    };
    for (size_t k = 0; k < n; ++k) {
      for (int id : reads_[k]) {
        const Holder& h = d_.holders[static_cast<size_t>(id)];
        for (auto& [made, by] : writers_of(h.buffer))
          if (made == h && by != static_cast<int>(k)) before_[k].insert(by);
      }
      for (const Write& w : d_.kernels[k].writes)
        if (w.before)
          for (auto& [made, by] : writers_of(w.holder.buffer))
            if (made.version == w.before && by != static_cast<int>(k)) before_[k].insert(by);
    }
    std::vector<std::tuple<int, int, int>> war;  // reader, writer, holder
    for (size_t k = 0; k < n; ++k)
      for (int id : reads_[k]) {
        const Holder& h = d_.holders[static_cast<size_t>(id)];
        for (auto& [made, by] : writers_of(h.buffer))
          if (by != static_cast<int>(k) && overwrites(by, h))
            war.emplace_back(static_cast<int>(k), by, id);
      }
    for (auto [reader, by, id] : war) before_[static_cast<size_t>(by)].insert(reader);
    if (sort_kernels()) return true;
    for (auto [reader, by, id] : war) before_[static_cast<size_t>(by)].erase(reader);
    ensure(sort_kernels(), "kernels depend on each other in a circle:", circle());
    snapshot_late_reads(war);
    return false;
  }

  // The kernels that sort_kernels could not place, for the error message.
  std::string circle() {
    std::string out;
    for (size_t k = 0; k < d_.kernels.size(); ++k) {
      if (std::ranges::count(sequence_, static_cast<int>(k))) continue;
      out += text("\n kernel ", k, " writes");
      for (const Write& w : d_.kernels[k].writes) out += text(" ", w.holder.buffer);
      out += " reads";
      for (int id : reads_[k]) out += text(" ", d_.holders[static_cast<size_t>(id)].buffer);
      out += " after";
      for (int b : before_[k])
        if (!std::ranges::count(sequence_, b)) out += text(" ", b);
    }
    return out;
  }

  bool overwrites(int k, const Holder& h) {
    for (const Write& w : kernel(k).writes)
      if (w.holder.buffer == h.buffer && w.holder.version && w.before == h.version) return true;
    return false;
  }

  // A kernel whose temporaries are nothing beside those it reads can only end the life of some.
  bool needs_no_memory(int k) {
    constexpr int64_t kMention = 4096, kFolds = 8;
    int64_t makes = 0, reads = 0;
    auto add = [&](int buffer, int64_t& to) {
      const PlannedBuffer& b = d_.buffers[static_cast<size_t>(buffer)];
      if (b.param < 0) to += b.bytes();
    };
    for (const Write& w : kernel(k).writes) add(w.holder.buffer, makes);
    for (int id : reads_[static_cast<size_t>(k)])
      add(d_.holders[static_cast<size_t>(id)].buffer, reads);
    return makes <= std::max(kMention, reads / kFolds);
  }

  // Kahn's algorithm; also gives each kernel its level. Among the ready ones those that need no
  // memory come first, so that gradients are used up as they are made, then program order.
  bool sort_kernels() {
    size_t n = d_.kernels.size();
    std::vector<int> waiting(n);
    std::vector<std::vector<int>> then(n);
    // Kernels were drawn consumers first, so the largest number comes earliest in the program.
    std::priority_queue<std::pair<bool, int>> ready;
    auto add = [&](int k) { ready.emplace(needs_no_memory(k), k); };
    for (size_t k = 0; k < n; ++k) {
      waiting[k] = static_cast<int>(before_[k].size());
      for (int b : before_[k]) then[static_cast<size_t>(b)].push_back(static_cast<int>(k));
      if (!waiting[k]) add(static_cast<int>(k));
    }
    sequence_.clear();
    level_.assign(n, 0);
    while (!ready.empty()) {
      int k = ready.top().second;
      ready.pop();
      sequence_.push_back(k);
      for (int next : then[static_cast<size_t>(k)]) {
        int& level = level_[static_cast<size_t>(next)];
        level = std::max(level, level_[static_cast<size_t>(k)] + 1);
        if (--waiting[static_cast<size_t>(next)] == 0) add(next);
      }
    }
    return sequence_.size() == n;
  }

  // A reader that cannot run before the version is overwritten reads a copy made in time.
  void snapshot_late_reads(const std::vector<std::tuple<int, int, int>>& war) {
    std::vector<size_t> rank(d_.kernels.size());
    for (size_t i = 0; i < sequence_.size(); ++i) rank[static_cast<size_t>(sequence_[i])] = i;
    std::set<int> copied;
    for (auto [reader, by, id] : war) {
      if (rank[static_cast<size_t>(reader)] < rank[static_cast<size_t>(by)]) continue;
      Holder old = d_.holders[static_cast<size_t>(id)];
      if (!copied.insert(id).second) continue;
      PlannedBuffer temp = d_.buffers[static_cast<size_t>(old.buffer)];
      temp.param = -1;
      d_.buffers.push_back(temp);
      Holder held{static_cast<int>(d_.buffers.size()) - 1, {}};
      UOp from = holder_param(old), to = holder_param(held);
      for (auto [r2, by2, id2] : war)
        if (id2 == id && rank[static_cast<size_t>(r2)] >= rank[static_cast<size_t>(by2)])
          redirect(kernel(r2), old, held, from, to);
      DrawnKernel copy;
      copy.device = temp.device;
      UOp loop = range(0, index(temp.count), Role::Loop);
      copy.ranges = {loop};
      copy.writes = {{loop, make(Op::Index, temp.dtype, {from, loop}), loop->ranges, held, {}}};
      d_.kernels.push_back(copy);
    }
  }

  void redirect(DrawnKernel& k, const Holder& old, const Holder& held, UOp from, UOp to) {
    if (k.copy && k.copy_source == old) k.copy_source = held;
    if (k.copy) return;
    std::pair<UOp, UOp> map[] = {{from, to}};
    for (Write& w : k.writes) {
      w.value = substitute(w.value, map);
      w.position = substitute(w.position, map);
    }
  }

  // ---- siblings

  Weight weigh(const DrawnKernel& k) {
    Weight w;
    std::vector<UOp> roots;
    for (const Write& write : k.writes) roots.push_back(write.value);
    for (UOp n : toposort(roots)) {
      ++w.ops;
      if (!n->is(Op::Reduce)) continue;
      uint64_t all = n->src(0)->ranges;
      for (UOp i : toposort(n->src(0)))
        if (i->is(Op::Index) && (i->src(1)->ranges & all) != all)
          w.operands.push_back(static_cast<int>(i->id));
    }
    w.heavy = !w.operands.empty();
    std::ranges::sort(w.operands);
    return w;
  }

  void merge_siblings() {
    std::vector<std::vector<int>> levels;
    for (int k : sequence_) {
      auto level = static_cast<size_t>(level_[static_cast<size_t>(k)]);
      if (levels.size() <= level) levels.resize(level + 1);
      levels[level].push_back(k);
    }
    weights_.assign(d_.kernels.size(), {});
    for (const std::vector<int>& level : levels) merge_within(level);
    std::erase_if(d_.kernels, [](const DrawnKernel& k) { return k.writes.empty(); });
  }

  void merge_within(const std::vector<int>& level) {
    for (size_t i = 0; i < level.size(); ++i) {
      int a = level[i];
      if (kernel(a).writes.empty() || kernel(a).copy) continue;
      for (size_t j = i + 1; j < level.size() && has_room(a); ++j)
        if (int b = level[j]; !kernel(b).writes.empty() && may_merge(a, b)) merge(a, b);
    }
  }

  const Weight& weight(int k) {
    Weight& w = weights_[static_cast<size_t>(k)];
    if (!w.ops) w = weigh(kernel(k));
    return w;
  }

  bool has_room(int k) {
    size_t buffers = reads_[static_cast<size_t>(k)].size() + kernel(k).writes.size();
    return buffers < static_cast<size_t>(target_.max_buffers) && weight(k).ops < target_.max_ops;
  }

  // How many are in both; each is sorted.
  static size_t common(const std::vector<int>& a, const std::vector<int>& b) {
    size_t count = 0;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
      count += a[i] == b[j];
      const bool before = a[i] <= b[j], after = b[j] <= a[i];
      i += before, j += after;
    }
    return count;
  }

  bool may_merge(int a, int b) {
    const DrawnKernel &x = kernel(a), &y = kernel(b);
    if (y.copy || x.device != y.device || x.ranges != y.ranges) return false;
    if (weight(a).ops + weight(b).ops > target_.max_ops) return false;
    // Products of one operand, such as keys and values of the same rows, are tiled alike.
    if (weight(a).heavy != weight(b).heavy) return false;
    if (weight(a).heavy && !common(weight(a).operands, weight(b).operands)) return false;
    const std::vector<int>&of_a = reads_[static_cast<size_t>(a)],
          &of_b = reads_[static_cast<size_t>(b)];
    const size_t shared = common(of_a, of_b);
    const size_t buffers =
        of_a.size() + of_b.size() - shared + x.writes.size() + y.writes.size();
    return shared && buffers <= static_cast<size_t>(target_.max_buffers);
  }

  void merge(int a, int b) {
    DrawnKernel &x = kernel(a), &y = kernel(b);
    // Loops of y's own that clash with other loops of x get new slots. Matrix products keep loops
    // of their own: the registers hold one tile at a time.
    const bool apart = weight(a).heavy;
    std::vector<UOp> mine = loops(x), theirs = loops(y);
    uint64_t used = 0;
    for (UOp r : mine) used |= 1ull << range_slot(r);
    for (UOp r : theirs) used |= 1ull << range_slot(r);
    std::vector<std::pair<UOp, UOp>> map;
    for (UOp r : theirs)
      for (UOp m : mine)
        if (range_slot(r) == range_slot(m) &&
            (r != m || (apart && range_role(r) == Role::Reduce))) {
          int slot = std::countr_one(used);
          if (slot >= kFusedLoops) return;
          used |= 1ull << slot;
          map.emplace_back(r, range(slot, r->src(0), range_role(r)));
        }
    for (Write w : y.writes) {
      if (!map.empty()) w.value = substitute(w.value, map);
      x.writes.push_back(w);
    }
    y.writes.clear();
    reads_[static_cast<size_t>(a)] = holders_in(x);
    weights_[static_cast<size_t>(a)] = weigh(x);
  }

  static std::vector<UOp> loops(const DrawnKernel& k) {
    std::vector<UOp> roots, found;
    for (const Write& w : k.writes) {
      roots.push_back(w.value);
      roots.push_back(w.position);
    }
    for (UOp n : toposort(roots))
      if (n->is(Op::Range)) found.push_back(n);
    return found;
  }

  // ---- bodies

  // Ranges renumbered (outputs first, then canonically) and holders as Params: equal kernels become
  // equal nodes.
  Step emit_kernel(const DrawnKernel& k) {
    Step step;
    step.device = k.device;
    std::vector<std::pair<UOp, UOp>> map;
    std::vector<UOp> roots;
    for (const Write& w : k.writes) {
      step.buffers.push_back(w.holder.buffer);
      Holder prior{w.holder.buffer, w.before};
      UOp from = holder_param(prior);
      auto slot = static_cast<int>(step.buffers.size()) - 1;
      map.emplace_back(from, param(slot, from->dtype, from->ints(1)));
      roots.push_back(w.position);
      roots.push_back(w.value);
    }
    step.outputs = static_cast<int>(step.buffers.size());
    int next = 0;
    for (UOp r : k.ranges) map.emplace_back(r, range(next++, r->src(0), range_role(r)));
    std::vector<UOp> numbered;
    for (const auto& [from, to] : map) numbered.push_back(from);
    for (UOp n : canonical_leaves(roots, numbered)) {
      if (std::ranges::count(numbered, n)) continue;
      if (n->is(Op::Range)) map.emplace_back(n, range(next++, n->src(0), range_role(n)));
      if (!n->is(Op::Param)) continue;
      step.buffers.push_back(d_.holders[static_cast<size_t>(n->ints(0))].buffer);
      map.emplace_back(n, param(static_cast<int>(step.buffers.size()) - 1, n->dtype, n->ints(1)));
    }
    // All substituted at once; Params and Ranges are leaves, so new ones are never looked at again.
    std::vector<UOp> effects;
    for (size_t i = 0; i < k.writes.size(); ++i) {
      const Write& w = k.writes[i];
      const PlannedBuffer& b = d_.buffers[static_cast<size_t>(w.holder.buffer)];
      UOp to = param(static_cast<int>(i), b.dtype, b.count);
      UOp place = make(Op::Index, b.dtype, {to, substitute(w.position, map)});
      UOp store = make(Op::Store, DType::none, {place, substitute(w.value, map)});
      std::vector<UOp> src{store};
      for (UOp r : k.ranges)
        if (w.slots & r->ranges) src.push_back(substitute(r, map));
      effects.push_back(make(Op::End, DType::none, src));
    }
    step.body = make(Op::Sink, DType::none, effects, Arg::of(intern_arg({})));
    for (UOp n : toposort(roots))
      if (n->provenance && step.provenance.size() < Step::kMaxPlaces &&
          !std::ranges::count(step.provenance, n->provenance))
        step.provenance.push_back(n->provenance);
    return step;
  }

  // Arrays without elements are ordered like others, but there is nothing to run.
  void drop_empty_writes(DrawnKernel& k) {
    std::erase_if(k.writes, [&](const Write& w) {
      if (k.copy) return d_.buffers[static_cast<size_t>(w.holder.buffer)].count == 0;
      return std::ranges::any_of(
          k.ranges, [&](UOp r) { return (w.slots & r->ranges) && r->src(0)->is_const(0); });
    });
  }

  Plan emit() {
    Plan plan;
    plan.steps.reserve(sequence_.size());
    for (int k : sequence_) {
      drop_empty_writes(kernel(k));
      if (kernel(k).writes.empty()) continue;
      if (!kernel(k).copy) {
        plan.steps.push_back(emit_kernel(kernel(k)));
        continue;
      }
      Step copy;
      copy.buffers = {kernel(k).writes[0].holder.buffer, kernel(k).copy_source.buffer};
      copy.outputs = 1;
      copy.device = kernel(k).device;
      plan.steps.push_back(copy);
    }
    plan.buffers = std::move(d_.buffers);
    return plan;
  }
};

}  // namespace

Plan order_kernels(Drawn drawn, const Target& target) {
  return Orderer(std::move(drawn), target).run();
}

Plan schedule(UOp sink, const Target& target) {
  if (!flag(Flag::NOFUSE)) sink = split_large_reduces(sink, target);
  Draft draft = assign_ranges(sink, target);
  Plan plan = order_kernels(build_kernels(draft), target);
  plan_memory(plan);
  return plan;
}

}  // namespace mote
