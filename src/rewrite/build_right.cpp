// Right sides and guards: patterns evaluated for what the left side bound.
#include <limits>
#include <optional>

#include "base/integers.h"
#include "ir/build.h"
#include "rewrite/matcher.h"

namespace mote {

namespace {

using Wide = __int128;

// An expression over constants and intervals, exact; empty when it is not a number.
struct Evaluator {
  const Pat& p;
  const Match& m;
  int at = 0;

  std::optional<Wide> bound(bool low) {
    UOp b = m.bound[p[at++].var];
    int64_t v = low ? b->lo : b->hi;
    if (is_float(b->dtype) || b->dtype == DType::u64) return {};
    if (v == std::numeric_limits<int64_t>::min() || v == std::numeric_limits<int64_t>::max())
      return {};
    return v;
  }

  std::optional<Wide> operator()() {
    const PatNode& n = p[at++];
    if (n.kind == PatNode::Number) return static_cast<Wide>(n.value);
    if (n.kind == PatNode::Lo || n.kind == PatNode::Hi) return bound(n.kind == PatNode::Lo);
    if (n.kind == PatNode::Constant) {
      UOp c = m.bound[n.var];
      if (is_float(c->dtype)) return {};
      return c->arg.i;
    }
    std::optional<Wide> a = (*this)();
    std::optional<Wide> b = n.nsrc > 1 ? (*this)() : Wide(0);
    if (!a || !b) return {};
    return combine(n.op, *a, *b);
  }

  static std::optional<Wide> combine(Op op, Wide a, Wide b) {
    constexpr Wide limit = Wide(1) << 62;
    auto small = [](Wide v) { return v > -(limit * 2) && v < limit * 2; };
    switch (op) {
      case Op::Add: return a + b;
      case Op::Mul:
        if (!small(a) || !small(b)) return {};
        return a * b;
      case Op::FloorDiv:
        if (b == 0) return {};
        return floor_div(a, b);
      case Op::FloorMod:
        if (b == 0) return {};
        return floor_mod(a, b);
      case Op::Max: return a > b ? a : b;
      case Op::Min: return a < b ? a : b;
      case Op::And: return a & b;
      case Op::Or: return a | b;
      case Op::Xor: return a ^ b;
      case Op::Lt: return a < b;
      case Op::Eq: return a == b;
      default: return {};
    }
  }
};

// Builds a right side; `want` is the dtype a number takes at this place.
struct Builder {
  const Pat& p;
  const Match& m;
  int at = 0;

  // The dtype of a subtree when it does not depend on its surroundings.
  DType known(int pos) const {
    const PatNode& n = p[pos];
    switch (n.kind) {
      case PatNode::Variable:
      case PatNode::Constant: return m.bound[n.var]->dtype;
      case PatNode::Number: return DType::none;
      case PatNode::Fold: return known(pos + 1);
      default: break;
    }
    if (has(n.op, Compares)) return DType::boolean;
    if (n.op == Op::Cast || n.op == Op::Bitcast) return DType::none;
    if (n.op == Op::Invalid) return DType::index;
    return known_source(pos, n.op == Op::Where ? 1 : 0);
  }
  DType known_source(int pos, int from) const {
    int source = pos + 1;
    for (int s = 0; s < p[pos].nsrc; ++s, source = p.end(source)) {
      if (s < from) continue;
      if (DType d = known(source); d != DType::none) return d;
    }
    return DType::none;
  }

  UOp folded(DType want) {
    int inside = at;
    at = p.end(at);
    DType d = known(inside) == DType::none ? want : known(inside);
    if (d == DType::index || d == DType::boolean) {
      std::optional<Wide> v = Evaluator{p, m, inside}();
      if (!v || *v < std::numeric_limits<int64_t>::min() ||
          *v > std::numeric_limits<int64_t>::max())
        return {};
      return constant(d, static_cast<int64_t>(*v));
    }
    Builder b{p, m, inside};
    UOp r = b(d);
    return r && r->is(Op::Const) ? r : UOp();
  }

  UOp operator()(DType want) {
    const int pos = at++;
    const PatNode& n = p[pos];
    switch (n.kind) {
      case PatNode::Variable:
      case PatNode::Constant: return m.bound[n.var];
      case PatNode::Number: return constant(want, n.value);
      case PatNode::Fold: return folded(want);
      default: break;
    }
    DType inner = want;
    if (n.op != Op::Cast)
      if (DType d = known_source(pos, n.op == Op::Where ? 1 : 0); d != DType::none) inner = d;
    UOp src[4];
    for (int s = 0; s < n.nsrc; ++s) {
      src[s] = (*this)(n.op == Op::Where && s == 0 ? DType::boolean : inner);
      if (!src[s]) return {};
    }
    DType result = n.op == Op::Cast ? want : has(n.op, Compares) ? DType::boolean : inner;
    return make(n.op, result, std::span<const UOp>(src, n.nsrc));
  }
};

}  // namespace

Node* build_right(const Rule& rule, const Match& m) {
  return Builder{rule.right, m}(m.root->dtype).get();
}

bool guard_holds(const Rule& rule, const Match& m) {
  std::optional<Wide> v = Evaluator{rule.guard, m}();
  return v && *v != 0;
}

}  // namespace mote
