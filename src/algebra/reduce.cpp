// Sums over a range that need no loop: counts of masks, series, the one position a mask selects.
#include <algorithm>

#include "algebra/linear.h"
#include "ir/freedoms.h"

namespace mote {

namespace {

bool depends(UOp u, UOp r) {
  const int slot = range_slot(r);
  if (slot < 64) return u->ranges >> slot & 1;
  std::vector<UOp> below = toposort(u);
  return std::ranges::find(below, r) != below.end();
}

// u as an exact index: an index, a cast of one that lost nothing, or any other signed integer that
// does not move with r.
UOp as_index(UOp u, UOp r) {
  if (u->dtype == DType::index) return u;
  if (!is_int(u->dtype) || u->dtype == DType::u64) return {};
  if (!depends(u, r)) return cast(u, DType::index);
  if (!u->is(Op::Cast) || u->src(0)->dtype != DType::index) return {};
  UOp inner = u->src(0);
  return inner->lo >= row(u->dtype).lo && inner->hi <= row(u->dtype).hi ? inner : UOp();
}

UOp ceil_div(UOp x, int64_t d) { return (x + (d - 1)) / d; }

// Which r a condition lets through: begin <= r < end and the rest, which does not move with r or
// could not be solved for it. Empty bounds: none known.
struct Span {
  UOp begin, end;
  UOp at, past;  // an equality's one position and its end, whose difference a choice may hide
  std::vector<UOp> fixed, loose;

