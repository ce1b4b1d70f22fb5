// Sums of indices as coefficient lists.
#include "algebra/linear.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "algebra/exact.h"

namespace mote {

namespace {

// Terms of outer ranges first, so that the loop-invariant part of a sum is one prefix.
bool before(UOp a, UOp b) {
  auto key = [](UOp u) { return std::pair(std::bit_width(u->ranges), u->hash); };
  return key(a) < key(b);
}

Wide scaled(int64_t bound, int64_t coeff) {
  if (bound == kMinimum || bound == kMaximum)
    return (bound < 0) == (coeff < 0) ? kInfinite : -kInfinite;
  return Wide(bound) * coeff;
}

// Whether the terms, multiplied out, may leave 64 bits though their sum does not. What comes from
// unbounded values (loaded ones) is trusted to fit.
bool exceeds(const Linear& sum) {
  Wide reach = sum.constant < 0 ? -Wide(sum.constant) : sum.constant;
  for (const Linear::Term& t : sum.all()) {
    constexpr int64_t kBounded = int64_t{1} << 56;
    if (t.node->lo < -kBounded || t.node->hi > kBounded) continue;
    Wide a = Wide(t.node->lo) * t.coeff, b = Wide(t.node->hi) * t.coeff;
    reach += std::max(std::max(a, -a), std::max(b, -b));
  }
  return reach >= kMaximum;
}

}  // namespace

void Linear::add(int64_t c) { ok &= !__builtin_add_overflow(constant, c, &constant); }

void Linear::add(UOp node, int64_t coeff) {
  ok &= coeff != kMinimum;  // so that every coefficient can be negated
  if (!ok || coeff == 0) return;
  int at = 0;
  while (at < count && before(terms[static_cast<size_t>(at)].node, node)) ++at;
  auto slot = terms.begin() + at, last = terms.begin() + count;
  if (at < count && slot->node == node) {
    ok = !__builtin_add_overflow(slot->coeff, coeff, &slot->coeff);
    if (slot->coeff != 0) return;
    std::move(slot + 1, last, slot);
    --count;
    return;
  }
  if (count == kTerms) {
    ok = false;
    return;
  }
  std::move_backward(slot, last, last + 1);
  *slot = {node, coeff};
  ++count;
}

void Linear::add(const Linear& o, int64_t scale) {
  int64_t c;
  ok &= o.ok && !__builtin_mul_overflow(o.constant, scale, &c);
  if (!ok) return;
  add(c);
  for (const Term& t : o.all()) {
    ok &= !__builtin_mul_overflow(t.coeff, scale, &c);
    add(t.node, c);
  }
}

int64_t Linear::coeff_of(UOp node) const {
  for (const Term& t : all())
    if (t.node == node) return t.coeff;
  return 0;
}

Linear linear(UOp u) {
  Linear sum;
  struct Part {
    Node* node;
    int64_t coeff;
  } todo[4 * Linear::kTerms];
  size_t left = 0;
  todo[left++] = {u.get(), 1};
  while (left && sum.ok) {
    const UOp n = todo[--left].node;
    int64_t coeff = todo[left].coeff;
    const bool one_value = n->lo == n->hi && fits(n->lo) && !(n->flags & Node::kPoisoned);
    if (n->is(Op::Const) || one_value) {
      int64_t c;
      sum.ok &= !__builtin_mul_overflow(n->lo, coeff, &c);
      if (sum.ok) sum.add(c);
    } else if (n->is(Op::Add)) {
      if (left + 2 > std::size(todo)) {
        sum.ok = false;
        break;
      }
      todo[left++] = {n->sources[0], coeff};
      todo[left++] = {n->sources[1], coeff};
    } else if (n->is(Op::Mul) && n->src(1)->is(Op::Const)) {
      sum.ok &= !__builtin_mul_overflow(n->src(1)->arg.i, coeff, &coeff);
      todo[left++] = {n->sources[0], coeff};
    } else {
      sum.add(n, coeff);
    }
  }
  sum.ok &= !exceeds(sum);
  return sum;
}

UOp build(const Linear& sum) {
  UOp u;
  for (const Linear::Term& t : sum.all()) {
    UOp term = t.coeff == 1 ? t.node : t.node * t.coeff;
    u = u ? u + term : term;
  }
  if (!u) return index(sum.constant);
  return sum.constant ? u + sum.constant : u;
}

WideInterval wide_bounds(const Linear& sum) {
  WideInterval b{sum.constant, sum.constant};
  for (const Linear::Term& t : sum.all()) {
    bool positive = t.coeff > 0;
    b.lo += scaled(positive ? t.node->lo : t.node->hi, t.coeff);
    b.hi += scaled(positive ? t.node->hi : t.node->lo, t.coeff);
  }
  return b;
}

Interval bounds(const Linear& sum) {
  WideInterval b = wide_bounds(sum);
  return {static_cast<int64_t>(std::clamp<Wide>(b.lo, kMinimum, kMaximum)),
          static_cast<int64_t>(std::clamp<Wide>(b.hi, kMinimum, kMaximum))};
}

// Products are looked into a few levels deep.
static bool divides(int64_t d, UOp u, int levels) {
  if (d == 1) return true;
  if (levels == 0) return false;
  Linear sum = linear(u);
  if (!sum.ok || sum.constant % d != 0) return false;
  for (const Linear::Term& t : sum.all()) {
    int64_t rest = d / std::gcd(t.coeff, d);
    if (rest == 1) continue;
    if ((t.node->is(Op::Min) || t.node->is(Op::Max)) &&
        divides(rest, t.node->src(0), levels - 1) && divides(rest, t.node->src(1), levels - 1))
      continue;
    // A product of indices that has a divisible factor.
    if (t.node->is(Op::Mul) &&
        (divides(rest, t.node->src(0), levels - 1) || divides(rest, t.node->src(1), levels - 1)))
      continue;
    return false;
  }
  return true;
}

bool divides(int64_t d, UOp u) { return divides(d, u, 4); }

std::optional<int64_t> stride_of(UOp u, UOp range) {
  return stride_of(linear(split_gate(u).idx), range);
}

std::optional<int64_t> stride_of(const Linear& sum, UOp range) {
  if (!sum.ok) return {};
  const int slot = range_slot(range);
  int64_t stride = 0;
  for (const Linear::Term& t : sum.all()) {
    if (t.node == range)
      stride = t.coeff;
    else if (!t.node->is(Op::Range) && (slot >= 64 || (t.node->ranges >> slot & 1)))
      return {};
  }
  return stride;
}

}  // namespace mote
