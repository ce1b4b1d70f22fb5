// Canonical sums, and the recombination of quotients with remainders.
#include "algebra/linear.h"

namespace mote {

namespace {

int divmods(const Linear& sum) {
  int n = 0;
  for (const Linear::Term& t : sum.all())
    n += t.node->is(Op::FloorDiv) || t.node->is(Op::FloorMod);
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
bool is_mod(const Linear::Term& t) { return by_constant(t, Op::FloorMod); }

bool recombine(Linear& sum) {
  for (const Linear::Term& mod : sum.all()) {
    if (by_constant(mod, Op::FloorDiv) && mod.coeff % mod.node->src(1)->arg.i == 0)
      if (Linear r = with_remainder(sum, mod); simpler(r, sum)) {
        sum = r;
        return true;
      }
    if (!is_mod(mod)) continue;
    if (Linear r = with_quotient(sum, mod); simpler(r, sum)) {
      sum = r;
      return true;
    }
    for (const Linear::Term& upper : sum.all()) {
      if (!is_mod(upper) || upper.node == mod.node) continue;
      if (Wide(mod.coeff) * mod.node->src(1)->arg.i != upper.coeff) continue;
      if (Linear r = with_upper_digit(sum, mod, upper); simpler(r, sum)) {
        sum = r;
        return true;
      }
    }
  }
  return false;
}

}  // namespace

void put_together(Linear& sum) {
  if (sum.count < 2 || divmods(sum) == 0) return;
  while (recombine(sum)) {
  }
}

UOp canonical_sum(UOp u) {
  if (u->flags & Node::kPoisoned) return {};
  Linear sum = linear(u);
  if (!sum.ok) return {};
  put_together(sum);
  return build(sum);
}

}  // namespace mote
