// Sources first: the scalar expression of every request, then the writes of every kernel.
#include <algorithm>

#include "algebra/algebra.h"
#include "base/error.h"
#include "ir/freedoms.h"
#include "ir/program.h"
#include "schedule/ranges.h"

namespace mote {

int Holders::id(const Holder& h) {
  auto buffer = static_cast<size_t>(h.buffer);
  if (latest_.size() <= buffer) latest_.resize(buffer + 1, -1);
  for (int known = latest_[buffer]; known >= 0; known = list_[static_cast<size_t>(known)].other)
    if ((*this)[known] == h) return known;
  list_.push_back({h, latest_[buffer]});
  return latest_[buffer] = static_cast<int>(list_.size()) - 1;
}

// Equal constants are one node, which names the call that made it first. So a constant's place
// counts only while there is no other.
void KernelDraft::add_provenance(uint32_t place, bool is_constant) {
  if (is_constant && !provenance.empty()) return;
  if (only_constants) provenance.clear();
  only_constants = is_constant;
  if (provenance.size() < kMaxPlaces && !std::ranges::count(provenance, place))
    provenance.push_back(place);
}

int Draft::add_temporary(DType dtype, int64_t count, uint8_t device) {
  const auto slot = static_cast<int>(memories.size());
  memories.push_back(param(slot, dtype, count, Space::Local, device));
  return slot;
}

UOp Draft::argument(KernelDraft& k, const Holder& h) {
  const int holder = holders.id(h);
  for (const Argument& a : k.arguments)
    if (a.holder == holder) return a.param;
  const auto slot = static_cast<int>(k.arguments.size());
  k.arguments.push_back({holder, param(slot, memory(h)->dtype, count_of(memory(h)))});
  return k.arguments.back().param;
}

namespace {

class Builder {
 public:
  explicit Builder(Draft& draft) : draft_(draft) {}

  void run() {
    for (UOp n : draft_.order) {
      Entry& e = draft_.at(n);
      if (e.staged) e.stage = make_stage(n, e.requests[e.own]);
      for (uint32_t i = 0; i < e.requests.size(); ++i) {
        Request& r = e.requests[i];
        r.value = value(n, i);
        if (r.value) r.place = place(n, r);
      }
    }
    for (KernelDraft& k : draft_.kernels) finish(k);
  }

 private:
  Draft& draft_;

  KernelDraft& kernel_of(const Request& r) { return draft_.kernels[static_cast<size_t>(r.kernel)]; }

  UOp read(UOp n, const Request& r) {
    UOp flat = draft_.positions.place(r.position, *n->shape);
    UOp place = simplify(where(r.valid, flat, invalid()));
    UOp from = draft_.argument(kernel_of(r), draft_.at(n).holder);
    // Whoever asks where it is not valid looks at no value: what cannot leave its memory is read.
    const UOp ungated = split_gate(place).idx;
    if (ungated->lo >= 0 && ungated->hi < from->ints(1)) place = ungated;
    return make(Op::Index, n->dtype, {from, place});
  }

  // Positions and sizes along the axes that are staged.
  static std::pair<std::vector<UOp>, Shape> within_stage(UOp n, const Request& r, uint64_t axes) {
    std::vector<UOp> position;
    Shape shape{0, {}, n->shape->symbolic};
    for (uint64_t rest = axes; rest; rest &= rest - 1) {
      const auto d = static_cast<size_t>(std::countr_zero(rest));
      position.push_back(r.position[d]);
      shape.dims.push_back(n->shape->dims[d]);
    }
    return {position, shape};
  }

  UOp make_stage(UOp n, const Request& own) {
    auto [ranges, shape] = within_stage(n, own, draft_.at(n).staged);
    UOp place = draft_.positions.place(ranges, shape);
    std::vector<UOp> src{simplify(computed(n, own)), simplify(place)};
    src.insert(src.end(), ranges.begin(), ranges.end());
    return make(Op::Stage, n->dtype, src, stage_arg(Space::Local, shape.count()));
  }

