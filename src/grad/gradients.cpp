// The reverse walk.
#include "base/error.h"
#include "grad/grad.h"
#include "ir/memo.h"
#include "ir/provenance.h"
#include "ir/storage.h"
#include "tensor/given.h"
#include "tensor/primitives.h"

namespace mote {

namespace {

// What the walk knows of a node.
struct Mark {
  bool wanted = false;   // a target or a marked leaf
  bool below = false;    // the loss depends on it
  bool on_path = false;  // and it is wanted, or depends on something that is
  Ref gradient;          // the sum of what came from above so far
};

bool entered(UOp n) {
  return !marked_leaf(n) && !n->is(Op::Detach) && (is_float(n->dtype) || n->is(Op::Store));
}

// Realized from marked leaves: what led to it is gone.
bool hides_leaves(UOp n) { return n->is(Op::Buffer) && n->arg.storage->from_graph; }

[[noreturn]] void fail_for_realized(UOp n) {
  fail(ErrorKind::User,
       text("[", current_method(), "] it depends on a tensor of ", n->shape->count(),
            " elements that was already realized, whose graph is gone; call ", current_method(),
            "() before realize/item, or detach() that tensor"));
}

// The loss keeps every node it walks over alive, so ids stay theirs.
class Walk {
 public:
  explicit Walk(const Ref& loss) : loss_(loss) {
    UOp root = loss;
    order_ = toposort({&root, 1}, entered);
    mark_below();
  }

  void want(UOp n) { marks_[n].wanted = true; }
  bool on_path(UOp n) { return marks_[n].on_path; }
  const Ref& gradient(UOp n) { return marks_[n].gradient; }

  std::vector<UOp> want_leaves() {
    std::vector<UOp> leaves;
    for (UOp n : order_)
      if (marks_[n].below && marked_leaf(n)) {
        want(n);
        leaves.push_back(n);
      }
    return leaves;
  }

  void run(const Ref& seed) {
    for (UOp n : order_) mark_on_path(n);
    add(loss_, seed);
    for (size_t at = order_.size(); at-- > 0;)
      if (Mark& mark = marks_[order_[at]]; mark.on_path) {
        Ref g = mark.gradient;
        if (!mark.wanted) mark.gradient = {};
        pass_on(order_[at], g);
      }
  }

 private:
  void mark_below() {
    marks_[loss_].below = true;
    for (size_t at = order_.size(); at-- > 0;) {
      UOp n = order_[at];
      if (!marks_[n].below || !entered(n)) continue;
      for (uint32_t i = 0; i < n->nsrc; ++i)
        if (carries(n, i)) marks_[n->src(i)].below = true;
    }
  }

  // The buffer that n was stored to, when that is a target: its handle was made new, n is the same.
  UOp wanted_buffer(UOp n) {
    Node* buffer = n->realized.load(std::memory_order_acquire);
    return buffer && marks_[buffer].wanted ? buffer : UOp();
  }

  void mark_on_path(UOp n) {
    if (!marks_[n].below) return;
    bool path = marks_[n].wanted;
    if (UOp buffer = wanted_buffer(n)) path = marks_[buffer].on_path = true;
    if (entered(n))
      for (uint32_t i = 0; i < n->nsrc && !path; ++i) path = carries(n, i) && on_path(n->src(i));
    if (!path && hides_leaves(n)) fail_for_realized(n);
    marks_[n].on_path = path;
  }

  void pass_on(UOp n, const Ref& g) {
    ProvenanceScope scope(n->provenance);
    GivenOnce once;
    // A leaf that was read before it was stored, and after, counts once for each.
    UOp buffer = marks_[n].wanted ? UOp() : wanted_buffer(n);
    if (buffer) add(buffer, prim::reshape(g, buffer->shape->dims));
    if (!entered(n)) return;
    for (uint32_t i = 0; i < n->nsrc; ++i)
      if (carries(n, i) && on_path(n->src(i))) add(n->src(i), derivative(n, g, i));
  }

  void add(UOp n, const Ref& g) {
    Ref& sum = marks_[n].gradient;
    sum = sum ? prim::add(sum, g) : prim::cut_long_chain(g);
  }

  Ref loss_;
  Memo<Mark> marks_;
  std::vector<UOp> order_;  // sources before users
};

// What a target is a reshaped or permuted sight of: graphs merge these, so uses may pass it by.
UOp underlying(UOp n) {
  while (n->is(Op::Reshape) || n->is(Op::Permute)) n = n->src(0);
  return n;
}

}  // namespace

Storage* marked_leaf(UOp n) {
  while (n->is(Op::After)) n = n->src(0);
  return n->is(Op::Buffer) && n->arg.storage->requires_grad ? n->arg.storage : nullptr;
}

namespace {

bool is_open(UOp n) { return entered(n) && !n->realized.load(std::memory_order_acquire); }

// Whether it is, or was realized from, a marked leaf.
bool is_from_leaf(UOp n) {
  UOp held = tensor_graph::realized_in(n);
  return marked_leaf(n) || hides_leaves(held ? held : n);
}

}  // namespace

// Views of memory are the usual case: a path down, and no walk over a graph.
bool depends_on_leaf(UOp node) {
  for (; !is_from_leaf(node); node = node->src(0)) {
    if (!is_open(node) || node->nsrc == 0) return false;
    if (node->nsrc > 1) return depend_on_leaves({&node, 1})[0];
    if (!carries(node, 0)) return false;
  }
  return true;
}

std::vector<bool> depend_on_leaves(std::span<const UOp> nodes) {
  MemoLease<char> lease;
  Memo<char>& depends = *lease;
  for (UOp n : toposort(nodes, is_open)) {
    bool found = is_from_leaf(n);
    for (uint32_t i = 0; is_open(n) && i < n->nsrc && !found; ++i)
      found = depends[n->src(i)] && carries(n, i);
    depends[n] = found;
  }
  std::vector<bool> out;
  for (UOp n : nodes) out.push_back(depends[n]);
  return out;
}

std::vector<Ref> gradients(const Ref& loss, std::span<const Ref> targets, const Ref& seed) {
  Walk walk(loss);
  for (const Ref& t : targets) walk.want(underlying(t));
  walk.run(seed);
  std::vector<Ref> out;
  for (const Ref& t : targets) {
    UOp base = underlying(t);
    out.push_back(walk.on_path(base) ? seen_through(t, base, walk.gradient(base)) : Ref());
  }
  return out;
}

std::vector<std::pair<Ref, Ref>> leaf_gradients(const Ref& loss, const Ref& seed) {
  Walk walk(loss);
  std::vector<UOp> leaves = walk.want_leaves();
  walk.run(seed);
  std::vector<std::pair<Ref, Ref>> out;
  for (UOp leaf : leaves) out.emplace_back(Ref(leaf), walk.gradient(leaf));
  return out;
}

}  // namespace mote
