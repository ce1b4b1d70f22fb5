// Consumers first: every node learns at which positions it is asked for, and there it is evaluated
// in place, stored or staged (choices.h).
#include "schedule/ranges.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "algebra/algebra.h"
#include "base/error.h"
#include "base/flags.h"
#include "ir/freedoms.h"
#include "schedule/choices.h"

namespace mote {

bool is_leaf(UOp value) {
  value = under_movement(value);
  return value->is(Op::Param) || value->is(Op::After);
}

bool widens(UOp n) {
  return n->is(Op::Cast) && size_of(n->src(0)->dtype) < size_of(n->dtype);
}

bool keeps_value(UOp store) {
  Under target = under(store->src(0));
  UOp value = store->src(1);
  // Only a buffer's first new version may hold a value for other readers: a later one would make
  // them wait for everything that the versions before it need.
  return target.whole && target.leaf->is(Op::Param) &&
         value->shape->count() == target.leaf->shape->count() && !is_leaf(value) &&
         value->device == target.leaf->device;
}

UOp loop_extent(const Dim& d) { return d.symbol ? simplify(d.symbol) : index(d.size); }

namespace {

class Assigner {
 public:
  Assigner(UOp sink, const Targets& targets) : targets_(targets) {
    draft_.order = toposort(sink);
    for (UOp n : draft_.order)
      if (!device_) device_ = n->device;
    bounds_ = bound_kernels(draft_.order, targets);
    draft_.entries = draft_.lists.make<Entry>(arena().size());
    costs_ = Costs(draft_.order, bounds_, targets);
    for (UOp n : draft_.order)
      if (n->is(Op::Param)) add_param(n);
  }

  Draft run() {
    // Index expressions made from here on get ids above those of the graph.
    for (size_t i = draft_.order.size(); i-- > 0;) visit(draft_.order[i]);
    return std::move(draft_);
  }

 private:
  const Targets& targets_;
  Draft draft_;
  Bounds bounds_;
  Costs costs_;
  const Choices choices_{draft_, bounds_, costs_, targets_};
  std::vector<uint32_t> below_;  // of descend, kept warm
  uint8_t device_ = 0;
  const bool nofuse_ = flag(Flag::NOFUSE);
  std::set<const Node*> copied_;  // sources of a Copy or Source, taken as a whole
  static constexpr uint32_t kMany = 16;
  // By kernel and node, where the node has that many requests: the kernel's latest, plus one.
  std::unordered_map<uint64_t, uint32_t> latest_;
  // By Store: kernels that must run after it, to read that version or to write the next one.
  std::unordered_map<const Node*, std::vector<int>> waiting_;

  // ---- requests

  void add_param(UOp n) {
    auto slot = static_cast<size_t>(n->ints(0));
    if (draft_.memories.size() <= slot) draft_.memories.resize(slot + 1);
    draft_.memories[slot] = n;
  }

  int add_temporary(UOp n) {
    return draft_.add_temporary(n->dtype, n->shape->count(), place_of(n));
  }

  // Values made of constants alone are computed where the first effect happens.
  uint8_t place_of(UOp n) const { return n->device ? n->device : device_; }

  static bool same(const Request& a, const Request& b) {
    return a.kernel == b.kernel && a.valid == b.valid &&
           std::ranges::equal(a.position, b.position);
  }

  uint32_t ask(UOp n, Request r) {
    std::pmr::vector<Request>& requests = draft_.at(n).requests;
    if (Request* known = find(n, requests, r)) {
      known->scope |= r.scope;
      if (known->folded_by != r.folded_by) known->folded_by = Op::Sink;
      return static_cast<uint32_t>(known - requests.data());
    }
    requests.push_back(std::move(r));
    const auto count = static_cast<uint32_t>(requests.size());
    for (uint32_t i = count == kMany ? 0 : count - 1; count >= kMany && i < count; ++i)
      requests[i].other = std::exchange(latest_[kernel_and_node(requests[i].kernel, n)], i + 1);
    return count - 1;
  }

  // Where a value has many requests, only those of the same kernel are looked at: every layer of a
  // deep network may ask for the same constant.
  Request* find(UOp n, std::pmr::vector<Request>& requests, const Request& r) {
    if (requests.size() < kMany) {
      auto known = std::ranges::find_if(requests, [&](const Request& k) { return same(k, r); });
      return known == requests.end() ? nullptr : &*known;
    }
    auto latest = latest_.find(kernel_and_node(r.kernel, n));
    uint32_t at = latest == latest_.end() ? 0 : latest->second;
    while (at && !same(requests[at - 1], r)) at = requests[at - 1].other;
    return at ? &requests[at - 1] : nullptr;
  }

