// Comparisons of indices: everything on one side, common divisors out, constants right.
#include <numeric>

#include "algebra/linear.h"

namespace mote {

namespace {

int64_t common_divisor(const Linear& x) {
  int64_t g = 0;
  for (const Linear::Term& t : x.all()) g = std::gcd(g, t.coeff);
  return g;
}

Linear divided(const Linear& x, int64_t g) {  // the terms only
  Linear r;
  for (const Linear::Term& t : x.all()) r.add(t.node, t.coeff / g);
  return r;
}

// sum < c as positive terms < negated negative terms + c; the first term on the left.
UOp less(const Linear& sum, int64_t c) {
  if (sum.terms[0].coeff < 0) {  // -x < c is !(x < 1 - c)
    Linear up;
    up.add(sum, -1);
    return up.ok && fits(Wide(1) - c) ? logical_not(less(up, 1 - c)) : UOp();
  }
  Linear left, right;
  for (const Linear::Term& t : sum.all()) {
    if (t.coeff > 0)
      left.add(t.node, t.coeff);
    else
      right.add(t.node, -t.coeff);
  }
  right.add(c);
  return lt(build(left), build(right));
}

// d*a + b < c is a < k when floor((c-1-b)/d) = k-1 for every b: the small terms take no part.
bool drop_small_terms(Linear& sum, Wide& c) {
  for (const Linear::Term& t : sum.all()) {
    const int64_t d = t.coeff < 0 ? -t.coeff : t.coeff;
    if (d == 1) continue;
    Linear high, low;
    for (const Linear::Term& o : sum.all())
      if (o.coeff % d == 0)
        high.add(o.node, o.coeff / d);
      else
        low.add(o.node, o.coeff);
    if (low.count == 0) continue;
    WideInterval b = wide_bounds(low);
    Wide k = floor_div(c - 1 - b.lo, d);
    if (k != floor_div(c - 1 - b.hi, d)) continue;
    sum = high;
    c = k + 1;
    return true;
  }
  return false;
}

// The sum with each range of symbolic extent at its last position where that makes it larger.
Linear at_most(const Linear& sum) {
  Linear top;
  top.constant = sum.constant;
  for (const Linear::Term& t : sum.all()) {
    bool symbolic = t.node->is(Op::Range) && !t.node->src(0)->is(Op::Const);
    if (!symbolic || t.coeff < 0) {
      top.add(t.node, t.coeff);
      continue;
    }
    Linear last = linear(t.node->src(0));
    last.add(-1);
    top.add(last, t.coeff);
  }
  return top;
}

}  // namespace

bool always_negative(const Linear& sum) {
  if (!sum.ok) return false;
  if (wide_bounds(sum).hi < 0) return true;
  Linear top = at_most(sum);
  return top.ok && wide_bounds(top).hi < 0;
}

UOp canonical_less(UOp a, UOp b) {
  if ((a->flags | b->flags) & Node::kPoisoned) return {};
  Linear sum = linear(a);
  sum.add(linear(b), -1);
  put_together(sum);
  if (!sum.ok || sum.constant == kMinimum) return {};
  if (always_negative(sum)) return truth(true);
  Wide c = -Wide(sum.constant);
  sum.constant = 0;
  WideInterval range = wide_bounds(sum);
  if (range.lo >= c) return truth(false);
  int64_t g = common_divisor(sum);
  if (g > 1) {
    c = -floor_div(-c, g);
    sum = divided(sum, g);
  }
  while (drop_small_terms(sum, c)) {}
  return fits(c) ? less(sum, static_cast<int64_t>(c)) : UOp();
}

UOp canonical_equal(UOp a, UOp b) {
  if ((a->flags | b->flags) & Node::kPoisoned) return {};
  Linear sum = linear(a);
  sum.add(linear(b), -1);
  put_together(sum);
  if (!sum.ok || sum.constant == kMinimum) return {};
  int64_t c = -sum.constant;
  sum.constant = 0;
  WideInterval range = wide_bounds(sum);
  if (range.hi < c || range.lo > c) return truth(false);
  if (sum.count == 0) return truth(true);
  int64_t g = common_divisor(sum);
  if (c % g != 0) return truth(false);
  if (sum.terms[0].coeff < 0) g = -g;
  Linear left, right;
  for (const Linear::Term& t : sum.all()) {
    if (t.coeff / g > 0)
      left.add(t.node, t.coeff / g);
    else
      right.add(t.node, -(t.coeff / g));
  }
  right.add(c / g);
  return eq(build(left), build(right));
}

}  // namespace mote
