// Gates: where(valid, idx, Invalid). What is known to hold where a position is used simplifies it.
#include <algorithm>

#include "algebra/linear.h"

namespace mote {

namespace {

bool is_not(UOp u) { return u->is(Op::Xor) && u->dtype == DType::boolean && u->src(1)->is_const(1); }

// expr lies in the interval; from expr < c, !(expr < c), expr == c.
struct Fact {
  UOp expr;
  Wide lo = -kInfinite, hi = kInfinite;
};

std::optional<Fact> parse_fact(UOp g) {
  bool negated = is_not(g);
  UOp compare = negated ? g->src(0) : g;
  if (!compare->is(Op::Lt) && !compare->is(Op::Eq)) return {};
  UOp left = compare->src(0), right = compare->src(1);
  if (left->dtype != DType::index || !right->is(Op::Const)) return {};
  const int64_t c = right->arg.i;
  if (compare->is(Op::Eq)) return negated ? std::optional<Fact>() : Fact{left, c, c};
  return negated ? Fact{left, c, kInfinite} : Fact{left, -kInfinite, Wide(c) - 1};
}

std::vector<Fact> facts_of(std::span<const UOp> valid) {
  std::vector<Fact> facts;
  for (UOp g : valid) {
    std::optional<Fact> f = parse_fact(g);
    if (!f) continue;
    auto same = std::ranges::find(facts, f->expr, &Fact::expr);
    if (same == facts.end()) {
      facts.push_back(*f);
      continue;
    }
    same->lo = std::max(same->lo, f->lo);
    same->hi = std::min(same->hi, f->hi);
  }
  for (Fact& f : facts) {
    f.lo = std::max<Wide>(f.lo, f.expr->lo);
    f.hi = std::min<Wide>(f.hi, f.expr->hi);
  }
  return facts;
}

UOp stand_in(const Fact& f, size_t number) {
  if (f.lo == f.hi) return index(static_cast<int64_t>(f.lo));
  int64_t ints[] = {static_cast<int64_t>(f.lo), static_cast<int64_t>(f.hi), 0, 0};
  return make(Op::Var, DType::index, {}, Arg::of(intern_arg(ints, text("fact", number))));
}

using Map = std::vector<std::pair<UOp, UOp>>;

// u with the facts' expressions replaced by variables of their intervals; `back` undoes it.
UOp assume_terms(UOp u, std::span<const Fact> facts, Map& back) {
  Map map;
  for (size_t at = 0; at < facts.size(); ++at) {
    if (facts[at].expr->is(Op::Add) || facts[at].expr->is(Op::Mul)) continue;
    UOp s = stand_in(facts[at], at);
    map.emplace_back(facts[at].expr, s);
    if (!s->is(Op::Const)) back.emplace_back(s, facts[at].expr);
  }
  return map.empty() ? u : substitute(u, map);
}

// A fact about a sum: one of its terms is replaced by a variable for the sum, less the others.
UOp assume_sum(UOp u, const Fact& f, size_t number) {
  Linear sum = linear(f.expr);
  if (!sum.ok) return u;
  UOp best = u;
  size_t best_size = toposort(u).size();
  for (const Linear::Term& t : sum.all()) {
    if (t.coeff != 1 && t.coeff != -1) continue;
    UOp s = stand_in(f, number);
    Linear solved;
    solved.add(sum, -1);
    solved.add(t.node, t.coeff);
    solved.add(linear(s), 1);
    Linear signed_solved;
    signed_solved.add(solved, t.coeff);
    if (!signed_solved.ok) continue;
    std::pair<UOp, UOp> forth[] = {{t.node, build(signed_solved)}};
    UOp changed = substitute(u, forth);
    if (changed == u) continue;
    UOp simpler = simplify(changed);
    std::pair<UOp, UOp> again[] = {{s, f.expr}};
    if (!s->is(Op::Const)) simpler = simplify(substitute(simpler, again));
    size_t size = toposort(simpler).size();
    if (size < best_size) {
      best = simpler;
      best_size = size;
    }
  }
  return best;
}

UOp given(UOp u, std::span<const Fact> facts) {
  Map back;
  UOp changed = assume_terms(u, facts, back);
  if (changed != u) u = simplify(substitute(simplify(changed), back));
  for (size_t at = 0; at < facts.size(); ++at)
    if (facts[at].expr->is(Op::Add)) u = assume_sum(u, facts[at], at);
  return u;
}

bool contradictory(std::span<const Fact> facts) {
  return std::ranges::any_of(facts, [](const Fact& f) { return f.lo > f.hi; });
}

UOp conjunction(std::vector<UOp> list) {
  auto key = [](UOp u) { return std::pair(std::bit_width(u->ranges), u->hash); };
  std::ranges::sort(list, {}, key);
  UOp all = truth(true);
  for (UOp g : list) all = all & g;
  return all;
}

// The other bound of an expression makes this conjunct redundant.
bool implied(UOp g, std::span<const UOp> all) {
  std::optional<Fact> mine = parse_fact(g);
  if (!mine) return false;
  return std::ranges::any_of(all, [&](UOp o) {
    if (o == g) return false;
    std::optional<Fact> other = parse_fact(o);
    return other && other->expr == mine->expr && other->lo >= mine->lo && other->hi <= mine->hi;
  });
}

constexpr size_t kConjuncts = 24;

}  // namespace

Gated split_gate(UOp position) {
  if (position->is(Op::Where) && position->src(2)->is(Op::Invalid))
    return {position->src(0), position->src(1)};
  return {truth(true), position};
}

UOp gated(UOp valid, UOp idx) { return valid->is_const(1) ? idx : where(valid, idx, invalid()); }

std::vector<UOp> conjuncts(UOp valid) {
  std::vector<UOp> found, todo{valid};
  while (!todo.empty()) {
    UOp g = todo.back();
    todo.pop_back();
    if (g->is(Op::And) && g->dtype == DType::boolean) {
      todo.push_back(g->src(1));
      todo.push_back(g->src(0));
    } else if (!g->is_const(1) && std::ranges::find(found, g) == found.end()) {
      found.push_back(g);
    }
    if (found.size() > kConjuncts) return {valid};
  }
  return found;
}

UOp simplify_conjunction(UOp u) {
  std::vector<UOp> list = conjuncts(u);
  if (list.size() < 2) return {};
  for (UOp g : list)
    if (std::ranges::find(list, logical_not(g)) != list.end()) return truth(false);
  if (contradictory(facts_of(list))) return truth(false);
  std::vector<UOp> kept;
  for (UOp g : list)
    if (!implied(g, list)) kept.push_back(g);
  return conjunction(kept);
}

UOp simplify_given(UOp u, UOp valid) {
  std::vector<Fact> facts = facts_of(conjuncts(valid));
  if (contradictory(facts)) return u;
  return given(u, facts);
}

Interval bounds_given(UOp u, UOp valid) {
  std::vector<Fact> facts = facts_of(conjuncts(valid));
  if (contradictory(facts)) return {u->lo, u->hi};
  Map back;
  UOp narrow = simplify(assume_terms(u, facts, back));
  Wide lo = std::max(u->lo, narrow->lo), hi = std::min(u->hi, narrow->hi);
  Linear sum = linear(u);
  for (const Fact& f : facts) {
    Linear rest = sum;
    rest.add(linear(f.expr), -1);
    if (!rest.ok) continue;
    WideInterval b = wide_bounds(rest);
    lo = std::max(lo, f.lo + b.lo);
    hi = std::min(hi, f.hi + b.hi);
  }
  return {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
}

UOp simplify_gate(UOp gate) {
  UOp valid = gate->src(0), idx = gate->src(1);
  std::vector<UOp> list = conjuncts(valid);
  std::vector<Fact> facts = facts_of(list);
  if (contradictory(facts)) return invalid();
  UOp simpler = given(idx, facts);
  // A conjunct that the others imply goes; one at a time, as they may imply each other.
  for (size_t at = 0; at < list.size() && list.size() > 1;) {
    std::vector<UOp> others = list;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
    UOp g = given(list[at], facts_of(others));
    if (g->is_const(1)) list = others;
    else if (g->is_const(0)) return invalid();
    else ++at;
  }
  return where(conjunction(list), simpler, invalid());
}

}  // namespace mote
