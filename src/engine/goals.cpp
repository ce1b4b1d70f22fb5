#include "engine/goals.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "grad/grad.h"
#include "ir/device_list.h"
#include "ir/flat.h"
#include "ir/memo.h"
#include "ir/storage.h"
#include "runtime/device.h"
#include "tensor/impl.h"

namespace mote {

namespace {

using NodeSet = std::unordered_set<const Node*>;

UOp leaf_under(UOp n) {
  while (has(n->op, Movement)) n = n->src(0);
  return n->is(Op::Buffer) || n->is(Op::After) ? n : UOp();
}

// Reshapes, and the cut that fits a symbolic shape into its buffer.
bool is_whole(UOp n) {
  for (; has(n->op, Movement); n = n->src(0))
    if (!n->is(Op::Reshape) && !(n->is(Op::Shrink) && n->shape->symbolic)) return false;
  return true;
}

bool refers_once(UOp n) { return n->refs.load(std::memory_order_acquire) == 1; }

UOp held_by(UOp n) { return n->realized.load(std::memory_order_acquire); }
bool is_realized(UOp n) { return static_cast<bool>(held_by(n)); }

Goal value_goal(const Ref& node, uint8_t device, const Tensor& t) {
  Ref buffer = prim::buffer(device, node->dtype, count_with_room(*node->shape));
  Ref effect = prim::assign(fit(buffer, node->shape->dims), node);
  return {node, effect, buffer, t};
}

// What the goals evaluate, and who holds it.
struct Reach {
  std::vector<UOp> order;  // all that would be evaluated
  NodeSet overwritten;     // versions that a Store replaces
  explicit Reach(std::span<const Goal> goals);
  bool is_needed_elsewhere(UOp n) const {
    return n->refs.load(std::memory_order_relaxed) > (*holds_)[n].inside;
  }

