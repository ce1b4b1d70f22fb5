// From drawn kernels to ordered steps.
#include <algorithm>
#include <numeric>
#include <queue>

#include "algebra/algebra.h"
#include "base/error.h"
#include "base/flags.h"
#include "ir/freedoms.h"
#include "schedule/bodies.h"

namespace mote {

namespace {

// Items by a number below `groups`, in the order they had: found without a search.
template <class T>
class Grouped {
 public:
  template <class Key>
  Grouped(const std::vector<T>& items, size_t groups, Key key)
      : first_(groups + 1), items_(items.size()) {
    for (const T& item : items) ++first_[static_cast<size_t>(key(item)) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<size_t> next = first_;
    for (const T& item : items) items_[next[static_cast<size_t>(key(item))]++] = item;
  }
  std::span<const T> operator[](int group) const {
    const size_t begin = first_[static_cast<size_t>(group)];
    return {items_.data() + begin, first_[static_cast<size_t>(group) + 1] - begin};
  }

 private:
  std::vector<size_t> first_;  // by group: its first item
  std::vector<T> items_;
};

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
    size_t staged = 0;  // values in memory of the kernel
    // Of a kernel with a reduce that reuses what it loads, such as a matrix product: what such
    // reduces read, by holder and position, sorted.
    std::vector<std::pair<int, uint32_t>> operands;
    bool heavy() const { return !operands.empty(); }
  };
  // Two kernels, the later of which must wait for the earlier.
  struct Edge {
    int later, earlier;
  };

  Drawn d_;
  const Target& target_;
  std::vector<std::vector<int>> reads_;    // holder ids, per kernel, sorted
  std::vector<Edge> edges_;
  std::vector<int> level_;
  std::vector<int> sequence_;
  std::vector<Weight> weights_;            // once asked for
  Contents contents_;

  DrawnKernel& kernel(int k) { return d_.kernels[static_cast<size_t>(k)]; }

  int holder_of(const DrawnKernel& k, int slot) const {
    return k.arguments[static_cast<size_t>(slot)].holder;
  }

  UOp read(DrawnKernel& k, const Holder& h, UOp position) {
    return make(Op::Index, d_.buffer(h).dtype, {d_.argument(k, h).param, position});
  }

  std::vector<int> holders_in(const DrawnKernel& k) {
    if (k.copy) return {d_.holders.id(k.copy_source)};
    std::vector<int> found;
    for (int slot : contents_.of(k).slots) found.push_back(holder_of(k, slot));
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
      PlannedBuffer temp = d_.buffer(w.holder);
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
      back.places = d_.kernels[at].places;
      std::erase_if(back.ranges, [&](UOp r) { return !(w.slots & r->ranges); });
      back.device = d_.kernels[at].device;
      UOp flat = Positions().flatten(position, shape.dims);
      Write copy = w;
      copy.value = read(back, held, flat);
      back.writes = {copy};
      d_.kernels[at].writes[i].position = flat;
      d_.kernels[at].writes[i].holder = held;
      d_.kernels[at].writes[i].before = {};
      d_.kernels.push_back(back);
    }
  }

  bool overlaps(const DrawnKernel& k, const Write& w) {
    return std::ranges::any_of(contents_.of(k).reads, [&](const Content::Read& read) {
      const Holder& h = d_.holders[holder_of(k, read.slot)];
      return h.buffer == w.holder.buffer && (read.position != w.position || h.version != w.before);
    });
  }

  // A read of a version that another kernel overwrites.
  struct LateRead {
    int reader, writer, holder;
  };

