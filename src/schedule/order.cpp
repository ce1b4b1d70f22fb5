// From drafts of kernels to the first plan: by the versions of buffers that they read and write.
// From then on the order of statements says what is read.
#include <algorithm>

#include "base/error.h"
#include "schedule/ranges.h"

namespace mote {

namespace {

class Orderer {
 public:
  explicit Orderer(Draft draft) : d_(std::move(draft)) {}

  UOp run() {
    for (size_t k = 0; k < d_.kernels.size(); ++k) avoid_overlap(k);
    while (!find_sequence()) {}
    std::vector<UOp> steps;
    for (int k : sequence_)
      if (UOp step = step_of(kernel(k))) steps.push_back(step);
    return linear(steps);
  }

 private:
  // A read of a version that another kernel overwrites.
  struct LateRead {
    int reader, writer, holder;
  };
  struct Writer {
    Holder made;
    int kernel;
  };

  Draft d_;
  std::vector<std::vector<int>> reads_;  // holder ids, per kernel
  std::vector<Edge> edges_;
  std::vector<int> sequence_;
  Facts facts_;
  Bodies bodies_;

  KernelDraft& kernel(int k) { return d_.kernels[static_cast<size_t>(k)]; }

  int holder_of(const KernelDraft& k, int slot) const {
    return k.arguments[static_cast<size_t>(slot)].holder;
  }

  UOp read(KernelDraft& k, const Holder& h, UOp position) {
    return make(Op::Index, d_.memory(h)->dtype, {d_.argument(k, h), position});
  }

  // The kernel over its arguments.
  UOp body_of(KernelDraft& k) {
    if (k.body) return k.body;
    std::vector<UOp> effects;
    for (const Output& o : k.outputs) {
      const UOp to = d_.argument(k, {o.buffer, o.before});
      const UOp place = make(Op::Index, to->dtype, {to, o.position});
      std::vector<UOp> src{make(Op::Store, DType::none, {place, o.value})};
      for (UOp r : k.ranges)
        if (o.slots & r->ranges) src.push_back(r);
      effects.push_back(make(Op::End, DType::none, src));
    }
    return k.body = make(Op::Sink, DType::none, effects, Arg::of(intern_arg({})));
  }

  std::vector<int> holders_read_by(KernelDraft& k) {
    std::vector<int> found;
    for (const Holder& source : k.sources) found.push_back(d_.holders.id(source));
    if (k.whole) return found;
    const std::vector<bool>& is_read = facts_.of(body_of(k)).is_read;
    for (size_t slot = 0; slot < is_read.size(); ++slot)
      if (is_read[slot]) found.push_back(holder_of(k, static_cast<int>(slot)));
    return found;
  }

  // A kernel that writes a buffer it also reads elsewhere than at the place of the write first
  // fills a temporary; the copy back is a kernel of its own.
  void avoid_overlap(size_t at) {
    if (d_.kernels[at].whole) return;
    for (size_t i = 0; i < d_.kernels[at].outputs.size(); ++i) {
      const Output whole = d_.kernels[at].outputs[i];
      if (!whole.store || !overlaps(d_.kernels[at], whole)) continue;
      KernelDraft back;
      Shape shape{0, {}, true};
      for (UOp r : d_.kernels[at].ranges)
        if (whole.slots & r->ranges) {
          back.ranges.push_back(r);
          shape.dims.emplace_back(r->src(0));
        }
      back.provenance = d_.kernels[at].provenance;
      back.device = d_.kernels[at].device;
      const Holder held{
          d_.add_temporary(d_.memory(whole.holder())->dtype, shape.count(), back.device), {}};
      const UOp flat = Positions().place(back.ranges, shape);
      back.outputs = {whole};
      back.outputs[0].value = read(back, held, flat);
      Output& filled = d_.kernels[at].outputs[i];
      filled.position = flat, filled.buffer = held.buffer;
      filled.store = filled.before = {};
      d_.kernels[at].body = {};
      d_.kernels.push_back(std::move(back));
    }
  }

  bool overlaps(KernelDraft& k, const Output& o) {
    return std::ranges::any_of(facts_.of(body_of(k)).reads, [&](const KernelFacts::Read& read) {
      const Holder& h = d_.holders[holder_of(k, read.slot)];
      return h.buffer == o.buffer && (read.position != o.position || h.version != o.before);
    });
  }