  static uint64_t kernel_and_node(int kernel, UOp n) {
    return static_cast<uint64_t>(kernel) << 32 | n->id;
  }

  int new_kernel(uint8_t device) {
    draft_.kernels.emplace_back();
    draft_.kernels.back().device = device;
    return static_cast<int>(draft_.kernels.size()) - 1;
  }

  UOp new_range(int kernel, const Dim& d, Role role) {
    KernelDraft& k = draft_.kernels[static_cast<size_t>(kernel)];
    ensure(k.next_slot < kSlots, "a kernel with more than ", kSlots, " loops");
    UOp r = range(k.next_slot++, loop_extent(d), role);
    k.extents.push_back(d.size);
    if (role == Role::Reduce) k.reduce_slots |= slot_bit(r);
    return r;
  }

  // A kernel of its own for a value of this shape: one loop per axis longer than 1.
  Request fresh(const Shape& shape, uint8_t device) {
    Request r;
    std::vector<UOp> position;
    r.kernel = new_kernel(device);
    r.valid = truth(true);
    for (const Dim& d : shape.dims) {
      if (d == Dim(1)) {
        position.push_back(index(0));
        continue;
      }
      UOp loop = new_range(r.kernel, d, Role::Loop);
      draft_.kernels.back().ranges.push_back(loop);
      position.push_back(loop);
      r.scope |= loop->ranges;
    }
    r.position = draft_.lists.keep(position);
    return r;
  }

  // ---- nodes

  void visit(UOp n) {
    switch (n->op) {
      case Op::Sink: return;
      case Op::Store: return visit_store(n);
      case Op::After: return visit_after(n);
      case Op::Param: draft_.at(n).holder = {static_cast<int>(n->ints(0)), {}}; return;
      case Op::Copy:
      case Op::Source: return visit_whole(n);
      default: break;
    }
    Entry& e = draft_.at(n);
    if (e.requests.empty() && e.stores.empty()) return;
    if (n->nsrc == 0 || n->is(Op::Iota)) return store_leaf(n);
    const bool in_order = bounds_.scatters[n->id] && !nofuse_;
    bool stored = !e.stores.empty() || bounds_.forced[n->id] || n->is(Op::Contiguous) ||
                  copied_.count(n.get()) ||
                  (nofuse_ ? has(n->op, Alu) || n->is(Op::Reduce)
                           : !in_order && choices_.has_room_to_read(n, e) &&
                                 choices_.better_stored(n, e)) ||
                  !choices_.has_room_to_loop(n, e);
    if (!nofuse_ && !in_order && e.stores.empty() && !copied_.count(n.get()))
      if (std::optional<Staging> s = find_staging(n, draft_);
          s && choices_.better_staged(n, e, *s, stored))
        return stage(n, *s);
    if (stored) return store(n);
    for (uint32_t i = 0; i < e.requests.size(); ++i) descend(n, i);
  }

  // Constants and iotas are never read from memory, but they may be what is written.
  void store_leaf(UOp n) {
    for (UOp s : draft_.at(n).stores) store_root(s, n);
    draft_.at(n).stores.clear();
  }

  KernelDraft& kernel_of(const Request& r) {
    return draft_.kernels[static_cast<size_t>(r.kernel)];
  }

  // n becomes a buffer that its own kernel writes and others read.
  void count_buffers(UOp n, const Entry& e, const Request& own, bool hosted) {
    KernelDraft& k = kernel_of(own);
    k.reads = hosted ? choices_.reads_with(k, n) : joined({}, bounds_.reads[n->id]);
    k.size = hosted ? choices_.size_with(k, n) : bounds_.size[n->id];
    k.writes += std::max<size_t>(1, e.stores.size());
    for (const Request& r : e.requests)
      if (r.kernel != own.kernel) kernel_of(r).reads = joined(kernel_of(r).reads, {&n->id, 1});
  }

  void visit_store(UOp s) {
    Under target = under(s->src(0));
    ensure(static_cast<bool>(target.leaf), "a store to something that is not a buffer");
    UOp value = s->src(1);
    if (keeps_value(s))
      draft_.at(value).stores.push_back(s);
    else
      store_root(s, value);
  }

  static UOp version_of(UOp leaf) { return leaf->is(Op::After) ? leaf->src(1) : UOp(); }

  int buffer_of(UOp leaf) const {
    while (leaf->is(Op::After)) leaf = under(leaf->src(0)).leaf;
    return static_cast<int>(leaf->ints(0));
  }

