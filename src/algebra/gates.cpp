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
  const bool equal = compare->is(Op::Eq);
  if ((!compare->is(Op::Lt) && !equal) || (equal && negated)) return {};
  UOp left = compare->src(0), right = compare->src(1);
  if (left->dtype != DType::index || ((left->flags | right->flags) & Node::kPoisoned)) return {};
  Wide c = right->lo;
  if (!right->is(Op::Const)) {  // all on the left
    Linear sum = linear(left);
    sum.add(linear(right), -1);
    if (!sum.ok || sum.count == 0) return {};
    c = -Wide(sum.constant);
    sum.constant = 0;
    left = build(sum);
  }
  if (equal) return Fact{left, c, c};
  return negated ? Fact{left, c, kInfinite} : Fact{left, -kInfinite, c - 1};
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

// u with term t of the sum replaced by what the named sum says it is; t's coefficient is 1 or -1.
UOp with_solved(UOp u, const Linear& sum, const Linear::Term& t, UOp name) {
  Linear others, solved;
  others.add(linear(name), 1);
  others.add(sum, -1);
  others.add(t.node, t.coeff);
  solved.add(others, t.coeff);
  if (!solved.ok) return u;
  std::pair<UOp, UOp> map[] = {
      {t.node, build(solved)}
  };
  return substitute(u, map);
}

// Intervals say nothing once 64 bits do not hold them, as may happen in a sum solved for a term.
bool exceeds(UOp u) {
  std::vector<UOp> all = toposort(u);
  return std::ranges::any_of(all, [](UOp n) {
    return n->dtype == DType::index && has(n->op, Alu) && (!fits(n->lo) || !fits(n->hi));
  });
}

size_t size_of_graph(UOp u) { return toposort(u).size(); }

// A fact about a sum: the sum gets a name with its interval, wherever it stands or can be made to.
UOp assume_sum(UOp u, const Fact& f, size_t number, bool solve) {
  Linear sum = linear(f.expr);
  if (!sum.ok || sum.count < 2) return u;
  UOp name = stand_in(f, number), best = u;
  auto consider = [&](UOp changed) {
    if (changed == u || exceeds(changed)) return;
    std::pair<UOp, UOp> back[] = {
        {name, f.expr}
    };
    UOp simpler = simplify(changed);
    if (!name->is(Op::Const)) simpler = simplify(substitute(simpler, back));
    if (size_of_graph(simpler) < size_of_graph(best)) best = simpler;
  };
  consider(with_name(u, sum, name));
  if (!solve || best != u) return best;
  for (const Linear::Term& t : sum.all())
    if (t.coeff == 1 || t.coeff == -1) consider(with_solved(u, sum, t, name));
  return best;
}

bool divides_somewhere(UOp u) {
  std::vector<UOp> all = toposort(u);
  return std::ranges::any_of(all, [](UOp n) { return n->is(Op::FloorDiv) || n->is(Op::FloorMod); });
}

bool plain_sum(UOp u) {
  if (u->dtype != DType::index) return false;
  Linear sum = linear(u);
  return sum.ok && std::ranges::all_of(sum.all(), [](const auto& t) {
           return t.node->is(Op::Range) || t.node->is(Op::Var);
         });
}

UOp given(UOp u, std::span<const Fact> facts) {
  if (facts.empty()) return u;
  Map back;
  UOp changed = assume_terms(u, facts, back);
  if (changed != u) u = simplify(substitute(simplify(changed), back));
  if (plain_sum(u)) return u;  // nothing to learn
  const bool solve = u->dtype == DType::boolean || divides_somewhere(u);
  for (size_t at = 0; at < facts.size(); ++at)
    if ((facts[at].expr->ranges & ~u->ranges) == 0) u = assume_sum(u, facts[at], at, solve);
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

// Another bound of the same expression makes this conjunct redundant; of equal ones the first stays.
bool implied(size_t mine, std::span<const std::optional<Fact>> facts) {
  const std::optional<Fact>& f = facts[mine];
  for (size_t other = 0; f && other < facts.size(); ++other) {
    const std::optional<Fact>& o = facts[other];
    if (other == mine || !o || o->expr != f->expr) continue;
    const bool equal = o->lo == f->lo && o->hi == f->hi;
    if (o->lo >= f->lo && o->hi <= f->hi && (!equal || other < mine)) return true;
  }
  return false;
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

// Simplifies the first conjunct that the others say something about. One at a time, because they
// may imply each other.
void tell_one_another(std::vector<UOp>& list, std::span<const std::optional<Fact>> facts) {
  auto is_sum = [](const std::optional<Fact>& f) {
    return f && (f->expr->is(Op::Add) || f->expr->is(Op::Mul));
  };
  for (size_t at = 0; at < list.size(); ++at) {
    std::vector<UOp> others;
    for (size_t o = 0; o < list.size(); ++o)
      if (o != at && facts[o] && (facts[o]->expr->ranges & list[at]->ranges) &&
          (is_sum(facts[o]) || is_sum(facts[at]) || !facts[at]))
        others.push_back(list[o]);
    UOp g = given(list[at], facts_of(others));
    if (g == list[at] || size_of_graph(g) >= size_of_graph(list[at])) continue;
    list[at] = g;
    return;
  }
}

// x % c < d with x congruent to some t that cannot leave [d-c, c): then 0 <= t < d.
UOp open_window(UOp g) {
  if (!g->is(Op::Lt) || !g->src(0)->is(Op::FloorMod) || !g->src(1)->is(Op::Const)) return {};
  UOp mod = g->src(0);
  if (!mod->src(1)->is(Op::Const) || (mod->flags & Node::kPoisoned)) return {};
  const int64_t c = mod->src(1)->arg.i, d = g->src(1)->arg.i;
  if (d <= 0 || d >= c) return {};
  Linear t = nearest_congruent(linear(mod->src(0)), c);
  WideInterval b = wide_bounds(t);
  Wide shift = -floor_div(b.lo - (d - c), c) * c;  // the lowest period that may be
  if (!t.ok || !fits(shift) || b.hi + shift >= c) return {};
  t.add(static_cast<int64_t>(shift));
  UOp at = build(t);
  return ge(at, index(0)) & lt(at, index(d));
}

UOp simplify_conjunction(UOp u) {
  std::vector<UOp> list = conjuncts(u);
  if (list.size() < 2) return {};
  for (UOp g : list) {
    if (std::ranges::find(list, logical_not(g)) != list.end()) return truth(false);
    if (UOp window = open_window(g)) {
      std::erase(list, g);
      return conjunction(list) & window;
    }
  }
  if (contradictory(facts_of(list))) return truth(false);
  std::vector<std::optional<Fact>> facts;
  for (UOp g : list) facts.push_back(parse_fact(g));
  std::vector<UOp> kept;
  for (size_t at = 0; at < list.size(); ++at) {
    if (!implied(at, facts)) kept.push_back(list[at]);
  }
  if (kept.size() == list.size()) tell_one_another(kept, facts);
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
  std::vector<Fact> facts = facts_of(conjuncts(gate->src(0)));
  if (contradictory(facts)) return invalid();
  return where(gate->src(0), given(gate->src(1), facts), invalid());
}

}  // namespace mote
