// Products fused into the sums they go into. A compiler behind would do so too, but by where the
// two stand: results would depend on the order of loops, and with it on the number of threads.
#include <unordered_map>

#include "ir/freedoms.h"
#include "lower/lower.h"

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

  Product product(UOp n) const {
    if (users_.at(n.get()) > 1) return {};
    if (n->is(Op::Mul)) return {n->src(0), n->src(1)};
    if (!n->is(Op::Neg) || !n->src(0)->is(Op::Mul) || users_.at(n->src(0).get()) > 1) return {};
    return {unary(Op::Neg, n->src(0)->src(0)), n->src(0)->src(1)};
  }

 private:
  std::unordered_map<const Node*, int> users_;
};

}  // namespace

// Of two products neither is fused: which one it is would hang on the order of operands.
UOp fuse_products(UOp body, const Target& target) {
  if (!contracts(target) || target.fuses_itself) return body;
  const std::vector<UOp> order = toposort(body);
  const Fusion fusion(order);
  std::unordered_map<const Node*, Node*> done;
  auto now = [&](UOp n) {
    auto it = done.find(n.get());
    return it != done.end() ? UOp(it->second) : unary(Op::Neg, done.at(n->src(0).get()));
  };
  std::vector<Node*> src;
  for (UOp n : order) {
    if (n->is(Op::Add) && is_fusable(n->dtype)) {
      const Product p = fusion.product(n->src(0)), q = fusion.product(n->src(1));
      if (!p.a != !q.a) {
        const Product& one = p.a ? p : q;
        UOp sum = make(Op::MulAdd, n->dtype, {now(one.a), now(one.b), now(n->src(p.a ? 1 : 0))});
        done[n.get()] = sum.get();
        continue;
      }
    }
    src.clear();
    for (Node* s : n->src()) src.push_back(done.at(s));
    done[n.get()] = (n->nsrc ? with_src(n, src) : n).get();
  }
  return done.at(body.get());
}

}  // namespace mote