 private:
  struct Hold {
    uint32_t inside = 0;  // counts held by these and the goals
    bool seen = false;
  };
  MemoLease<Hold> holds_;
  void visit(UOp top);
};

Reach::Reach(std::span<const Goal> goals) {
  for (UOp n : toposort(effects_of(goals), [](UOp at) { return !is_realized(at); })) visit(n);
  for (const Goal& g : goals) {
    ++(*holds_)[g.effect].inside;
    ++(*holds_)[g.node].inside;
    if (g.buffer) ++(*holds_)[g.buffer].inside;
  }
}

// What was realized is read from its buffer, and that from a copy if it was overwritten since.
void Reach::visit(UOp top) {
  const size_t first = order.size();
  for (UOp n = top; n && !std::exchange((*holds_)[n].seen, true); n = held_by(n)) {
    order.push_back(n);
    for (Node* s : n->src()) ++(*holds_)[s].inside;
    if (UOp held = held_by(n)) ++(*holds_)[held].inside;
  }
  std::reverse(order.begin() + static_cast<std::ptrdiff_t>(first), order.end());
  UOp leaf = top->is(Op::Store) ? leaf_under(top->src(0)) : UOp();
  for (; leaf; leaf = held_by(leaf)) overwritten.insert(leaf.get());
}

// Pending versions, not asked for, that something kept outside reads: itself, or through values of
// this graph that will be evaluated again. What is asked for or pending itself ends the search.
std::vector<UOp> versions_read_later(const Reach& reach, const NodeSet& asked) {
  NodeSet later;
  std::vector<UOp> versions;
  for (size_t i = reach.order.size(); i-- > 0;) {
    UOp n = reach.order[i];
    if (!later.count(n.get()) && !reach.is_needed_elsewhere(n)) continue;
    if (is_realized(n) || asked.count(n.get())) continue;
    if (n->is(Op::After))
      versions.push_back(n);
    else
      later.insert(n->src().begin(), n->src().end());
  }
  std::ranges::reverse(versions);
  return versions;
}

// Whether the goals are others afterwards.
bool run_pending_writes(std::vector<Goal>& goals, const Reach& reach) {
  NodeSet asked;
  bool changed = false;
  for (Goal& g : goals) {
    asked.insert(g.node.get());
    if (g.buffer || !reach.overwritten.count(g.node.get())) continue;
    g = value_goal(g.node, g.node->device, g.tensor);
    changed = true;
  }
  for (UOp n : versions_read_later(reach, asked)) {
    if (reach.overwritten.count(n.get())) continue;
    goals.push_back({Ref(n), Ref(n), {}, {}});
    changed = true;
  }
  return changed;
}

bool reads_any(UOp n, const NodeSet& spoiled) {
  if (is_realized(n)) return spoiled.count(held_by(n).get()) != 0;
  return !has(n->op, Effect) &&
         std::ranges::any_of(n->src(), [&](Node* s) { return spoiled.count(s) != 0; });
}

// The elements in memory are the same in any shape.
bool only_reshapes(UOp n) {
  return n->is(Op::Reshape) && !n->shape->symbolic && !n->src(0)->shape->symbolic;
}

void keep_what_others_need(std::vector<Goal>& goals, const Reach& reach) {
  NodeSet ours, spoiled = reach.overwritten;
  for (const Goal& g : goals) {
    ours.insert(g.node.get());
    if (g.buffer) ours.insert(g.buffer.get());
  }
  auto is_stored = [&](UOp n) {  // or will be read from what is, in another shape
    while (!ours.count(n.get()) && only_reshapes(n) && !is_realized(n)) n = n->src(0);
    return ours.count(n.get()) != 0;
  };
  for (UOp n : reach.order) {
    if (n->is(Op::Store)) continue;
    if (reads_any(n, spoiled)) spoiled.insert(n.get());
    if (!spoiled.count(n.get()) || !reach.is_needed_elsewhere(n)) continue;
    UOp kept = is_realized(n) ? tensor_graph::realized_in(n) : n;
    if (is_stored(kept)) continue;
    ours.insert(kept.get());
    goals.push_back(value_goal(Ref(kept), kept->device ? kept->device : kDefaultDevice, {}));
  }
}

StorageSet scratch(std::span<const Goal> goals, const Reach& reach) {
  StorageSet found;
  for (const Node* n : reach.overwritten) {
    if (n->op != Op::Buffer || reach.is_needed_elsewhere(UOp(const_cast<Node*>(n)))) continue;
    Storage& s = *n->arg.storage;
    const bool named_once = s.refs.load(std::memory_order_acquire) == 1;
    if (named_once && !device_buffer(s).allocated()) found.insert(&s);
  }
  if (!found.empty())
    for (const Goal& g : goals) found.erase(storage_under(g.effect));
  return found;
}

// The buffer's content is new: later graphs name the new version.
Ref next_version(UOp node) {
  Storage* s = storage_under(node);
  ++s->version;
  retain(s);
  return tensor_graph::buffer(s);
}

// Does nothing but the tensors asking for it know the value? Others are handles and pending graphs,
// of any thread: equal expressions are one node.
bool is_asked_only(const Goal& g, int times_asked) {
  if (!g.buffer || !g.tensor.defined()) return false;
  UOp n = g.tensor.impl()->value;
  for (; has(n->op, Movement) && n != g.node; n = n->src(0))
    if (n->refs.load(std::memory_order_acquire) != 1) return false;
  constexpr uint32_t held_per_goal = 3;  // by the goal, its Store and the tensor
  return n == g.node && n->refs.load(std::memory_order_acquire) ==
                            held_per_goal * static_cast<uint32_t>(times_asked);
}

}  // namespace

std::vector<UOp> effects_of(std::span<const Goal> goals) {
  std::vector<UOp> effects;
  for (const Goal& g : goals) effects.push_back(g.effect);
  return effects;
}

Storage* storage_under(UOp node) {
  while (!node->is(Op::Buffer)) node = node->src(0);
  return node->arg.storage;
}

UOp whole_version(UOp node) { return is_whole(node) ? leaf_under(node) : UOp(); }

bool is_sole_reader(const TensorImpl& impl) {
  UOp n = impl.value;
  for (; has(n->op, Movement); n = n->src(0))
    if (!refers_once(n)) return false;
  return refers_once(n);
}

std::vector<Goal> copies_for_others(std::span<const Tensor> tensors) {
  std::vector<Goal> goals;
  for (const Tensor& t : tensors)
    goals.push_back(value_goal(Ref(prim::base_of(t.impl()->value)), t.impl()->device, {}));
  return goals;
}

void begin_versions(std::span<const Tensor> tensors) {
  for (const Tensor& t : tensors) {
    TensorImpl& impl = *t.impl();
    impl.value = fit(next_version(impl.value), std::vector<Dim>(impl.value->shape->dims));
  }
}

std::vector<Goal> goals_of(std::span<const Tensor> tensors) {
  std::vector<Goal> goals;
  std::unordered_set<const void*> asked;  // tensors and versions: each is stored once
  for (const Tensor& t : tensors) {
    if (!t.defined()) continue;
    const Tensor& root = t.impl()->base.defined() ? t.impl()->base : t;
    TensorImpl& impl = *root.impl();
    if (!asked.insert(&impl).second) continue;
    Ref node = node_of(impl);
    if (UOp leaf = whole_version(node)) {
      if (leaf->is(Op::After) && asked.insert(leaf.get()).second)
        goals.push_back({Ref(leaf), Ref(leaf), {}, root});
      continue;
    }
    while (only_reshapes(node)) node = Ref(node->src(0));  // what is below may be stored already
    goals.push_back(value_goal(node, impl.device, root));
  }
  return goals;
}

StorageSet complete(std::vector<Goal>& goals) {
  std::optional<Reach> reach(goals);
  if (run_pending_writes(goals, *reach)) reach.emplace(goals);
  keep_what_others_need(goals, *reach);
  return scratch(goals, *reach);
}

void settle(std::vector<Goal>& goals) {
  std::vector<UOp> nodes;
  std::unordered_map<const Node*, int> asked;
  for (const Goal& g : goals) {
    nodes.push_back(g.node);
    ++asked[g.node.get()];
  }
  std::vector<bool> hides_leaves = depend_on_leaves(nodes), own;
  for (const Goal& g : goals) own.push_back(is_asked_only(g, asked[g.node.get()]));
  for (size_t i = 0; i < goals.size(); ++i) {
    Goal& g = goals[i];
    Ref held = next_version(g.effect);
    held->arg.storage->from_graph = hides_leaves[i] && !held->arg.storage->requires_grad;
    // Two threads may both store the value of an expression that they have in common.
    const bool first = own[i] || tensor_graph::set_realized(g.node, held);
    ensure(first || g.buffer, "a write was made twice");
    if (!g.tensor.defined()) continue;
    TensorImpl& impl = *g.tensor.impl();
    if (g.buffer) {
      set_own(impl, false);
      impl.value = fit(held, std::vector<Dim>(impl.value->shape->dims));
      set_own(impl, own[i]);
    } else {
      node_of(impl);  // resolves to the buffer
    }
  }
}

}  // namespace mote
