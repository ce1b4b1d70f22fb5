// Masks: where a value vanishes along a range because a comparison hides the rest.
#include <algorithm>

#include "algebra/algebra.h"
#include "ir/freedoms.h"
#include "ir/program.h"

namespace mote {

namespace {

// From where on, counted by k, a condition is `wanted`; empty: nowhere that could be told.
UOp holds_from(UOp condition, UOp k, bool wanted) {
  if (condition->is(Op::Xor) && condition->src(1)->is_const(1))
    return holds_from(condition->src(0), k, !wanted);
  if (condition->is(wanted ? Op::Or : Op::And))
    for (Node* part : condition->src())
      if (UOp from = holds_from(UOp(part), k, wanted)) return from;
  if (!condition->is(Op::Lt) || condition->src(0)->dtype != DType::index) return {};
  // a < b is rest + c*k < 0.
  Linear sum = linear(condition->src(0));
  sum.add(linear(condition->src(1)), -1);
  const int64_t c = sum.coeff_of(k);
  if (!sum.ok || c != (wanted ? -1 : 1)) return {};
  sum.add(k, -c);
  UOp rest = build(sum);
  if (rest->ranges & slot_bit(k)) return {};
  return simplify(wanted ? rest + 1 : rest * -1);
}

// What a value is beyond some position of a row: 0, 0 as the exponential of -inf, or -inf.
enum class Beyond : uint8_t { Zero, Hidden, Lowest };

constexpr int kDepth = 16;

bool is_lowest(UOp u) {
  return is_float(u->dtype) && is_const(u) && u == fold_identity(Op::Max, u->dtype);
}

UOp where_limit(UOp value, UOp k, Beyond kind) {
  auto vanishes = [&](UOp u) {
    return (kind == Beyond::Zero && is_zero(u)) || (kind == Beyond::Lowest && is_lowest(u));
  };
  if (vanishes(value->src(1))) return holds_from(value->src(0), k, true);
  if (vanishes(value->src(2))) return holds_from(value->src(0), k, false);
  return {};
}

// Where along k the value vanishes. What a softmax hides is not evaluated: its weight 0 counts as
// 0 for the product, and -inf stays -inf under any sum. Another 0 may be a factor of an infinity.
UOp limit(UOp value, UOp k, Beyond kind, int depth) {
  if (!(value->ranges & slot_bit(k)) || depth > kDepth) return {};
  auto below = [&](uint32_t i, Beyond wanted) {
    return limit(value->src(i), k, wanted, depth + 1);
  };
  const bool lowest = kind == Beyond::Lowest;
  switch (value->op) {
    case Op::Where: return where_limit(value, k, kind);
    case Op::Exp:
    case Op::Exp2: return lowest ? UOp() : below(0, Beyond::Lowest);
    case Op::Cast: return lowest && !is_float(value->dtype) ? UOp() : below(0, kind);
    case Op::Div: return lowest ? UOp() : below(0, Beyond::Hidden);
    case Op::Mul:
    case Op::Add: {
      if (lowest == value->is(Op::Mul)) return {};
      const Beyond part = lowest ? kind : Beyond::Hidden;
      UOp first = below(0, part);
      return first ? first : below(1, part);
    }
    case Op::Index: {
      UOp stage = value->src(0), r = row_range(stage);
      if (!r || value->src(1) != k) return {};
      return limit(stage->src(0), r, kind, depth + 1);
    }
    default: return {};
  }
}

bool is_comparison(UOp u) { return u->is(Op::Lt) || (u->is(Op::Xor) && u->src(0)->is(Op::Lt)); }

}  // namespace

UOp fold_ends_at(UOp reduce, UOp k) {
  const Op op = static_cast<Op>(reduce->ints(0));
  if ((op != Op::Add && op != Op::Max) || !allows(Freedom::SkipHidden)) return {};
  return limit(reduce->src(0), k, op == Op::Add ? Beyond::Zero : Beyond::Lowest, 0);
}

UOp without_masks(UOp root, std::span<const UOp> ranges, UOp end) {
  std::vector<std::pair<UOp, UOp>> seen;
  for (UOp n : toposort(root))
    for (UOp k : ranges) {
      if (!n->is(Op::Where) || !is_comparison(n->src(0))) continue;
      if (holds_from(n->src(0), k, true) == end) seen.emplace_back(n, n->src(2));
      if (holds_from(n->src(0), k, false) == end) seen.emplace_back(n, n->src(1));
    }
  return substitute(root, seen);
}

}  // namespace mote
