// The rule tables. Variables: i j k l indices, n m integers that wrap, a b either, u v floats,
// g h bools, x y z w anything (pattern.h).
#include <cmath>

#include "algebra/linear.h"
#include "base/lifetime.h"

namespace mote {

namespace {

using namespace pattern;

UOp swap_branches(const Match& m);
UOp open_condition(const Match& m);
UOp merge_casts(const Match& m);
UOp compare_cast(const Match& m);
UOp divide_by_power_of_two(const Match& m);

// clang-format off
// A position that may not exist: the gate moves outwards through index arithmetic. Where the value
// leaves index arithmetic without a place to keep the gate, any value will do.
constexpr Rule hoist_gates[] = {
    rule(where(g, poison, poison), poison),
    rule(where(g, poison, i), where(!g, i, poison)),
    rule(where(g, where(h, i, poison), poison), where(g && h, i, poison)),
    rule(where(g, where(h, i, poison), j), where(!g || h, where(g, i, j), poison)),
    rule(where(g, j, where(h, i, poison)), where(g || h, where(g, j, i), poison)),
    rule(where(g, i, poison) + j, where(g, i + j, poison)),
    rule(where(g, i, poison) * j, where(g, i * j, poison)),
    rule(where(g, i, poison) / j, where(g, i / j, poison)),
    rule(where(g, i, poison) % j, where(g, i % j, poison)),
    rule(j / where(g, i, poison), where(g, j / i, poison)),
    rule(j % where(g, i, poison), where(g, j % i, poison)),
    rule(max(where(g, i, poison), j), where(g, max(i, j), poison)),
    rule(min(where(g, i, poison), j), where(g, min(i, j), poison)),
    rule(where(g, i, poison) < j, i < j),
    rule(j < where(g, i, poison), j < i),
    rule(eq(where(g, i, poison), j), eq(i, j)),
    rule(cast(where(g, i, poison), ~kIndexType), cast(i)),
    rule(where(g, i, poison), [](const Match& m) { return simplify_gate(m.root); }),
};

constexpr Rule sums_of_indices[] = {
    rule(i + j, [](const Match& m) { return canonical_sum(m.root); }),
    rule(i * c0, [](const Match& m) { return canonical_sum(m.root); }),
    rule(neg(i), i * -1),
};

constexpr Rule divide_indices[] = {
    rule(i / i, 1, when(lo(i) > 0)),
    rule(i % i, 0),
    rule(i / c0, [](const Match& m) { return fold_divmod(Op::FloorDiv, m[i], m[c0]->arg.i); }),
    rule(i % c0, [](const Match& m) { return fold_divmod(Op::FloorMod, m[i], m[c0]->arg.i); }),
    rule(i / j, [](const Match& m) { return fold_divmod(Op::FloorDiv, m[i], m[j]); }),
    rule(i % j, [](const Match& m) { return fold_divmod(Op::FloorMod, m[i], m[j]); }),
    rule(i / j / k, i / (j * k), when(lo(j) > 0 && lo(k) > 0 && hi(j) * hi(k) < 0x1p62)),
};

constexpr Rule compare_indices[] = {
    rule(i / c0 < c1, i < fold(c0 * c1), when(c0 > 0)),
    rule(c1 < i / c0, fold(c0 * c1 + c0 - 1) < i, when(c0 > 0)),
    rule(max(i, c0) < c1, i < c1, when(c0 < c1)),
    rule(max(i, c0) < c1, 0, when(c0 >= c1)),
    rule(min(i, c0) < c1, i < c1, when(c0 >= c1)),
    rule(min(i, c0) < c1, 1, when(c0 < c1)),
    rule(i < j, [](const Match& m) { return canonical_less(m[i], m[j]); }),
    rule(eq(i, j), [](const Match& m) { return canonical_equal(m[i], m[j]); }),
};

// Modular arithmetic: true of every width because all of them wrap.
constexpr Rule wrap_around[] = {
    rule(n * 0, 0),
    rule(n * -1, neg(n)),
    rule(n + n, n * 2),
    rule(n + neg(n), 0),
    rule(n + n * c0, n * fold(c0 + 1)),
    rule(n * c0 + n * c1, n * fold(c0 + c1)),
    rule((n + c0) + c1, n + fold(c0 + c1)),
    rule((n * c0) * c1, n * fold(c0 * c1)),
    rule((n + c0) + (m + c1), (n + m) + fold(c0 + c1)),
    rule((n + c0) + m, (n + m) + c0),
    rule(neg(n) * c0, n * fold(neg(c0))),
    rule(neg(n * c0), n * fold(neg(c0))),
    rule(neg(n + c0), neg(n) + fold(neg(c0))),
    rule(neg(n) + neg(m), neg(n + m)),
    rule(eq(n + c0, c1), eq(n, fold(c1 + neg(c0)))),
    rule(eq(neg(n), c0), eq(n, fold(neg(c0)))),
    rule(idiv(n, n), cast(!eq(n, 0))),
    rule(imod(n, n), 0),
    rule(imod(n, 1), 0),
    rule(idiv(0, n), 0),
    rule(imod(0, n), 0),
    rule(n & 0, 0),
    rule(n & -1, n),
    rule(n | 0, n),
    rule(n | -1, -1),
    rule(n ^ n, 0),
    rule((n & c0) & c1, n & fold(c0 & c1)),
    rule((n | c0) | c1, n | fold(c0 | c1)),
    rule((n ^ c0) ^ c1, n ^ fold(c0 ^ c1)),
    rule(n & (n | m), n),
    rule(n | (n & m), n),
    rule(shl(n, 0), n),
    rule(shr(n, 0), n),
    rule(shl(0, n), 0),
    rule(shr(0, n), 0),
};

// Of integers of every width, index included.
constexpr Rule ordered[] = {
    rule(max(max(a, c0), c1), max(a, fold(max(c0, c1)))),
    rule(min(min(a, c0), c1), min(a, fold(min(c0, c1)))),
    rule(max(min(a, b), a), a),
    rule(min(max(a, b), a), a),
    rule(max(max(a, b), a), max(a, b)),
    rule(min(min(a, b), a), min(a, b)),
    rule(a < a, 0),
    rule(eq(a, a), 1),
};

constexpr Rule floats[] = {
    rule(u * -1, neg(u)),
    rule(neg(u) * neg(v), u * v),
    rule(neg(u) * c0, u * fold(neg(c0))),
    rule(fdiv(u, -1), neg(u)),
    rule(fdiv(neg(u), neg(v)), fdiv(u, v)),
    rule(fdiv(u, c0), divide_by_power_of_two),
    rule(u < u, 0),
    rule(neg(u) < neg(v), v < u),
    rule(eq(neg(u), neg(v)), eq(u, v)),
};

constexpr Rule bools[] = {
    rule((g ^ h) ^ h, g),
    rule(g ^ g, 0),
    rule(!g && g, 0),
    rule(!g || g, 1),
    rule(!(g || h), !g && !h),
    rule(!g || !h, !(g && h)),
    rule(g && (g || h), g),
    rule(g || (g && h), g),
    rule(g || (!g && h), g || h),
    rule((g && h) || (!g && h), h),
    rule(g && h, [](const Match& m) { return simplify_conjunction(m.root); }),
    rule(g || h, [](const Match& m) { return simplify_disjunction(m.root); }),
    rule(eq(g, 1), g),
    rule(eq(g, 0), !g),
    rule(eq(g, g), 1),
    rule(eq(!g, h), !eq(g, h)),
    rule(g < g, 0),
    rule(g < 1, !g),
    rule(g < h, !g && h),
    rule(g * h, g && h),
    rule(g + h, g || h),
    rule(max(g, h), g || h),
    rule(min(g, h), g && h),
};

constexpr Rule choices[] = {
    rule(where(!g, x, y), swap_branches),
    rule(where(i % c0 < c1, x, y), open_condition),
    rule(where(g, where(g, x, y), z), where(g, x, z)),
    rule(where(g, x, where(g, y, z)), where(g, x, z)),
    rule(where(g, where(h, x, y), y), where(g && h, x, y)),
    rule(where(g, where(h, y, x), y), where(g && !h, x, y)),
    rule(where(g, x, where(h, x, y)), where(g || h, x, y)),
    rule(where(g, x, where(h, y, x)), where(g || !h, x, y)),
    rule(where(g, h, 0), g && h),
    rule(where(g, h, 1), !g || h),
    rule(where(g, 1, h), g || h),
    rule(where(g, 0, h), !g && h),
    rule(where(g, c0, c1) + c2, where(g, fold(c0 + c2), fold(c1 + c2))),
    rule(where(g, c0, c1) * c2, where(g, fold(c0 * c2), fold(c1 * c2))),
    rule(where(g, c0, c1) < c2, where(g, c0 < c2, c1 < c2)),
    rule(c2 < where(g, c0, c1), where(g, c2 < c0, c2 < c1)),
    rule(eq(where(g, c0, c1), c2), where(g, eq(c0, c2), eq(c1, c2))),
    rule(cast(where(g, c0, c1)), where(g, cast(c0), cast(c1))),
};

constexpr Rule casts[] = {
    rule(cast(cast(x)), merge_casts),
    rule(eq(cast(x), c0), compare_cast),
    rule(cast(x) < c0, compare_cast),
    rule(c0 < cast(x), compare_cast),
    rule(eq(cast(x), cast(y)), compare_cast),
    rule(cast(x) < cast(y), compare_cast),
};
// clang-format on

}  // namespace

MOTE_MADE_FIRST const RuleSet simplify_rules{
    "simplify",
    RuleSet::Pure,
    {hoist_gates, sums_of_indices, divide_indices, compare_indices, wrap_around, ordered, floats,
            bools, choices, casts}
};

MOTE_MADE_FIRST const RuleSet collapse_rules{
    "collapse",
    RuleSet::Pure,
    {collapse_rule_table(), hoist_gates, sums_of_indices, divide_indices, compare_indices,
            wrap_around, ordered, floats, bools, choices, casts}
};

UOp simplify(UOp u) { return rewrite(u, simplify_rules); }

namespace {

UOp swap_branches(const Match& m) {
  if (m[y]->is(Op::Invalid)) return {};  // a gate keeps Invalid last
  return where(m[g], m[y], m[x]);
}

UOp open_condition(const Match& m) {
  UOp window = open_window(m.root->src(0));
  return window ? where(window, m[x], m[y]) : UOp();
}

// Whether every value of `from` is a value of `to` and casting keeps it.
bool holds_all(DType to, DType from) {
  if (to == from) return true;
  if (from == DType::boolean) return true;
  if (to == DType::boolean || is_float(from) != is_float(to)) return false;
  if (is_float(from))
    return to == DType::f64 || (to == DType::f32 && from != DType::f64) ||
           ((to == DType::f16 || to == DType::bf16) && row(from).bits == 8);
  if (from == DType::u64 || to == DType::u64) return false;
  return row(to).lo <= row(from).lo && row(from).hi <= row(to).hi;
}

UOp merge_casts(const Match& m) {
  DType from = m[x]->dtype, through = m.root->src(0)->dtype, to = m.root->dtype;
  if (holds_all(through, from)) return cast(m[x], to);
  // The low bits of an integer do not depend on what else was kept.
  if (is_int(from) && is_int(through) && is_int(to) && row(through).bits >= row(to).bits)
    return cast(m[x], to);
  return {};
}

// The constant in x's dtype when x's dtype can hold it.
UOp narrowed(UOp c, DType to) {
  if (is_float(c->dtype) || to == DType::boolean) return {};
  if (c->arg.i < row(to).lo || c->arg.i > row(to).hi) return {};
  return constant(to, c->arg.i);
}

UOp compare_cast(const Match& m) {
  UOp a = m.root->src(0), b = m.root->src(1);
  UOp inner = a->is(Op::Cast) ? a->src(0) : b->src(0);
  if (!holds_all(a->dtype, inner->dtype)) return {};
  if (inner->dtype == DType::boolean && !is_float(a->dtype) &&
      !(a->is(Op::Cast) && b->is(Op::Cast)))
    return where(inner,
                 binary(m.root->op, a->is(Op::Const) ? a : constant(a->dtype, 1),
                        b->is(Op::Const) ? b : constant(a->dtype, 1)),
                 binary(m.root->op, a->is(Op::Const) ? a : constant(a->dtype, 0),
                        b->is(Op::Const) ? b : constant(a->dtype, 0)));
  auto side = [&](UOp s) {
    if (s->is(Op::Const)) return narrowed(s, inner->dtype);
    return s->src(0)->dtype == inner->dtype ? s->src(0) : UOp();
  };
  UOp left = side(a), right = side(b);
  return left && right ? binary(m.root->op, left, right) : UOp();
}

// Exact: both are the same real number rounded once.
UOp divide_by_power_of_two(const Match& m) {
  int exponent;
  double d = m[c0]->arg.f;
  if (d == 0 || !std::isfinite(d) || std::fabs(std::frexp(d, &exponent)) != 0.5) return {};
  double inverse = round_to(m.root->dtype, 1 / d);
  if (inverse == 0 || !std::isfinite(inverse) || inverse * d != 1) return {};
  return m[u] * constant(m.root->dtype, inverse);
}

}  // namespace

}  // namespace mote