  void from(UOp b) { begin = begin ? binary(Op::Max, begin, b) : b; }
  void until(UOp e) { end = end ? binary(Op::Min, end, e) : e; }
};

// sum + k*r < 0 (or its negation) as a bound of r.
void bound_below_zero(Span& s, const Linear& sum, int64_t k, bool negated) {
  UOp rest = build(sum);
  // k*r < -rest; k > 0: r < ceil(-rest/k); k < 0: r > rest/|k|.
  if (k > 0) {
    UOp limit = ceil_div(-rest, k);
    negated ? s.from(limit) : s.until(limit);
  } else {
    UOp limit = rest / -k + 1;
    negated ? s.until(limit) : s.from(limit);
  }
}

// sum + k*r == 0: one position, if k divides.
void bound_at_zero(Span& s, const Linear& sum, int64_t k) {
  UOp at = build(sum) * (k > 0 ? -1 : 1);
  if (k < 0) k = -k;
  if (k > 1) s.fixed.push_back(eq(at % k, index(0)));
  s.at = at / k, s.past = s.at + 1;
  s.from(s.at);
  s.until(s.past);
}

void take(Span& s, UOp condition, UOp r) {
  if (!depends(condition, r)) return s.fixed.push_back(condition);
  UOp compare = condition;
  bool negated = false;
  if (compare->is(Op::Xor) && compare->src(1)->is_const(1)) {
    negated = true;
    compare = compare->src(0);
  }
  bool solvable = compare->is(Op::Lt) || (compare->is(Op::Eq) && !negated);
  UOp left = solvable ? as_index(compare->src(0), r) : UOp();
  UOp right = left ? as_index(compare->src(1), r) : UOp();
  if (!right) return s.loose.push_back(condition);
  Linear sum = linear(left);
  sum.add(linear(right), -1);
  const int64_t k = sum.coeff_of(r);
  sum.add(r, -k);
  bool moves = std::ranges::any_of(sum.all(), [&](const auto& t) { return depends(t.node, r); });
  if (!sum.ok || k == 0 || k == kMinimum || moves) return s.loose.push_back(condition);
  if (compare->is(Op::Lt))
    bound_below_zero(s, sum, k, negated);
  else
    bound_at_zero(s, sum, k);
}

Span solve(UOp condition, UOp r) {
  Span s;
  for (UOp g : conjuncts(condition)) take(s, g, r);
  return s;
}

UOp all_of(std::span<const UOp> list) {
  UOp all = truth(true);
  for (UOp g : list) all = all & g;
  return all;
}

UOp sum_over(UOp value, UOp r);

// What a condition says, where it leaves one position.
Selected only_position(const Span& s, UOp r) {
  if (!s.begin || !s.end) return {};
  const bool alone = s.begin == s.at && s.end == s.past;
  if (!alone && !simplify(s.end - s.begin)->is_const(1)) return {};
  const UOp at = simplify(s.begin);
  const UOp valid = all_of(s.fixed) & ge(at, index(0)) & lt(at, r->src(0));
  return {at, valid & select(all_of(s.loose), r, at, valid)};
}

// count times x, count an index >= 0; empty: no product. Integers wrap, so it is exact.
UOp times(UOp x, UOp count) {
  if (is_float(x->dtype) && !allows(Freedom::Multiply)) return {};
  UOp product = x * cast(count, x->dtype);
  if (!is_float(x->dtype) || count->lo > 0) return product;
  return where(lt(index(0), count), product, zero_like(x));
}

// The sum over r of where(condition, value, 0).
UOp sum_where(UOp condition, UOp value, UOp r) {
  UOp n = r->src(0);
  Span s = solve(condition, r);
  UOp zero = zero_like(value);
  if (!s.begin && !s.end && s.loose.empty()) {  // the condition does not move with r
    UOp inner = sum_over(value, r);
    return inner ? where(all_of(s.fixed), inner, zero) : UOp();
  }
  if (const auto [at, valid] = only_position(s, r); at)
    return where(valid, select(value, r, at, valid), zero);
  if (!s.loose.empty() || depends(value, r)) return {};
  UOp begin = s.begin ? binary(Op::Max, s.begin, index(0)) : index(0);
  UOp end = s.end ? binary(Op::Min, s.end, n) : n;
  UOp count = binary(Op::Max, end - begin, index(0));
  UOp sum = times(value, simplify(count));
  return sum ? where(all_of(s.fixed), sum, zero) : UOp();
}

// Sums of integers may be taken apart: they are exact in any order.
UOp sum_of_parts(UOp value, UOp r) {
  if (value->is(Op::Add)) {
    UOp a = sum_over(value->src(0), r);
    UOp b = a ? sum_over(value->src(1), r) : UOp();
    return b ? a + b : UOp();
  }
  if (value->is(Op::Mul)) {
    UOp a = value->src(0), b = value->src(1);
    if (depends(a, r)) std::swap(a, b);
    UOp inner = depends(a, r) ? UOp() : sum_over(b, r);
    return inner ? a * inner : UOp();
  }
  if (value->is(Op::Neg)) {
    UOp inner = sum_over(value->src(0), r);
    return inner ? unary(Op::Neg, inner) : UOp();
  }
  return {};
}

UOp sum_of_choice(UOp value, UOp r) {
  UOp g = value->src(0), a = value->src(1), b = value->src(2);
  if (is_zero(b)) return sum_where(g, a, r);
  if (is_zero(a)) return sum_where(logical_not(g), b, r);
  if (is_float(value->dtype)) return {};
  UOp first = sum_where(g, a, r);
  UOp second = first ? sum_where(logical_not(g), b, r) : UOp();
  return second ? first + second : UOp();
}

UOp sum_of_cast(UOp value, UOp r) {
  UOp inner = value->src(0);
  if (inner->dtype == DType::boolean) return sum_where(inner, constant(value->dtype, 1), r);
  if (inner->is(Op::Where) && is_zero(inner->src(2)))
    return sum_where(inner->src(0), cast(inner->src(1), value->dtype), r);
  if (!is_int(value->dtype) || inner->dtype != DType::index) return {};
  UOp sum = sum_over(inner, r);
  return sum ? cast(sum, value->dtype) : UOp();
}

// The sum of value over all of r in closed form, or empty. Recursion follows the few ops above,
// bounded by `kParts` so that deep sums are left alone.
UOp sum_over(UOp value, UOp r) {
  constexpr int kParts = 16;
  static thread_local int depth = 0;
  if (depth >= kParts) return {};
  ++depth;
  UOp n = r->src(0), sum;
  if (!depends(value, r))
    sum = times(value, n);
  else if (value == r)
    sum = n * (n - index(1)) / 2;
  else if (value->is(Op::Where))
    sum = sum_of_choice(value, r);
  else if (value->is(Op::Cast))
    sum = sum_of_cast(value, r);
  else if (is_int(value->dtype))
    sum = sum_of_parts(value, r);
  --depth;
  return sum;
}

// r is not used: the fold of one value with itself.
UOp unused(Op op, UOp value, UOp r) {
  if (r->src(0)->lo < 1) return {};
  bool idempotent = op == Op::Max || op == Op::Min || op == Op::And || op == Op::Or;
  return idempotent ? value : UOp();
}

UOp collapse(const Match& m) {
  UOp reduce = m.root, value = reduce->src(0);
  const Op op = static_cast<Op>(reduce->ints(0));
  if (reduce->nsrc < 2 || reduce->ints().size() > 1) return {};
  std::vector<UOp> ranges;
  for (uint32_t s = 1; s < reduce->nsrc; ++s) ranges.push_back(reduce->src(s));
  if (std::ranges::any_of(ranges, [](UOp r) { return r->is(Op::Range) && r->src(0)->is_const(0); }))
    return fold_identity(op, reduce->dtype);
  // Inner ranges first: they have the small strides, so that a split position is solved digit by
  // digit.
  for (size_t at = ranges.size(); at-- > 0;) {
    UOp r = ranges[at];
    if (!r->is(Op::Range)) continue;
    UOp closed = op == Op::Add && value->dtype != DType::boolean ? sum_over(value, r)
                 : depends(value, r)                             ? UOp()
                                                                 : unused(op, value, r);
    if (!closed) continue;
    ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(at));
    if (!ranges.empty()) return reduce_over(op, closed, ranges);
    const bool from_zero = op == Op::Add && is_float(value->dtype);
    return from_zero && !allows(Freedom::KeepTerm) ? closed + zero_like(closed) : closed;
  }
  return {};
}

using namespace pattern;
constexpr Rule collapse_table[] = {rule(node_and_more(Op::Reduce, {x}), collapse)};

}  // namespace

Selected only_position(UOp condition, UOp r) { return only_position(solve(condition, r), r); }

UOp select(UOp value, UOp r, UOp at, UOp valid) {
  return map_nodes("select position", value, [&](UOp n, const Mapped& now) {
    if (n == r) return at;
    if (!depends(n, r)) return n;
    if (!n->is(Op::Index)) return UOp();
    return make(Op::Index, n->dtype, {UOp(now.src[0]), gated(valid, now.src[1])});
  });
}

std::span<const Rule> collapse_rule_table() { return collapse_table; }

UOp collapse_reduces(UOp root) { return rewrite(root, collapse_rules); }

}  // namespace mote
