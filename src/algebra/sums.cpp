// Canonical sums, and the recombination of quotients with remainders.
#include <algorithm>

#include "algebra/linear.h"

namespace mote {

namespace {

int divmods(const Linear& sum) {
  int n = 0;
  for (const Linear::Term& t : sum.all()) n += t.node->is(Op::FloorDiv) || t.node->is(Op::FloorMod);
  return n;
}

bool simpler(const Linear& a, const Linear& b) {
  if (!a.ok) return false;
  if (divmods(a) != divmods(b)) return divmods(a) < divmods(b);
  return a.count < b.count;
}

UOp quotient_of(UOp x, int64_t c) { return simplify(x / c); }

// k*(x % c) + k*c*(x / c) = k*x, wherever k*(x % c) stands.
Linear with_quotient(const Linear& sum, const Linear::Term& mod) {
  UOp x = mod.node->src(0);
  const int64_t c = mod.node->src(1)->arg.i;
  Linear r = sum;
  int64_t kc;
  if (__builtin_mul_overflow(mod.coeff, c, &kc)) {
    r.ok = false;
    return r;
  }
  r.add(mod.node, -mod.coeff);
  r.add(linear(quotient_of(x, c)), -kc);
  r.add(linear(x), mod.coeff);
  return r;
}

// x - c*(x / c) = x % c, wherever k*c*(x / c) stands.
Linear with_remainder(const Linear& sum, const Linear::Term& div) {
  UOp x = div.node->src(0);
  const int64_t c = div.node->src(1)->arg.i, k = div.coeff / c;
  Linear r = sum;
  r.add(div.node, -k * c);
  r.add(linear(x), k);
  r.add(linear(simplify(x % c)), -k);
  return r;
}

// k*(y % c) + k*c*((y/c + z) % d) = k*((y + c*z) % (c*d)).
Linear with_upper_digit(const Linear& sum, const Linear::Term& mod, const Linear::Term& upper) {
  UOp y = mod.node->src(0);
  const int64_t c = mod.node->src(1)->arg.i, d = upper.node->src(1)->arg.i;
  Linear z = linear(upper.node->src(0)), x = linear(y), r = sum;
  int64_t cd;
  z.add(linear(quotient_of(y, c)), -1);
  x.add(z, c);
  r.ok &= x.ok && z.ok && !__builtin_mul_overflow(c, d, &cd) && divmods(x) <= divmods(linear(y));
  if (!r.ok) return r;
  r.add(mod.node, -mod.coeff);
  r.add(upper.node, -upper.coeff);
  r.add(linear(simplify(build(x) % cd)), mod.coeff);
  return r;
}

bool by_constant(const Linear::Term& t, Op op) {
  return t.node->is(op) && t.node->src(1)->is(Op::Const) && t.node->src(1)->arg.i > 0;
}

// Adding a multiple of x can only cancel something when a term of x is there.
bool shares_term(const Linear& sum, UOp x) {
  Linear inner = linear(x);
  return std::ranges::any_of(inner.all(), [&](const auto& t) { return sum.coeff_of(t.node) != 0; });
}

bool recombine_quotient(Linear& sum, const Linear::Term& div) {
  if (div.coeff % div.node->src(1)->arg.i != 0 || !shares_term(sum, div.node->src(0))) return false;
  Linear r = with_remainder(sum, div);
  if (!simpler(r, sum)) return false;
  sum = r;
  return true;
}

bool recombine_remainder(Linear& sum, const Linear::Term& mod) {
  const Wide above = Wide(mod.coeff) * mod.node->src(1)->arg.i;
  for (const Linear::Term& upper : sum.all()) {
    if (upper.coeff != above || upper.node == mod.node) continue;
    Linear r;
    if (by_constant(upper, Op::FloorDiv))
      r = with_quotient(sum, mod);
    else if (by_constant(upper, Op::FloorMod))
      r = with_upper_digit(sum, mod, upper);
    else
      continue;
    if (!simpler(r, sum)) continue;
    sum = r;
    return true;
  }
  return false;
}

bool recombine(Linear& sum) {
  for (const Linear::Term& t : sum.all()) {
    if (by_constant(t, Op::FloorDiv) && recombine_quotient(sum, t)) return true;
    if (by_constant(t, Op::FloorMod) && recombine_remainder(sum, t)) return true;
  }
  return false;
}

bool is_term(UOp u, const Linear::Term& t) {
  if (t.coeff == 1) return u == t.node;
  return u->is(Op::Mul) && u->src(0) == t.node && u->src(1)->is_const(t.coeff);
}

// Whether build(sum) would give u again; looks without building.
bool is_built(UOp u, const Linear& sum) {
  if (sum.constant != 0 && sum.count > 0) {
    if (!u->is(Op::Add) || !u->src(1)->is_const(sum.constant)) return false;
    u = u->src(0);
  }
  for (int at = sum.count - 1; at > 0; --at) {
    if (!u->is(Op::Add)) return false;
    const Linear::Term& last = sum.terms[static_cast<size_t>(at)];
    if (is_term(u->src(1), last))
      u = u->src(0);
    else if (is_term(u->src(0), last))
      u = u->src(1);
    else
      return false;
  }
  return sum.count > 0 && is_term(u, sum.terms[0]);
}

}  // namespace

bool put_together(Linear& sum) {
  if (sum.count < 2 || divmods(sum) == 0) return false;
  bool changed = false;
  while (recombine(sum)) changed = true;
  return changed;
}

UOp canonical_sum(UOp u) {
  if (u->flags & Node::kPoisoned) return {};
  Linear sum = linear(u);
  if (!sum.ok) return {};
  if (!put_together(sum) && is_built(u, sum)) return {};
  return build(sum);
}

}  // namespace mote
