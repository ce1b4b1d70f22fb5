// Reads become Loads; gates leave the positions.
#include <algorithm>

#include "algebra/algebra.h"
#include "ir/dots.h"
#include "lower/lower.h"

namespace mote {

namespace {

// where(c, load, 0) is the load itself when its gate already says c.
UOp drop_implied_gate(UOp c, UOp a, UOp b) {
  if (!a->is(Op::Load) || a->nsrc != 2 || !is_zero(b)) return {};
  UOp gate = a->src(1);
  return simplify(gate & c) == gate ? a : UOp();
}

UOp read(UOp n, std::span<Node* const> src) {
  Gated g = split_gate(UOp(src[1]));
  if (g.idx->is(Op::Invalid)) return zero_like(n);
  UOp place = make(Op::Index, n->dtype, {UOp(src[0]), g.idx});
  if (g.valid->is_const(1)) return make(Op::Load, n->dtype, {place});
  return make(Op::Load, n->dtype, {place, g.valid});
}

// The place of a Store or a Fetch is not read: its own Index is made of the position's new form.
UOp accessed(UOp n, const Mapped& now) {
  UOp place = n->src(0);
  Gated g = split_gate(now(place->src(1)));
  if (n->is(Op::Fetch) && g.idx->is(Op::Invalid)) g.idx = index(0);  // anywhere is harmless
  UOp at = make(Op::Index, place->dtype, {now(place->src(0)), g.idx});
  if (n->is(Op::Fetch)) return make(Op::Fetch, DType::none, {at}, n->arg);
  std::vector<UOp> parts{at, UOp(now.src[1])};
  if (!g.valid->is_const(1)) parts.push_back(g.valid);
  return make(Op::Store, DType::none, parts, n->arg);
}

// A factor that is a place is not loaded either.
UOp multiplied(UOp n, const Mapped& now) {
  std::vector<UOp> src(now.src.begin(), now.src.end());
  for (uint32_t i : {1u, 2u})
    if (n->ints(1) & i)
      src[i] = make(Op::Index, n->src(i)->dtype, {now(n->src(i)->src(0)), now(n->src(i)->src(1))});
  return make(Op::Fragment, n->dtype, src, n->arg);
}

UOp with_places(UOp n, const Mapped& now) {
  std::vector<UOp> src(now.src.begin(), now.src.end());
  for (uint32_t i = 0; i < n->nsrc; ++i)
    if (UOp at = n->src(i); at->is(Op::Index))
      src[i] = make(Op::Index, at->dtype, {now(at->src(0)), now(at->src(1))});
  return make(n->op, n->dtype, src, n->arg);
}

// A word whose parts are neighbours in memory is read at once.
UOp word_read(UOp n, const Mapped& now) {
  if (!is_word(n) || n->nsrc != 2) return {};
  UOp r = n->src(1), at = n->src(0);
  for (Op op : {Op::Shl, Op::Cast, Op::Bitcast})
    if (at->is(op)) at = at->src(0);
  if (!at->is(Op::Index) || size_of(at->dtype) * r->src(0)->hi != size_of(n->dtype)) return {};
  if (simplify(n) != simplify(word_over(at, r))) return {};
  const Gated g = split_gate(now(at->src(1)));
  if ((g.valid->ranges & slot_bit(r)) || stride_of(g.idx, r) != 1) return {};
  const std::pair<UOp, UOp> first[] = {
      {r, index(0)}
  };
  UOp position = simplify(substitute(gated(g.valid, g.idx), first));
  UOp place[] = {now(at->src(0)), position};
  return read(n, {reinterpret_cast<Node* const*>(place), 2});
}

UOp with_loads(UOp n, const Mapped& now) {
  switch (n->op) {
    case Op::Reduce: return word_read(n, now);
    case Op::Box:
    case Op::Await: return with_places(n, now);
    case Op::Fragment: return multiplied(n, now);
    case Op::Index: return read(n, now.src);
    case Op::Where: return drop_implied_gate(now.src[0], now.src[1], now.src[2]);
    case Op::Store:
    case Op::Fetch: return accessed(n, now);
    default: return {};
  }
}

}  // namespace

UOp insert_loads(UOp body) { return map_nodes("insert loads", body, with_loads); }

namespace {

// Sums and products are right in 32 bits if their result is, whatever they are made of.
bool may_wrap_below(UOp n) {
  return n->dtype == DType::index && (OpSet{Op::Add, Op::Mul, Op::Neg, Op::Where}.has(n->op) ||
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

bool is_lane(UOp r) { return range_role(r) == Role::Vector; }

// What is the same for all lanes is computed once, and cut to 32 bits then.
UOp in_32_bits(UOp n, const Mapped& now) {
  const bool is_sum = n->is(Op::Add) || n->is(Op::Mul) || n->is(Op::Neg);
  if (!is_sum || std::ranges::none_of(open_ranges(n), is_lane)) return cast(now(n), DType::i32);
  std::vector<UOp> src;
  for (Node* s : n->src()) src.push_back(in_32_bits(UOp(s), now));
  return make(n->op, DType::i32, src, n->arg);
}

// Positions of lanes that are only compared, as by gates at edges: a vector has twice as many of 32
// bits.
UOp compare_narrow(UOp n, const Mapped& now) {
  if (!n->is(Op::Lt) && !n->is(Op::Eq)) return {};
  auto fits = [](Node* s) {
    return s->dtype == DType::index && s->lo > INT32_MIN && s->hi < INT32_MAX;
  };
  if (!std::ranges::all_of(n->src(), fits) || std::ranges::none_of(open_ranges(n), is_lane))
    return {};
  const UOp src[] = {in_32_bits(n->src(0), now), in_32_bits(n->src(1), now)};
  return make(n->op, n->dtype, src, n->arg);
}

}  // namespace

UOp choose_index_width(UOp body, const Target& target) {
  const bool narrow =
      (target.narrow_index || !target.has(DType::i64)) && fits_narrow(toposort(body));
  const DType width = narrow ? DType::i32 : DType::i64;
  return map_nodes("choose index width", body, [&](UOp n, const Mapped& now) {
    if (!narrow && n->dtype == DType::boolean && target.has(DType::i32))
      return compare_narrow(n, now);
    if (n->dtype != DType::index) return UOp();
    return arena().make(n->op, width, now.src, n->arg);
  });
}

namespace {

// A place that memory gives, the same for a whole tile: not all machines compare vectors without
// sign, and what only counts is told apart by its bounds later.
bool is_computed(UOp position) {
  const std::vector<UOp> below = toposort(position);
  return std::ranges::any_of(below, [](UOp n) { return n->is(Op::Load); }) &&
         std::ranges::none_of(open_ranges(position), is_tile_range);
}

// The x of !(x < 0); empty: it is something else.
UOp not_negative(UOp g) {
  if (!g->is(Op::Xor) || !g->src(1)->is_const(1) || !g->src(0)->is(Op::Lt)) return {};
  return g->src(0)->src(1)->is_const(0) ? g->src(0)->src(0) : UOp();
}

// One test for both ends of the memory.
bool join_one(std::vector<UOp>& list, const Target& target) {
  for (UOp low : list) {
    const UOp x = not_negative(low);
    if (!x || !is_signed(x->dtype) || !is_computed(x)) continue;
    const DType wrapped = bits_type(row(x->dtype).bits);
    for (UOp& high : list) {
      if (!high->is(Op::Lt) || high->src(0) != x || high->src(1)->lo < 0) continue;
      if (!target.has(wrapped)) continue;
      high = lt(cast(x, wrapped), cast(high->src(1), wrapped));
      std::erase(list, low);
      return true;
    }
  }
  return false;
}

}  // namespace

UOp join_bounds(UOp body, const Target& target) {
  return map_nodes("join bounds", body, [&](UOp n, const Mapped& now) {
    if (!n->is(Op::And) || n->dtype != DType::boolean) return UOp();
    std::vector<UOp> list = conjuncts(with_src(n, now.src));
    if (!join_one(list, target)) return UOp();
    while (join_one(list, target)) {}
    UOp all = list[0];
    for (size_t i = 1; i < list.size(); ++i) all = all & list[i];
    return all;
  });
}

}  // namespace mote
