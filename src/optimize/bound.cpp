// Bounded rows: where a mask hides the end of every row, loops over rows end before it.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "algebra/algebra.h"
#include "base/error.h"
#include "ir/program.h"
#include "optimize/apply.h"

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

class Bounder {
 public:
  Bounder(UOp body, UOp row) : body_(body), row_(row), order_(toposort(body)) {}

  UOp run(std::string* refused) {
    find_limit();
    if (!limit_) return refuse(refused, "no mask hides the end of rows");
    find_ranges();
    if (bounded_.empty()) return refuse(refused, "some read needs whole rows");
    return rebuild();
  }

 private:
  static constexpr int kDepth = 16;
  UOp body_, row_, limit_;
  std::vector<UOp> order_, bounded_;

  static bool is_lowest(UOp u) {
    return is_float(u->dtype) && is_const(u) && u == fold_identity(Op::Max, u->dtype);
  }

  UOp where_limit(UOp value, UOp k, Beyond kind) const {
    auto vanishes = [&](UOp u) {
      return (kind == Beyond::Zero && is_zero(u)) || (kind == Beyond::Lowest && is_lowest(u));
    };
    if (vanishes(value->src(1))) return holds_from(value->src(0), k, true);
    if (vanishes(value->src(2))) return holds_from(value->src(0), k, false);
    return {};
  }

  // Where along k the value vanishes. What a softmax hides is not evaluated: its weight 0 counts as
  // 0 for the product, and -inf stays -inf under any sum. Another 0 may be a factor of an infinity.
  UOp limit(UOp value, UOp k, Beyond kind, int depth = 0) const {
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

  UOp limit_of_fold(UOp reduce, UOp k) const {
    const Op op = static_cast<Op>(reduce->ints(0));
    if (op != Op::Add && op != Op::Max) return {};
    return limit(reduce->src(0), k, op == Op::Add ? Beyond::Zero : Beyond::Lowest);
  }

  static bool closes(UOp n, UOp k) {
    return std::ranges::count(closed_ranges(n), k.get()) > 0;
  }

  void find_limit() {
    uint64_t around = ~uint64_t{0};
    for (UOp n : order_)
      if (n->is(Op::Stage) && (n->ranges & slot_bit(row_))) around &= n->ranges;
    for (UOp n : order_) {
      if (!n->is(Op::Reduce)) continue;
      for (Node* r : n->src().subspan(1)) {
        UOp found = limit_of_fold(n, UOp(r));
        if (!found || found->lo < 1 || (found->ranges & ~around)) continue;
        if (found->ranges & slot_bit(row_)) limit_ = found;
      }
    }
  }

  bool may_end(UOp k) const {
    if (!is_const(k->src(0)) || k->src(0)->arg.i < limit_->hi) return false;
    if (range_role(k) != Role::Reduce && range_role(k) != Role::Loop) return false;
    bool closed = false;
    for (UOp n : order_) {
      if (!closes(n, k)) continue;
      if (n->is(Op::End) || (n->is(Op::Stage) && row_range(n) != k)) return false;
      if (n->is(Op::Reduce) && limit_of_fold(n, k) != limit_) return false;
      if (!(n->ranges & slot_bit(row_))) return false;
      closed = true;
    }
    return closed;
  }

  // What is staged may end there if it is read nowhere beyond.
  bool is_read_beyond(UOp k) const {
    return std::ranges::any_of(order_, [&](UOp n) {
      return n->is(Op::Index) && n->src(0)->is(Op::Stage) && closes(n->src(0), k) &&
             !std::ranges::count(bounded_, n->src(1));
    });
  }

  void find_ranges() {
    for (UOp n : order_)
      if (n->is(Op::Range) && n != row_ && may_end(n)) bounded_.push_back(n);
    while (std::erase_if(bounded_, [&](UOp k) { return is_read_beyond(k); })) {}
  }

  static bool is_comparison(UOp u) {
    return u->is(Op::Lt) || (u->is(Op::Xor) && u->src(0)->is(Op::Lt));
  }

  UOp rebuild() const {
    std::vector<std::pair<UOp, UOp>> seen;  // masks that hide nothing any more
    for (UOp n : order_)
      for (UOp k : bounded_) {
        if (!n->is(Op::Where) || !is_comparison(n->src(0))) continue;
        if (holds_from(n->src(0), k, true) == limit_) seen.emplace_back(n, n->src(2));
        if (holds_from(n->src(0), k, false) == limit_) seen.emplace_back(n, n->src(1));
      }
    UOp body = substitute(body_, seen);
    std::vector<std::pair<UOp, UOp>> map;
    for (UOp k : bounded_)
      map.emplace_back(k, range(range_slot(k), limit_, range_role(k)));
    return simplify(substitute(body, map));
  }
};

}  // namespace

UOp apply_bound(UOp body, UOp row, std::string* refused) {
  if (range_role(row) != Role::Loop) return refuse(refused, "not an output loop");
  return Bounder(body, row).run(refused);
}

}  // namespace mote