  // A kernel for one Store, whatever view it writes to.
  void store_root(UOp s, UOp value) {
    const Shape& shape = *s->src(0)->shape;
    Request r = fresh(shape, s->src(0)->device);
    std::vector<UOp> position(r.position.begin(), r.position.end());
    UOp valid = truth(true), view = s->src(0);
    while (has(view->op, Movement)) {
      position = draft_.positions.through(view, position, &valid);
      view = view->src(0);
    }
    Request asked = r;
    if (value->shape->dims.empty()) asked.position = {};
    Output o;
    o.node = value;
    o.request = ask(value, asked);
    o.position = where(valid, position[0], invalid());
    o.slots = r.scope;
    o.buffer = buffer_of(view);
    o.store = s;
    o.before = version_of(view);
    kernel_of(r).outputs.push_back(o);
    // A value that counts as a buffer is one until this kernel is found to be who computes it.
    const bool counts = choices_.counts_as_buffer(value);
    kernel_of(r).reads = joined({}, counts ? std::span(&value->id, 1) : bounds_.reads[value->id]);
    kernel_of(r).size = counts ? 1 : bounds_.size[value->id];
    kernel_of(r).writes = 1;
    if (o.before) waiting_[o.before.get()].push_back(r.kernel);
    for (int later : waiting_[s.get()]) read_after(later, r.kernel);
  }

  // Readers of a fully overwritten version want the value itself.
  void visit_after(UOp a) {
    ensure(a->nsrc == 2 && a->src(1)->is(Op::Store), "After of something else than one Store");
    Entry& e = draft_.at(a);
    UOp s = a->src(1), value = s->src(1);
    Under target = under(s->src(0));
    e.holder = {buffer_of(a), s};
    if (e.requests.empty()) return;
    bool whole = target.whole && value->shape->count() == a->shape->count() && !is_leaf(value) &&
                 value->device == a->device;
    if (!whole) {
      for (const Request& r : e.requests) waiting_[s.get()].push_back(r.kernel);
      return;
    }
    for (Request& r : e.requests) {
      Request asked = r;
      asked.position =
          draft_.lists.keep(draft_.positions.unflatten(r.position[0], value->shape->dims));
      if (value->shape->dims.empty()) asked.position = {};
      r.below = draft_.lists.keep(std::vector{ask(value, asked)});
    }
  }

  // Where a source of kernel k is; none yet where it is a value that is made in memory first.
  Holder source_of(int k, UOp from) {
    Under u = under(from);
    if (u.leaf && u.whole) {
      UOp version = version_of(u.leaf);
      if (version) waiting_[version.get()].push_back(k);
      return {buffer_of(u.leaf), version};
    }
    Request r;
    r.kernel = k;
    r.valid = truth(true);
    copied_.insert(from.get());
    ask(from, r);
    return {};
  }

  // Whether a program may write the buffer that its result goes to: it reads nothing there.
  bool may_fill(const KernelDraft& k, const Entry& e) const {
    if (!k.whole->is(Op::Source) || e.stores.size() != 1) return false;
    const int buffer = buffer_of(under(e.stores[0]->src(0)).leaf);
    return std::ranges::find(k.sources, buffer, &Holder::buffer) == k.sources.end();
  }

  // The sources in memory as a whole, then one transfer or run.
  void visit_whole(UOp n) {
    Entry& e = draft_.at(n);
    if (e.requests.empty() && e.stores.empty()) return;
    int k = new_kernel(n->device);
    Output o;
    o.node = n;
    std::vector<Holder> sources;
    const uint32_t count = n->is(Op::Copy) ? 1 : n->nsrc;
    for (uint32_t i = 0; i < count; ++i) sources.push_back(source_of(k, n->src(i)));
    KernelDraft& draft = draft_.kernels[static_cast<size_t>(k)];
    draft.whole = n, draft.sources = std::move(sources);
    if (n->provenance) draft.add_provenance(n->provenance, false);
    if (may_fill(draft, e)) {
      o.store = e.stores[0];
      e.stores.clear();
      o.buffer = buffer_of(under(o.store->src(0)).leaf);
      for (int later : waiting_[o.store.get()]) read_after(later, k);
    } else {
      o.buffer = add_temporary(n);
    }
    draft.outputs.push_back(o);
    e.stored = true;
    e.holder = o.holder();
    for (const Request& r : e.requests) read_after(r.kernel, k);
    for (UOp s : e.stores) store_root(s, n);
    e.stores.clear();
  }

  void read_after(int reader, int writer) {
    if (reader != writer) draft_.kernels[static_cast<size_t>(reader)].after.insert(writer);
  }

