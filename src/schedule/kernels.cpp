// Sources first: the scalar expression of every request, then the writes of every kernel.
#include "algebra/algebra.h"
#include "base/error.h"
#include "schedule/ranges.h"

namespace mote {

namespace {

class Builder {
 public:
  explicit Builder(Draft& draft) : draft_(draft) {}

  Drawn run() {
    for (UOp n : draft_.order) {
      Entry& e = draft_.at(n);
      for (uint32_t i = 0; i < e.requests.size(); ++i) {
        UOp v = e.requests[i].value = value(n, i);
        if (v && n->provenance && is_made_by(n, e.requests[i], v))
          v.get()->provenance = n->provenance;
      }
    }
    for (KernelDraft& k : draft_.kernels) drawn_.kernels.push_back(draw(k));
    drawn_.buffers = std::move(draft_.buffers);
    return std::move(drawn_);
  }

 private:
  Draft& draft_;
  Drawn drawn_;

  UOp holder_param(const Holder& h) {
    return drawn_.holders.param_of(h, draft_.buffers[static_cast<size_t>(h.buffer)]);
  }

  UOp read(UOp n, const Request& r) {
    UOp flat = flatten(r.position, *n->shape);
    UOp place = simplify(where(r.valid, flat, invalid()));
    return make(Op::Index, n->dtype, {holder_param(draft_.at(n).holder), place});
  }

  UOp below(UOp n, const Request& r, uint32_t i) {
    return draft_.at(n->src(i)).requests[r.below[i]].value;
  }

  // A new node has the place of its first source until it is said whose it is; movement and what
  // folds away hand on a source's value.
  bool is_made_by(UOp n, const Request& r, UOp v) {
    if (!v->provenance) return true;
    if (!has(n->op, Alu) && !has(n->op, Folds)) return false;
    for (uint32_t i = 0; i < n->nsrc && i < r.below.size(); ++i)
      if (below(n, r, i) == v) return false;
    return true;
  }

  UOp value(UOp n, uint32_t i) {
    Entry& e = draft_.at(n);
    Request& r = e.requests[i];
    if (draft_.kernels[static_cast<size_t>(r.kernel)].copy) return {};
    if (e.stored && (n->is(Op::Copy) || i != e.own)) return read(n, r);
    switch (n->op) {
      case Op::Param: return read(n, r);
      case Op::After: return r.below.empty() ? read(n, r) : after_value(n, r);
      case Op::Const:
      case Op::Var: return n;
      case Op::Iota: return r.position[0];
      case Op::Pad: {
        UOp inside = truth(true);
        through(n, r.position, &inside);
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
    bool gated_sum = op == Op::Add && v->is(Op::Where) && is_const(v->src(2)) &&
                     v->src(2) == zero_like(v);
    if (gated_sum) gate = v->src(0), inner = v->src(1);
    if (!inner->is(Op::Reduce) || static_cast<Op>(inner->ints(0)) != op)
      return reduce_over(op, v, ranges);
    for (uint32_t i = 1; i < inner->nsrc; ++i) ranges.push_back(inner->src(i));
    UOp value = inner->src(0);
    return reduce_over(op, gate ? where(gate, value, zero_like(value)) : value, ranges);
  }

  UOp after_value(UOp n, const Request& r) {
    return draft_.at(n->src(1)->src(1)).requests[r.below[0]].value;
  }

  DrawnKernel draw(const KernelDraft& k) {
    DrawnKernel out;
    out.ranges = k.ranges;
    out.copy = k.copy;
    out.device = k.device;
    out.copy_source = k.copy_source;
    if (k.copy && k.copy_source.buffer < 0)
      out.copy_source = draft_.at(k.outputs[0].node->src(0)).holder;
    for (const Output& o : k.outputs) {
      Write w;
      w.holder = {o.buffer, o.store};
      w.before = o.before;
      if (!k.copy) {
        w.value = simplify(draft_.at(o.node).requests[o.request].value);
        w.position = simplify(o.position);
        w.slots = o.slots;
      }
      out.writes.push_back(w);
    }
    return out;
  }
};

}  // namespace

Drawn build_kernels(Draft& draft) { return Builder(draft).run(); }

}  // namespace mote