  // Who must run before whom. False when a snapshot had to be added: then the edges change.
  bool find_edges() {
    const auto n = static_cast<int>(d_.kernels.size());
    reads_.resize(d_.kernels.size());
    edges_.clear();
    std::vector<std::pair<Holder, int>> written;
    for (int k = 0; k < n; ++k) {
      reads_[static_cast<size_t>(k)] = holders_in(kernel(k));
      for (const Write& w : kernel(k).writes) written.emplace_back(w.holder, k);
    }
    const Grouped writers_of(written, d_.buffers.size(),
                             [](const auto& w) { return w.first.buffer; });
    std::vector<LateRead> war;
    for (int k = 0; k < n; ++k) {
      for (int id : reads_[static_cast<size_t>(k)]) {
        const Holder& h = d_.holders[id];
        for (auto& [made, by] : writers_of[h.buffer]) {
          if (by == k) continue;
          if (made == h) edges_.push_back({k, by});
          if (overwrites(by, h)) war.push_back({k, by, id});
        }
      }
      for (const Write& w : kernel(k).writes)
        if (w.before)
          for (auto& [made, by] : writers_of[w.holder.buffer])
            if (made.version == w.before && by != k) edges_.push_back({k, by});
    }
    const size_t needed = edges_.size();
    for (const LateRead& r : war) edges_.push_back({r.writer, r.reader});
    if (sort_kernels()) return true;
    edges_.resize(needed);
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
      for (int id : reads_[k]) out += text(" ", d_.holders[id].buffer);
      out += " after";
      for (Edge e : edges_)
        if (e.later == static_cast<int>(k) && !std::ranges::count(sequence_, e.earlier))
          out += text(" ", e.earlier);
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
    for (int id : reads_[static_cast<size_t>(k)]) add(d_.holders[id].buffer, reads);
    return makes <= std::max(kMention, reads / kFolds);
  }

  // Kahn's algorithm; also gives each kernel its level. Among the ready ones those that need no
  // memory come first, so that gradients are used up as they are made, then program order.
  bool sort_kernels() {
    const size_t n = d_.kernels.size();
    std::vector<int> waiting(n);
    for (Edge e : edges_) ++waiting[static_cast<size_t>(e.later)];
    const Grouped after(edges_, n, [](Edge e) { return e.earlier; });
    // Kernels were drawn consumers first, so the largest number comes earliest in the program.
    std::priority_queue<std::pair<bool, int>> ready;
    auto add = [&](int k) { ready.emplace(needs_no_memory(k), k); };
    for (size_t k = 0; k < n; ++k)
      if (!waiting[k]) add(static_cast<int>(k));
    sequence_.clear();
    level_.assign(n, 0);
    while (!ready.empty()) {
      int k = ready.top().second;
      ready.pop();
      sequence_.push_back(k);
      for (Edge e : after[k]) {
        const auto next = static_cast<size_t>(e.later);
        level_[next] = std::max(level_[next], level_[static_cast<size_t>(k)] + 1);
        if (--waiting[next] == 0) add(e.later);
      }
    }
    return sequence_.size() == n;
  }

  // A reader that cannot run before the version is overwritten reads a copy made in time.
  void snapshot_late_reads(const std::vector<LateRead>& war) {
    std::vector<size_t> rank(d_.kernels.size());
    for (size_t i = 0; i < sequence_.size(); ++i) rank[static_cast<size_t>(sequence_[i])] = i;
    auto is_late = [&](const LateRead& r) {
      return rank[static_cast<size_t>(r.reader)] >= rank[static_cast<size_t>(r.writer)];
    };
    std::set<int> copied;
    for (const LateRead& late : war) {
      if (!is_late(late) || !copied.insert(late.holder).second) continue;
      const Holder old = d_.holders[late.holder];
      PlannedBuffer temp = d_.buffer(old);
      temp.param = -1;
      d_.buffers.push_back(temp);
      Holder held{static_cast<int>(d_.buffers.size()) - 1, {}};
      for (const LateRead& r : war)
        if (r.holder == late.holder && is_late(r)) redirect(kernel(r.reader), old, held);
      DrawnKernel copy;
      copy.device = temp.device;
      UOp loop = range(0, index(temp.count), Role::Loop);
      copy.ranges = {loop};
      copy.writes = {{loop, read(copy, old, loop), loop->ranges, held, {}}};
      d_.kernels.push_back(copy);
    }
  }

  // Reads `held`, a copy, where it read `old`.
  void redirect(DrawnKernel& k, const Holder& old, const Holder& held) {
    if (k.copy && k.copy_source == old) k.copy_source = held;
    for (Argument& a : k.arguments)
      if (d_.holders[a.holder] == old) a.holder = d_.holders.id(held);
  }

  // ---- siblings