  // ---- storing

  // The request whose kernel can also write the value: it asks for each element exactly once, in
  // loops that are the outermost ones of the kernel.
  int host_request(UOp n, const Entry& e) const {
    for (size_t i = 0; i < e.requests.size(); ++i) {
      const Request& r = e.requests[i];
      const KernelDraft& k = draft_.kernels[static_cast<size_t>(r.kernel)];
      if (k.whole || k.scatters || k.device != place_of(n) || !r.valid->is_const(1)) continue;
      if (k.next_slot + loops_of(n) > kFusedLoops) continue;
      if (choices_.size_with(k, n) > targets_[k.device].max_ops) continue;
      const size_t memories = choices_.reads_with(k, n).size() + k.writes + k.staged;
      if (!choices_.fits(n, memories + std::max<size_t>(1, e.stores.size()))) continue;
      // A kernel cannot read back elsewhere what it is still writing.
      if (std::ranges::count(e.requests, r.kernel, &Request::kernel) > 1) continue;
      if (choices_.disturbs(n, r)) continue;
      if (covers(n, r, k) && !hinders(n, k) && !late(e, r.kernel)) return static_cast<int>(i);
    }
    return -1;
  }

  static bool covers(UOp n, const Request& r, const KernelDraft& k) {
    size_t next = 0;  // the loops must appear as the first ones, each once
    uint64_t seen = 0;
    for (size_t d = 0; d < r.position.size(); ++d) {
      UOp p = r.position[d];
      const Dim& size = n->shape->dims[d];
      if (size == Dim(1) && p->is_const(0)) continue;
      if (!p->is(Op::Range) || (seen & p->ranges) || (k.reduce_slots & p->ranges)) return false;
      if (p->src(0) != loop_extent(size)) return false;
      seen |= p->ranges;
      ++next;
    }
    for (size_t i = 0; i < next; ++i)
      if (i >= k.ranges.size() || !(seen & k.ranges[i]->ranges)) return false;
    return true;
  }

  // Workers share out loops that all outputs stand in: few of these for much work is worse than
  // another kernel.
  bool hinders(UOp n, const KernelDraft& k) const {
    const Target& target = targets_[k.device];
    auto positions = static_cast<double>(k.ranges.empty() ? 0 : 1);
    for (UOp r : k.ranges) positions *= static_cast<double>(r->src(0)->hi);
    return n->shape->count() < target.parallel_results && positions > target.launch_cost;
  }

  // Whether kernel k is, or needs, directly or not, another kernel that waits for the value.
  bool late(const Entry& e, int k) const {
    std::set<int> readers;
    for (const Request& r : e.requests)
      if (r.kernel != k) readers.insert(r.kernel);
    for (UOp s : e.stores)
      if (auto it = waiting_.find(s.get()); it != waiting_.end())
        readers.insert(it->second.begin(), it->second.end());
    if (readers.empty()) return false;
    if (readers.count(k)) return true;
    std::vector<int> stack{k};
    std::set<int> seen{k};
    while (!stack.empty()) {
      int at = stack.back();
      stack.pop_back();
      for (int next : draft_.kernels[static_cast<size_t>(at)].after) {
        if (readers.count(next)) return true;
        if (seen.insert(next).second) stack.push_back(next);
      }
    }
    return false;
  }

  void store(UOp n) {
    Entry& e = draft_.at(n);
    const bool scatters = bounds_.scatters[n->id];
    auto is_crowded = [&] {
      return scatters || !choices_.fits(n, bounds_.reads[n->id].size() + e.stores.size());
    };
    for (; e.stores.size() > 1 && is_crowded(); e.stores.pop_back()) store_root(e.stores.back(), n);
    int host = scatters ? -1 : host_request(n, e);
    const bool hosted = host >= 0;
    if (!hosted) {
      e.requests.push_back(fresh(*n->shape, place_of(n)));
      host = static_cast<int>(e.requests.size()) - 1;
      draft_.kernels.back().scatters = scatters;
    }
    e.own = static_cast<uint32_t>(host);
    e.stored = true;
    const Request own = e.requests[e.own];
    Output o;
    o.node = n;
    o.request = e.own;
    o.position = draft_.positions.place(own.position, *n->shape);
    for (UOp p : own.position) o.slots |= p->ranges;
    if (e.stores.empty()) {
      bool asked_elsewhere = false;
      for (const Request& r : e.requests) asked_elsewhere |= r.kernel != own.kernel;
      for (size_t i = 0; i < e.requests.size(); ++i) asked_elsewhere |= i != e.own;
      if (!asked_elsewhere) {  // forced, but its only consumer computes it in place anyway
        e.stored = false;
        kernel_of(own).reads = choices_.reads_with(kernel_of(own), n);
        kernel_of(own).size = choices_.size_with(kernel_of(own), n);
        return descend(n, e.own);
      }
      o.buffer = add_temporary(n);
      draft_.kernels[static_cast<size_t>(own.kernel)].outputs.push_back(o);
      e.holder = {o.buffer, {}};
    }
    for (UOp s : e.stores) {
      Under target = under(s->src(0));
      o.buffer = buffer_of(target.leaf);
      o.store = s;
      o.before = version_of(target.leaf);
      draft_.kernels[static_cast<size_t>(own.kernel)].outputs.push_back(o);
      e.holder = {o.buffer, s};
      for (int later : waiting_[s.get()]) read_after(later, own.kernel);
    }
    for (const Request& r : e.requests) read_after(r.kernel, own.kernel);
    count_buffers(n, e, own, hosted);
    descend(n, e.own);
  }

