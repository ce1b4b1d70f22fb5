// Gates: where(valid, idx, Invalid). What is known to hold where a position is used simplifies it.
#include <algorithm>

#include "algebra/linear.h"

namespace mote {

namespace {

bool is_not(UOp u) {
  return u->is(Op::Xor) && u->dtype == DType::boolean && u->src(1)->is_const(1);
}

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

// m with sum = m * part + rest, if all terms of part stand in sum in proportion.
std::optional<int64_t> multiple_of(const Linear& sum, const Linear& part) {
  const int64_t first = sum.coeff_of(part.terms[0].node), unit = part.terms[0].coeff;
  if (first == 0 || first % unit != 0) return {};
  const int64_t m = first / unit;
  for (const Linear::Term& t : part.all())
    if (Wide(m) * t.coeff != sum.coeff_of(t.node)) return {};
  return m;
}

// u with every sum that contains multiples of `part` written with `name` instead.
UOp with_name(UOp u, const Linear& part, UOp name) {
  Column<Node*> done(arena().size());
  std::vector<Node*> src;
  for (UOp n : toposort(u)) {
    src.clear();
    for (Node* s : n->src()) src.push_back(done[s]);
    UOp now = std::ranges::equal(src, n->src()) ? n : with_src(n, src);
    if (now->is(Op::Add) && now->dtype == DType::index) {
      Linear sum = linear(now);
      if (std::optional<int64_t> m = sum.ok ? multiple_of(sum, part) : std::nullopt) {
        sum.add(part, -*m);
        sum.add(linear(name), *m);
        if (sum.ok) now = build(sum);
      }
    }
    done[n] = now.get();
  }
  return done[u];
}

// A fact about a sum: the sum becomes a variable wherever it stands.
UOp assume_sum(UOp u, const Fact& f, size_t number) {
  Linear sum = linear(f.expr);
  if (!sum.ok || sum.count == 0) return u;
  UOp name = stand_in(f, number);
  UOp changed = with_name(u, sum, name);
  if (changed == u) return u;
  UOp simpler = simplify(changed);
  std::pair<UOp, UOp> back[] = {
      {name, f.expr}
  };
  if (!name->is(Op::Const)) simpler = simplify(substitute(simpler, back));
  return toposort(simpler).size() < toposort(u).size() ? simpler : u;
}

UOp given(UOp u, std::span<const Fact> facts) {
  Map back;
  UOp changed = assume_terms(u, facts, back);
  if (changed != u) u = simplify(substitute(simplify(changed), back));
  for (size_t at = 0; at < facts.size(); ++at)
    if (facts[at].expr->is(Op::Add) && (facts[at].expr->ranges & ~u->ranges) == 0)
      u = assume_sum(u, facts[at], at);
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

UOp simplify_disjunction(UOp u) {
  std::vector<UOp> negated, todo{u};
  while (!todo.empty()) {
    UOp g = todo.back();
    todo.pop_back();
    if (!g->is(Op::Or)) {
      negated.push_back(logical_not(g));
      continue;
    }
    todo.push_back(g->src(0));
    todo.push_back(g->src(1));
    if (todo.size() + negated.size() > kConjuncts) return {};
  }
  UOp none = simplify_conjunction(conjunction(negated));
  if (!none || conjuncts(none).size() >= negated.size()) return {};
  return simplify(logical_not(none));
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
    if (g->is_const(1))
      list = others;
    else if (g->is_const(0))
      return invalid();
    else
      ++at;
  }
  return where(conjunction(list), simpler, invalid());
}

}  // namespace mote