  UOp read_stage(UOp n, const Request& r) {
    const Entry& e = draft_.at(n);
    auto [position, shape] = within_stage(n, r, e.staged);
    UOp place = simplify(where(r.valid, draft_.positions.place(position, shape), invalid()));
    return make(Op::Index, n->dtype, {e.stage, place});
  }

  const Request& request_below(UOp n, const Request& r, uint32_t i) {
    return draft_.at(n->src(i)).requests[r.below[i]];
  }
  UOp below(UOp n, const Request& r, uint32_t i) { return request_below(n, r, i).value; }

  // Who made the value of a request: movement and what folds away hand on a source's value, and it
  // stays that of the source's maker. Others are places of the kernel.
  uint32_t place(UOp n, const Request& r) {
    if (n->is(Op::After) && !r.below.empty()) return value_below_after(n, r).place;
    for (uint32_t i = 0; i < n->nsrc && i < r.below.size(); ++i)
      if (const Request& b = request_below(n, r, i); b.value == r.value && b.place) return b.place;
    if (n->provenance) kernel_of(r).add_provenance(n->provenance, r.value->is(Op::Const));
    return n->provenance;
  }

  UOp value(UOp n, uint32_t i) {
    Entry& e = draft_.at(n);
    Request& r = e.requests[i];
    if (kernel_of(r).whole) return {};
    if (e.stored && (takes_all(n) || i != e.own)) return read(n, r);
    if (e.staged && i == e.own) return e.stage->src(0);
    if (e.staged) return read_stage(n, r);
    return computed(n, r);
  }

  UOp computed(UOp n, const Request& r) {
    switch (n->op) {
      case Op::Param: return read(n, r);
      case Op::After: return r.below.empty() ? read(n, r) : value_below_after(n, r).value;
      case Op::Const:
      case Op::Var: return n;
      case Op::Iota: return r.position[0];
      case Op::Pad: {
        UOp inside = truth(true);
        draft_.positions.through(n, r.position, &inside);
        UOp v = below(n, r, 0);
        return where(inside, v, zero_like(v));
      }
      case Op::Reduce: {
        UOp v = below(n, r, 0);
        if (r.ranges.empty()) return v;
        return collapse_reduces(fold(static_cast<Op>(n->ints(0)), simplify(v), r.ranges));
      }
      default: break;
    }
    if (!has(n->op, Alu)) return below(n, r, 0);  // movement, Contiguous, Detach
    std::vector<UOp> src;
    for (uint32_t s = 0; s < n->nsrc; ++s) src.push_back(below(n, r, s));
    return make(n->op, n->dtype, src, n->arg);
  }

  // A reduce of a reduce with the same op is one reduce over both sets of ranges; of a gated sum
  // too.
  static UOp fold(Op op, UOp v, std::span<const UOp> over) {
    std::vector<UOp> ranges(over.begin(), over.end());
    UOp gate, inner = v;
    bool gated_sum = op == Op::Add && v->is(Op::Where) && is_zero(v->src(2));
    if (gated_sum) gate = v->src(0), inner = v->src(1);
    if (!inner->is(Op::Reduce) || static_cast<Op>(inner->ints(0)) != op || !may_reorder(inner))
      return reduce_over(op, v, ranges);
    for (uint32_t i = 1; i < inner->nsrc; ++i) ranges.push_back(inner->src(i));
    UOp value = inner->src(0);
    return reduce_over(op, gate ? where(gate, value, zero_like(value)) : value, ranges);
  }

  const Request& value_below_after(UOp n, const Request& r) {
    return draft_.at(n->src(1)->src(1)).requests[r.below[0]];
  }

  void finish(KernelDraft& k) {
    for (uint32_t i = 0; i < k.sources.size(); ++i)
      if (k.sources[i].buffer < 0) k.sources[i] = draft_.at(k.whole->src(i)).holder;
    if (k.whole) return;
    for (Output& o : k.outputs) {
      o.value = simplify(draft_.at(o.node).requests[o.request].value);
      o.position = simplify(o.position);
    }
  }
};

}  // namespace

void build_kernels(Draft& draft) { Builder(draft).run(); }

}  // namespace mote