  // Who must run before whom. False when a snapshot had to be added: then the edges change.
  bool find_sequence() {
    std::vector<std::vector<Writer>> writers(d_.memories.size());
    reads_.clear(), edges_.clear();
    for (size_t k = 0; k < d_.kernels.size(); ++k) {
      reads_.push_back(holders_read_by(d_.kernels[k]));
      for (const Output& o : d_.kernels[k].outputs)
        writers[static_cast<size_t>(o.buffer)].push_back({o.holder(), static_cast<int>(k)});
    }
    std::vector<LateRead> late;
    for (int k = 0; k < static_cast<int>(d_.kernels.size()); ++k) {
      for (int id : reads_[static_cast<size_t>(k)]) {
        const Holder& h = d_.holders[id];
        for (auto& [made, by] : writers[static_cast<size_t>(h.buffer)]) {
          if (by == k) continue;
          if (made == h) edges_.push_back({k, by});
          if (overwrites(by, h)) late.push_back({k, by, id});
        }
      }
      for (const Output& o : kernel(k).outputs)
        if (o.before)
          for (auto& [made, by] : writers[static_cast<size_t>(o.buffer)])
            if (made.version == o.before && by != k) edges_.push_back({k, by});
    }
    const size_t needed = edges_.size();
    for (const LateRead& r : late) edges_.push_back({r.writer, r.reader});
    if (sort_kernels()) return true;
    edges_.resize(needed);
    ensure(sort_kernels(), "kernels depend on each other in a circle:", circle());
    snapshot_late_reads(late);
    return false;
  }

  // Kernels were drafted consumers first, so the largest number comes earliest in the program.
  bool sort_kernels() {
    sequence_ = sorted(d_.kernels.size(), edges_, [](int k) { return k; });
    return sequence_.size() == d_.kernels.size();
  }

  // The kernels that sort_kernels could not place, for the error message.
  std::string circle() {
    std::string out;
    for (size_t k = 0; k < d_.kernels.size(); ++k) {
      if (std::ranges::count(sequence_, static_cast<int>(k))) continue;
      out += text("\n kernel ", k, " writes");
      for (const Output& o : d_.kernels[k].outputs) out += text(" ", o.buffer);
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
    return std::ranges::any_of(kernel(k).outputs, [&](const Output& o) {
      return o.buffer == h.buffer && o.store && o.before == h.version;
    });
  }

  // A reader that cannot run before the version is overwritten reads a copy made in time.
  void snapshot_late_reads(const std::vector<LateRead>& late) {
    std::vector<size_t> rank(d_.kernels.size());
    for (size_t i = 0; i < sequence_.size(); ++i) rank[static_cast<size_t>(sequence_[i])] = i;
    auto is_late = [&](const LateRead& r) {
      return rank[static_cast<size_t>(r.reader)] >= rank[static_cast<size_t>(r.writer)];
    };
    std::set<int> copied;
    for (const LateRead& first : late) {
      if (!is_late(first) || !copied.insert(first.holder).second) continue;
      const Holder old = d_.holders[first.holder];
      const UOp memory = d_.memory(old);
      const Holder held{d_.add_temporary(memory->dtype, count_of(memory), memory->device), {}};
      for (const LateRead& r : late)
        if (r.holder == first.holder && is_late(r)) redirect(kernel(r.reader), old, held);
      KernelDraft copy;
      copy.device = memory->device;
      const UOp loop = range(0, index(count_of(memory)), Role::Loop);
      copy.ranges = {loop};
      Output o;
      o.position = loop, o.slots = loop->ranges, o.buffer = held.buffer;
      o.value = read(copy, old, loop);
      copy.outputs = {o};
      d_.kernels.push_back(std::move(copy));
    }
  }

  // Reads `held`, a copy, where it read `old`.
  void redirect(KernelDraft& k, const Holder& old, const Holder& held) {
    std::ranges::replace(k.sources, old, held);
    for (Argument& a : k.arguments)
      if (d_.holders[a.holder] == old) a.holder = d_.holders.id(held);
  }

  // Arrays without elements are ordered like others, but there is nothing to run.
  void drop_empty(KernelDraft& k) {
    const size_t dropped = std::erase_if(k.outputs, [&](const Output& o) {
      if (k.whole) return count_of(d_.memory(o.holder())) == 0;
      return std::ranges::any_of(
          k.ranges, [&](UOp r) { return (o.slots & r->ranges) && r->src(0)->is_const(0); });
    });
    if (dropped) k.body = {};
  }

  static UOp program_of(UOp value) {
    return make(Op::Source, DType::none, {}, Arg::of(intern_arg({}, value->arg.object->str)));
  }

  UOp step_of(KernelDraft& k) {
    drop_empty(k);
    if (k.outputs.empty()) return {};
    std::vector<UOp> places;
    if (k.whole) places.push_back(d_.memory(k.outputs[0].holder()));
    for (const Holder& source : k.sources) places.push_back(d_.memory(source));
    if (k.whole && k.whole->is(Op::Copy)) return copy(places[0], places[1]);
    if (k.whole) return call(program_of(k.whole), places, k.provenance);
    const UOp body = body_of(k);
    for (const Argument& a : k.arguments) places.push_back(d_.memory(d_.holders[a.holder]));
    return bodies_.call(body, places, k.provenance);
  }
};

}  // namespace

UOp order_kernels(Draft draft) { return Orderer(std::move(draft)).run(); }

}  // namespace mote