  // ---- staging

  // The value is computed once for all positions of its inner axes; requests read the stage.
  void stage(UOp n, const Staging& s) {
    Entry& e = draft_.at(n);
    KernelDraft& k = kernel_of(e.requests[0]);
    k.reads = choices_.reads_with(k, n);
    k.size = choices_.size_with(k, n);
    ++k.staged;
    e.staged = s.inner;
    e.own = static_cast<uint32_t>(s.host);
    if (s.host < 0) {
      Request own;
      own.kernel = e.requests[0].kernel;
      own.valid = truth(true);
      own.scope = s.outer;
      std::vector<UOp> position(e.requests[0].position.begin(), e.requests[0].position.end());
      // Along an axis of one element requests may stand elsewhere, where they are not valid.
      for (size_t d = 0; d < position.size(); ++d)
        if (n->shape->dims[d] == Dim(1)) position[d] = index(0);
      for (uint64_t rest = s.inner; rest; rest &= rest - 1) {
        const auto d = static_cast<size_t>(std::countr_zero(rest));
        position[d] = new_range(own.kernel, n->shape->dims[d], Role::Loop);
        own.scope |= position[d]->ranges;
      }
      own.position = draft_.lists.keep(position);
      e.own = static_cast<uint32_t>(e.requests.size());
      e.requests.push_back(own);
    }
    descend(n, e.own);
  }

  // ---- evaluating in place

  void descend(UOp n, uint32_t i) {
    Request r = draft_.at(n).requests[i];
    std::vector<uint32_t>& below = below_;
    std::vector<UOp> ranges;
    below.clear();
    if (has(n->op, Movement)) {
      Request asked = r;
      asked.position = draft_.lists.keep(draft_.positions.through(n, r.position, &asked.valid));
      below.push_back(ask(n->src(0), asked));
    } else if (n->is(Op::Reduce)) {
      Request asked = r;
      kernel_of(r).is_tiled |= choices_.wants_kernel(n);
      std::vector<UOp> position(r.position.begin(), r.position.end());
      asked.folded_by = may_reorder(n) ? static_cast<Op>(n->ints(0)) : Op::Sink;
      asked.scope = hoisted_scope(r);
      // Nothing is done for each place that a write may go to.
      for (uint64_t rest = bounds_.scattered[n->id]; rest; rest &= rest - 1)
        asked.scope &= ~position[static_cast<size_t>(std::countr_zero(rest))]->ranges;
      for (size_t a = 1; a < n->ints().size(); ++a) {
        auto axis = static_cast<size_t>(n->ints(a));
        const Dim& d = n->src(0)->shape->dims[axis];
        position[axis] = index(0);
        if (d == Dim(1)) continue;
        UOp loop = new_range(r.kernel, d, Role::Reduce);
        ranges.push_back(loop);
        position[axis] = loop;
        asked.scope |= loop->ranges;
      }
      asked.position = draft_.lists.keep(position);
      below.push_back(ask(n->src(0), asked));
    } else {
      for (Node* s : n->src()) {
        Request asked = r;
        asked.folded_by = Op::Sink;
        if (s->shape->dims.empty()) asked.position = {};
        below.push_back(ask(UOp(s), asked));
      }
    }
    Request& mine = draft_.at(n).requests[i];
    mine.below = draft_.lists.keep(below);
    mine.ranges = draft_.lists.keep(ranges);
  }
};

}  // namespace

Draft assign_ranges(UOp sink, const Targets& targets) { return Assigner(sink, targets).run(); }

}  // namespace mote
