// Reads become Loads; gates leave the positions.
#include <unordered_map>

#include "algebra/algebra.h"
#include "lower/lower.h"

namespace mote {

namespace {

// where(c, load, 0) is the load itself when its gate already says c.
UOp drop_implied_gate(UOp c, UOp a, UOp b) {
  if (!a->is(Op::Load) || a->nsrc != 2 || !is_zero(b)) return {};
  UOp gate = a->src(1);
  return simplify(gate & c) == gate ? a : UOp();
}

UOp with_load(UOp n, std::span<Node* const> src) {
  if (n->is(Op::Index)) {
    Gated g = split_gate(UOp(src[1]));
    if (g.idx->is(Op::Invalid)) return zero_like(n);
    UOp place = make(Op::Index, n->dtype, {UOp(src[0]), g.idx});
    if (g.valid->is_const(1)) return make(Op::Load, n->dtype, {place});
    return make(Op::Load, n->dtype, {place, g.valid});
  }
  if (n->is(Op::Where))
    if (UOp load = drop_implied_gate(UOp(src[0]), UOp(src[1]), UOp(src[2]))) return load;
  return with_src(n, src);
}

}  // namespace

UOp insert_loads(UOp body) {
  std::unordered_map<const Node*, Node*> done;
  std::vector<Node*> src;
  for (UOp n : toposort(body)) {
    src.clear();
    for (Node* s : n->src()) src.push_back(done.at(s));
    if (!n->is(Op::Store) && !n->is(Op::Fetch)) {
      done[n.get()] = (n->nsrc ? with_load(n, src) : n).get();
      continue;
    }
    // Their place is not read: its own Index is rebuilt from the position's new form.
    UOp place = n->src(0);
    Gated g = split_gate(UOp(done.at(place->src(1).get())));
    if (n->is(Op::Fetch)) {  // anywhere is harmless
      if (g.idx->is(Op::Invalid)) g.idx = index(0);
      UOp at = make(Op::Index, place->dtype, {place->src(0), g.idx});
      done[n.get()] = make(Op::Fetch, DType::none, {at}, n->arg).get();
      continue;
    }
    UOp at = make(Op::Index, place->dtype, {place->src(0), g.idx});
    std::vector<UOp> parts{at, UOp(src[1])};
    if (!g.valid->is_const(1)) parts.push_back(g.valid);
    done[n.get()] = make(Op::Store, DType::none, parts, n->arg).get();
  }
  return done.at(body.get());
}

namespace {

// Sums and products are right in 32 bits if their result is, whatever they are made of.
bool may_wrap_below(UOp n) {
  return n->dtype == DType::index &&
         (OpSet{Op::Add, Op::Mul, Op::Neg, Op::Where}.has(n->op) ||
          (n->is(Op::Shl) && is_const(n->src(1))));
}

// All positions are below the size of their memory where they are used, so only indices that
// something else depends on need to fit.
bool fits_narrow(std::span<const UOp> order) {
  for (UOp n : order) {
    if (n->is(Op::Param) && n->ints(1) > INT32_MAX) return false;
    if (n->is(Op::Index) || may_wrap_below(n)) continue;
    for (const Node* s : n->src())
      if (s->dtype == DType::index && (s->lo < INT32_MIN || s->hi > INT32_MAX)) return false;
  }
  return true;
}

}  // namespace

UOp choose_index_width(UOp body, const Target& target) {
  std::vector<UOp> order = toposort(body);
  DType width = !target.has(DType::i64) && fits_narrow(order) ? DType::i32 : DType::i64;
  std::unordered_map<const Node*, Node*> done;
  std::vector<Node*> src;
  for (UOp n : order) {
    src.clear();
    for (Node* s : n->src()) src.push_back(done.at(s));
    DType dtype = n->dtype == DType::index ? width : n->dtype;
    done[n.get()] = arena().make(n->op, dtype, src, n->arg).get();
  }
  return done.at(body.get());
}

}  // namespace mote
