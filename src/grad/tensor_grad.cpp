// Tensor's gradient methods.
#include "grad/grad.h"
#include "ir/storage.h"
#include "tensor/handles.h"
#include "tensor/impl.h"

namespace mote {

namespace {

UOp below_movement(UOp n) {
  while (has(n->op, Movement)) n = n->src(0);
  return n;
}

bool was_realized(UOp n) {
  UOp base = below_movement(n);
  return base->is(Op::Buffer) && base->arg.storage->from_graph && !marked_leaf(base);
}

// Checks the loss and gives its node.
Ref loss_node(const Tensor& loss) {
  expect_defined(loss);
  expect(is_float(loss.dtype()), "only floating-point tensors have gradients, got ", loss.dtype(),
         " ", loss);
  Ref node = node_of(loss);
  expect(!was_realized(node), "this tensor was already realized, its graph is gone; call ",
         current_method(), "() before realize/item");
  return node;
}

// What the loss starts with: the gradient given, or 1.
Ref seed_node(const Tensor& loss, const Ref& node, const Tensor& given) {
  if (!given.defined()) {
    expect(!node->shape->symbolic && node->shape->count() == 1,
           "the gradient can be left out only if the tensor has one element, got shape ", loss,
           "; reduce it (sum, mean) or pass a gradient of that shape");
    return prim::full(node->shape->dims, prim::constant(node->dtype, 1.0));
  }
  Ref seed = node_of(given);
  expect(is_float(seed->dtype), "the gradient must be floating-point, got ", seed->dtype);
  expect(seed->shape == node->shape, "the gradient has shape ", given, " but the tensor has ",
         loss);
  expect(given.impl()->device == loss.impl()->device, "the gradient is on ", given.device(),
         " but the tensor is on ", loss.device());
  return prim::cast(seed, node->dtype);
}

// The gradient of a memory, as the tensor sees the memory.
Ref as_seen(const Tensor& leaf, const Ref& gradient) {
  Ref node = node_of(leaf);
  return seen_through(node, below_movement(node), gradient);
}

// Handles on the gradient so far see the sum.
void accumulate(const Tensor& leaf, const Ref& gradient) {
  if (effect_listener) effect_listener->gradient(leaf, EffectListener::Add);
  Tensor& grad = leaf.impl()->grad;
  if (!grad.defined()) {
    grad = make_value(gradient, leaf);
  } else if (Ref sum = prim::add(node_of(grad), gradient); grad.impl()->storage) {
    write(grad, sum);
  } else {
    grad.impl()->value = sum;
  }
  note_pending(*grad.impl());
}

void check_target(const Tensor& target, size_t i) {
  expect(target.defined(), "target ", i, " is undefined");
  expect(is_float(target.dtype()), "target ", i, " must be floating-point, got ", target.dtype(),
         " ", target);
  expect(
      !below_movement(node_of(target))->is(Op::Const), "target ", i, " of shape ", target,
      " is a constant, and equal constants are one value; call requires_grad_() on it before use");
}

}  // namespace

bool Tensor::requires_grad() const {
  return defined() && is_float(dtype()) && depends_on_leaf(node_of(*this));
}

Tensor& Tensor::requires_grad_(bool required, Loc where) {
  OuterCall call("requires_grad_", where);
  expect_defined(*this);
  expect(!required || is_float(dtype()), "only floating-point tensors have gradients, got ",
         dtype(), " ", *this);
  bool computed = !impl()->marked && depends_on_leaf(node_of(*this));
  expect(required || !computed,
         "this tensor is no leaf, because it is computed from marked ones; use detach()");
  if (!computed) mark_leaf(*this, required);
  return *this;
}

void Tensor::backward(const Tensor& gradient, Loc where) const {
  OuterCall call("backward", where);
  Ref loss = loss_node(*this);
  auto leaves = leaf_gradients(loss, seed_node(*this, loss, gradient));
  expect(!leaves.empty(), "this tensor of shape ", *this,
         " depends on no marked tensor; call requires_grad_() on the leaves first");
  for (auto& [leaf, g] : leaves)
    if (Tensor t = owner_of(*marked_leaf(leaf)); t.defined())
      accumulate(
          t, t.impl()->hooks ? node_of(hooked(t, make_value(as_seen(t, g), t))) : as_seen(t, g));
}

Tensor Tensor::grad() const {
  if (!defined()) return {};
  if (effect_listener && impl()->marked) effect_listener->gradient(*this, EffectListener::Read);
  return impl()->grad;
}

void Tensor::zero_grad() {
  if (!defined()) return;
  if (effect_listener && impl()->marked) effect_listener->gradient(*this, EffectListener::Drop);
  impl()->grad = {};
}

std::vector<Tensor> Tensor::gradient(const std::vector<Tensor>& targets, const Tensor& gradient,
                                     bool allow_unused, Loc where) const {
  OuterCall call("gradient", where);
  Ref loss = loss_node(*this);
  Ref seed = seed_node(*this, loss, gradient);
  std::vector<Ref> nodes;
  for (size_t i = 0; i < targets.size(); ++i) {
    check_target(targets[i], i);
    nodes.push_back(node_of(targets[i]));
  }
  std::vector<Ref> found = gradients(loss, nodes, seed);
  std::vector<Tensor> out;
  for (size_t i = 0; i < targets.size(); ++i) {
    expect(found[i] || allow_unused || targets[i].numel() == 0,
           "the tensor does not depend on target ", i, " of shape ", targets[i],
           "; was it assigned to since, or realized? allow_unused gives zeros");
    Ref zero = prim::full(nodes[i]->shape->dims, prim::constant(nodes[i]->dtype, 0.0));
    out.push_back(make_value(found[i] ? found[i] : zero, targets[i]));
  }
  return out;
}

}  // namespace mote
