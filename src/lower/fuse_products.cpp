// Products fused into the sums they go into. A compiler behind would do so too, but by where the
// two stand: results would depend on the order of loops, and with it on the number of threads.
#include <unordered_map>

#include "ir/freedoms.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

namespace mote {

bool is_fusable(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

namespace {

// a * b, or -(a * b), that nothing else uses; empty: something else.
struct Product {
  UOp a, b;
};

class Fusion {
 public:
  explicit Fusion(std::span<const UOp> order) {
    for (UOp n : order)
      for (Node* s : n->src()) ++users_[s];
  }

  Product product(UOp n, const Mapped& now) const {
    if (users_.at(n.get()) > 1) return {};
    if (n->is(Op::Mul)) return {now(n->src(0)), now(n->src(1))};
    if (!n->is(Op::Neg) || !n->src(0)->is(Op::Mul) || users_.at(n->src(0).get()) > 1) return {};
    return {unary(Op::Neg, now(n->src(0)->src(0))), now(n->src(0)->src(1))};
  }

 private:
  std::unordered_map<const Node*, int> users_;
};

}  // namespace

// Of two products neither is fused: which one it is would hang on the order of operands.
UOp fuse_products(UOp body, const Target& target) {
  if (!contracts(target) || target.fuses_itself) return body;
  const Fusion fusion(toposort(body));
  return map_nodes("fuse products", body, [&](UOp n, const Mapped& now) {
    if (!n->is(Op::Add) || !is_fusable(n->dtype)) return UOp();
    const Product p = fusion.product(n->src(0), now), q = fusion.product(n->src(1), now);
    if (!p.a == !q.a) return UOp();
    const Product& one = p.a ? p : q;
    return mul_add(one.a, one.b, now.src[p.a ? 1 : 0]);
  });
}

}  // namespace mote
