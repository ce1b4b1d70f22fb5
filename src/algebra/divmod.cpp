// Floor division and modulo of sums by a constant: what replaces the merging of views.
#include <algorithm>
#include <numeric>

#include "algebra/linear.h"

namespace mote {

namespace {

// x = quotient * c + rest, coefficient by coefficient; those of the rest are below c. Division and
// modulo leave the same rest, so that sums can put them together again.
struct Split {
  Linear quotient, rest;
};

Split split(const Linear& x, int64_t c) {
  Split s;
  for (const Linear::Term& t : x.all()) {
    s.quotient.add(t.node, t.coeff / c);
    s.rest.add(t.node, t.coeff % c);
  }
  s.quotient.constant = static_cast<int64_t>(floor_div(x.constant, c));
  s.rest.constant = static_cast<int64_t>(floor_mod(x.constant, c));
  return s;
}

// k when k*c <= x < (k+1)*c for all values.
std::optional<int64_t> period(const Linear& x, int64_t c) {
  WideInterval b = wide_bounds(x);
  Wide k = floor_div(b.lo, c);
  if (k != floor_div(b.hi, c) || !fits(k * c)) return {};
  return static_cast<int64_t>(k);
}

// q + k or r - k*c: the answer once the rest lies in one period.
UOp settled(Op op, Linear q, Linear r, int64_t k, int64_t c) {
  q.add(k);
  r.add(-k * c);
  const Linear& answer = op == Op::FloorDiv ? q : r;
  return answer.ok ? build(answer) : UOp();
}

// Coefficients may move by multiples of c; the nearest to zero often fit one period.
UOp by_congruence(Op op, const Split& s, int64_t c) {
  Linear r = nearest_congruent(s.rest, c), q = s.quotient;
  for (const Linear::Term& t : s.rest.all()) q.add(t.node, (t.coeff - r.coeff_of(t.node)) / c);
  if (!q.ok || !r.ok) return {};
  if (auto k = period(r, c)) return settled(op, q, r, *k, c);
  return {};
}

// rest = d*a + b with 0 <= b < d and d dividing c: the digits below d take no part.
UOp by_digits(Op op, const Split& s, int64_t c) {
  int64_t tried[Linear::kTerms];
  int candidates = 0;
  for (const Linear::Term& t : s.rest.all()) {
    int64_t d = std::gcd(t.coeff, c);
    if (d > 1 && d < c && std::find(tried, tried + candidates, d) == tried + candidates)
      tried[candidates++] = d;
  }
  std::sort(tried, tried + candidates, std::greater<>());
  for (int at = 0; at < candidates; ++at) {
    const int64_t d = tried[at];
    Split digit = split(s.rest, d);
    auto k = period(digit.rest, d);
    if (!k) continue;
    digit.quotient.add(*k);
    digit.rest.add(-*k * d);
    if (!digit.quotient.ok || !digit.rest.ok) continue;
    UOp high = binary(op, build(digit.quotient), index(c / d));
    Linear answer = op == Op::FloorDiv ? s.quotient : digit.rest;
    answer.add(high, op == Op::FloorDiv ? 1 : d);
    if (answer.ok) return build(answer);
  }
  return {};
}

bool all_negative(const Linear& x) {
  return x.count > 0 && std::ranges::all_of(x.all(), [](const auto& t) { return t.coeff < 0; });
}

// -y + b counts down: floor((b-y)/c) = -floor((y+c-1-b)/c).
UOp by_mirror(Op op, const Split& s, int64_t c) {
  if (!all_negative(s.rest)) return {};
  Linear up;
  up.add(s.rest, -1);
  up.add(c - 1);
  if (!up.ok) return {};
  UOp mirrored = binary(op, build(up), index(c));
  Linear answer;
  if (op == Op::FloorDiv)
    answer = s.quotient;
  else
    answer.add(c - 1);
  answer.add(mirrored, -1);
  return answer.ok ? build(answer) : UOp();
}

bool divisor_is(UOp divmod, Op op) {
  return divmod->is(op) && divmod->src(1)->is(Op::Const) && divmod->src(1)->arg.i > 0;
}

// Inside mod c: a*(y % e) is a*y when c divides a*e, and coefficients count modulo c.
UOp reduce_modulo(const Linear& x, int64_t c) {
  Linear r;
  r.constant = static_cast<int64_t>(floor_mod(x.constant, c));
  bool changed = r.constant != x.constant;
  for (const Linear::Term& t : x.all()) {
    const int64_t coeff = t.coeff % c;
    changed |= coeff != t.coeff;
    if (divisor_is(t.node, Op::FloorMod) &&
        floor_mod(Wide(coeff) * t.node->src(1)->arg.i, c) == 0) {
      r.add(linear(t.node->src(0)), coeff);
      changed = true;
    } else {
      r.add(t.node, coeff);
    }
  }
  return changed && r.ok ? build(r) % c : UOp();
}

// (y/e + b)/c = (y + b*e)/(e*c), and (y % (k*c))/c = (y/c) % k.
UOp nested_div(const Linear& x, int64_t c) {
  if (x.count != 1 || x.terms[0].coeff != 1) return {};
  UOp inner = x.terms[0].node;
  int64_t wide, shift;
  if (divisor_is(inner, Op::FloorDiv)) {
    int64_t e = inner->src(1)->arg.i;
    if (__builtin_mul_overflow(e, c, &wide) || __builtin_mul_overflow(x.constant, e, &shift))
      return {};
    return (inner->src(0) + shift) / wide;
  }
  if (divisor_is(inner, Op::FloorMod) && x.constant == 0 && inner->src(1)->arg.i % c == 0)
    return inner->src(0) / c % (inner->src(1)->arg.i / c);
  return {};
}

}  // namespace

Linear nearest_congruent(const Linear& sum, int64_t c) {
  Linear r;
  r.ok = sum.ok;
  r.constant = sum.constant;
  for (const Linear::Term& t : sum.all()) {
    auto near = static_cast<int64_t>(floor_mod(t.coeff, c));
    r.add(t.node, near > c - near ? near - c : near);
  }
  return r;
}

UOp fold_divmod(Op op, UOp x, int64_t c) {
  if (c == 0 || (x->flags & Node::kPoisoned)) return {};
  if (c < 0) {
    if (c == kMinimum) return {};
    UOp flipped = binary(op, x * -1, index(-c));
    return op == Op::FloorDiv ? flipped : flipped * -1;
  }
  Linear sum = linear(x);
  if (!sum.ok) return {};
  Split s = split(sum, c);
  if (!s.quotient.ok || !s.rest.ok) return {};
  if (auto k = period(s.rest, c)) return settled(op, s.quotient, s.rest, *k, c);
  if (UOp r = by_congruence(op, s, c)) return r;
  if (UOp r = by_digits(op, s, c)) return r;
  if (UOp r = by_mirror(op, s, c)) return r;
  if (op == Op::FloorMod) return reduce_modulo(sum, c);
  if (s.quotient.count || s.quotient.constant) {
    s.quotient.add(build(s.rest) / c, 1);
    return s.quotient.ok ? build(s.quotient) : UOp();
  }
  return nested_div(sum, c);
}

UOp fold_divmod(Op op, UOp x, UOp d) {
  if (d->lo <= 0 || ((x->flags | d->flags) & Node::kPoisoned)) return {};
  Linear sum = linear(x), quotient, rest;
  if (!sum.ok) return {};
  rest.constant = sum.constant;
  for (const Linear::Term& t : sum.all()) {
    if (t.node == d)
      quotient.add(t.coeff);
    else if (t.node->is(Op::Mul) && t.node->src(0) == d)
      quotient.add(t.node->src(1), t.coeff);
    else if (t.node->is(Op::Mul) && t.node->src(1) == d)
      quotient.add(t.node->src(0), t.coeff);
    else
      rest.add(t.node, t.coeff);
  }
  Linear below_divisor = rest;
  below_divisor.add(linear(d), -1);
  bool inside = wide_bounds(rest).lo >= 0 && always_negative(below_divisor);
  if (rest.count == 1 && rest.constant == 0 && rest.terms[0].coeff == 1) {
    UOp r = rest.terms[0].node;
    inside |= r->is(Op::FloorMod) && r->src(1) == d;
  }
  if (!quotient.ok || !rest.ok) return {};
  if (inside) return build(op == Op::FloorDiv ? quotient : rest);
  if (quotient.count == 0 && quotient.constant == 0) return {};
  UOp below = binary(op, build(rest), d);
  if (op == Op::FloorMod) return below;
  quotient.add(below, 1);
  return quotient.ok ? build(quotient) : UOp();
}

}  // namespace mote