  Weight weigh(const DrawnKernel& k) {
    const Content& content = contents_.of(k);
    Weight w{content.ops, content.staged, {}};
    for (const Content::Read& r : content.operands)
      w.operands.emplace_back(holder_of(k, r.slot), r.position->id);
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
    const size_t buffers =
        reads_[static_cast<size_t>(k)].size() + kernel(k).writes.size() + weight(k).staged;
    return buffers < static_cast<size_t>(target_.max_buffers) && weight(k).ops < target_.max_ops;
  }

  // How many are in both; each is sorted.
  template <class T>
  static size_t common(const std::vector<T>& a, const std::vector<T>& b) {
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
    if (weight(a).heavy() != weight(b).heavy()) return false;
    if (weight(a).heavy() && !common(weight(a).operands, weight(b).operands)) return false;
    const std::vector<int>&of_a = reads_[static_cast<size_t>(a)],
          &of_b = reads_[static_cast<size_t>(b)];
    const size_t shared = common(of_a, of_b);
    const size_t buffers = of_a.size() + of_b.size() - shared + x.writes.size() +
                           y.writes.size() + weight(a).staged + weight(b).staged;
    return shared && buffers <= static_cast<size_t>(target_.max_buffers);
  }

  void merge(int a, int b) {
    DrawnKernel &x = kernel(a), &y = kernel(b);
    // Loops of y's own that clash with other loops of x get new slots. Matrix products keep loops
    // of their own: the registers hold one tile at a time. So do sums with an order to keep, for
    // which some loops of the other are in another one.
    const bool apart = weight(a).heavy() || !allows(Freedom::Reassociate);
    const std::vector<UOp>&mine = contents_.of(x).loops, &theirs = contents_.of(y).loops;
    uint64_t used = 0;
    for (UOp r : mine) used |= slot_bit(r);
    for (UOp r : theirs) used |= slot_bit(r);
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
    for (const Argument& from : y.arguments) {
      UOp to = d_.argument(x, d_.holders[from.holder]).param;
      if (to != from.param) map.emplace_back(from.param, to);
    }
    for (Write w : y.writes) {
      if (!map.empty()) w.value = substitute(w.value, map);
      x.writes.push_back(w);
    }
    y.writes.clear();
    for (uint32_t place : y.places) x.add_place(place);
    reads_[static_cast<size_t>(a)] = holders_in(x);
    weights_[static_cast<size_t>(a)] = weigh(x);
  }

  // ---- steps

  // Arrays without elements are ordered like others, but there is nothing to run.
  void drop_empty_writes(DrawnKernel& k) {
    std::erase_if(k.writes, [&](const Write& w) {
      if (k.copy) return d_.buffers[static_cast<size_t>(w.holder.buffer)].count == 0;
      return std::ranges::any_of(
          k.ranges, [&](UOp r) { return (w.slots & r->ranges) && r->src(0)->is_const(0); });
    });
  }

  // A gate only leaves some of them out.
  Elements elements(const Write& w) const {
    const bool gated = w.position->is(Op::Where) && w.position->src(2)->is(Op::Invalid);
    UOp at = gated ? w.position->src(1) : w.position;
    const int64_t count = d_.buffer(w.holder).count;
    return {std::max<int64_t>(at->lo, 0), std::min(at->hi, count - 1) + 1};
  }

  Plan emit() {
    Plan plan;
    Bodies bodies;
    plan.steps.reserve(sequence_.size());
    for (int k : sequence_) {
      drop_empty_writes(kernel(k));
      if (kernel(k).writes.empty()) continue;
      if (!kernel(k).copy) {
        if (std::optional<DrawnKernel> parts = partial_sums(d_, kernel(k), target_))
          plan.steps.push_back(bodies.step_of(d_, *parts));
        plan.steps.push_back(bodies.step_of(d_, kernel(k)));
        for (const Write& w : kernel(k).writes) plan.steps.back().written.push_back(elements(w));
        continue;
      }
      Step copy;
      copy.buffers = {kernel(k).writes[0].holder.buffer, kernel(k).copy_source.buffer};
      copy.outputs = 1;
      copy.written = {{0, d_.buffer(kernel(k).writes[0].holder).count}};
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
  if (!flag(Flag::NOFUSE)) sink = two_step_reduce(sink, target);
  Drawn drawn = build_kernels(assign_ranges(sink, target));
  Plan plan = order_kernels(std::move(drawn), target);
  plan_memory(plan);
  return plan;
}

}  // namespace mote
