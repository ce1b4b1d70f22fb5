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

// How many assumptions are being made one inside the other: their variables must differ.
thread_local int assumptions = 0;
struct Assumption {
  Assumption() { ++assumptions; }
  ~Assumption() { --assumptions; }
  Assumption(const Assumption&) = delete;
};

UOp stand_in(const Fact& f, size_t number) {
  if (f.lo == f.hi) return index(static_cast<int64_t>(f.lo));
  int64_t ints[] = {static_cast<int64_t>(f.lo), static_cast<int64_t>(f.hi), 0, 0};
  return make(Op::Var, DType::index, {},
              Arg::of(intern_arg(ints, text("fact", assumptions, "_", number))));
}

using Map = std::vector<std::pair<UOp, UOp>>;

// Names for the terms that facts speak of; `back` undoes it.
Map name_terms(std::span<const Fact> facts, Map& back) {
  Map forth;
  for (size_t at = 0; at < facts.size(); ++at) {
    if (facts[at].expr->is(Op::Add) || facts[at].expr->is(Op::Mul)) continue;
    UOp s = stand_in(facts[at], at);
    forth.emplace_back(facts[at].expr, s);
    if (!s->is(Op::Const)) back.emplace_back(s, facts[at].expr);
  }
  return forth;
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
  return map_nodes("name sums", u, [&](UOp n, const Mapped& now) {
    if (!n->is(Op::Add) || n->dtype != DType::index) return UOp();
    UOp added = with_src(n, now.src);
    Linear sum = linear(added);
    std::optional<int64_t> m = sum.ok ? multiple_of(sum, part) : std::nullopt;
    if (!m) return added;
    sum.add(part, -*m);
    sum.add(linear(name), *m);
    return sum.ok ? build(sum) : added;
  });
}

// A sum that a fact speaks of, and the variable of its interval that stands for it.
struct Named {
  Linear sum;
  UOp expr, name;
};

std::vector<Named> name_sums(std::span<const Fact> facts, UOp u) {
  std::vector<Named> sums;
  for (size_t at = 0; at < facts.size(); ++at) {
    const Fact& f = facts[at];
    if ((f.expr->ranges & ~u->ranges) != 0 || f.lo > f.hi) continue;
    Named s{linear(f.expr), f.expr, stand_in(f, at)};
    if (s.sum.ok && s.sum.count > 1) sums.push_back(s);
  }
  return sums;
}

bool is_unit(const Linear::Term& t) { return t.coeff == 1 || t.coeff == -1; }

// u with term t of a sum replaced by what the sum's name says it is.
UOp with_solved(UOp u, const Named& s, const Linear::Term& t) {
  Linear others, solved;
  others.add(linear(s.name), 1);
  others.add(s.sum, -1);
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

// Each sum gets its name wherever it stands or, by solving for one of its terms, can be made to
// stand: all of them at once, or if that does not help, one of them. The smallest result wins.
UOp assume_sums(UOp u, std::span<const Fact> facts, bool solve) {
  std::vector<Named> sums = name_sums(facts, u);
  Map back;
  for (const Named& s : sums)
    if (!s.name->is(Op::Const)) back.emplace_back(s.name, s.expr);
  UOp best = u;
  auto consider = [&](UOp changed) {
    if (changed == u || exceeds(changed)) return;
    UOp simpler = simplify(changed);
    if (!back.empty()) simpler = simplify(substitute(simpler, back));
    if (size_of_graph(simpler) < size_of_graph(best)) best = simpler;
  };
  UOp named = u, solved = u;
  for (const Named& s : sums) {
    named = with_name(named, s.sum, s.name);
    auto unit = std::ranges::find_if(s.sum.all(), is_unit);
    if (unit != s.sum.all().end()) solved = with_solved(solved, s, *unit);
  }
  consider(named);
  if (solve && best == u) consider(solved);
  if (best != u) return best;
  for (const Named& s : sums) {
    if (sums.size() > 1) consider(with_name(u, s.sum, s.name));
    for (const Linear::Term& t : s.sum.all())
      if (solve && is_unit(t)) consider(with_solved(u, s, t));
  }
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

// Reads happen and loops run whether or not the facts hold, so nothing below them may be assumed:
// they are hidden behind variables.
Map hide_reads(UOp u) {
  Map hidden;
  auto is_hidden = [](UOp n) {
    return n->is(Op::Index) || n->is(Op::Load) || (n->is(Op::Range) && n->src(0)->ranges);
  };
  for (UOp n : toposort({&u, 1}, [&](UOp x) { return !is_hidden(x); })) {
    if (!is_hidden(n)) continue;
    int64_t ints[] = {n->lo, n->hi, 0, 0};
    hidden.emplace_back(
        n, make(Op::Var, n->dtype, {}, Arg::of(intern_arg(ints, text("read", hidden.size())))));
  }
  return hidden;
}

UOp given(UOp u, std::span<const Fact> facts) {
  auto one_value = [](const Fact& f) { return f.lo == f.hi; };
  if (facts.empty() || (plain_sum(u) && std::ranges::none_of(facts, one_value))) return u;
  if (Map hidden = hide_reads(u); !hidden.empty()) {
    std::vector<Fact> about(facts.begin(), facts.end());
    for (Fact& f : about) f.expr = substitute(f.expr, hidden);
    UOp now = given(substitute(u, hidden), about);
    for (auto& [from, to] : hidden) std::swap(from, to);
    return simplify(substitute(now, hidden));  // in the order of the reads themselves
  }
  Assumption scope;
  Map back, forth = name_terms(facts, back);
  UOp now = forth.empty() ? u : substitute(u, forth);
  if (now != u) now = simplify(now);
  if (!plain_sum(now)) {
    std::vector<Fact> about_sums(facts.begin(), facts.end());
    for (Fact& f : about_sums)
      if (!forth.empty()) f.expr = simplify(substitute(f.expr, forth));
    now = assume_sums(now, about_sums, now->dtype == DType::boolean || divides_somewhere(now));
  }
  return now == u || back.empty() ? now : simplify(substitute(now, back));
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

// Another bound of the same expression makes this conjunct redundant; of equal ones one stays.
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

// Whether one fact may say something about another: they share terms but are not two bounds of one
// expression.
bool concerns(const Fact& f, UOp g, const std::optional<Fact>& about_g) {
  if (!(f.expr->ranges & g->ranges)) return false;
  if (!about_g) return true;
  if (f.expr == about_g->expr) return false;
  Linear mine = linear(about_g->expr), other = linear(f.expr);
  if (mine.count + other.count < 3) return false;
  return std::ranges::any_of(other.all(),
                             [&](const auto& t) { return mine.coeff_of(t.node) != 0; });
}

// Simplifies the first conjunct that the others say something about. One at a time, because they
// may imply each other.
void tell_one_another(std::vector<UOp>& list, std::span<const std::optional<Fact>> facts) {
  for (size_t at = 0; at < list.size(); ++at) {
    std::vector<UOp> others;
    for (size_t o = 0; o < list.size(); ++o)
      if (o != at && facts[o] && concerns(*facts[o], list[at], facts[at]))
        others.push_back(list[o]);
    if (others.empty()) continue;
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
  Assumption scope;
  Map back, forth = name_terms(facts, back);
  UOp narrow = simplify(substitute(u, forth));
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
