// Derivatives that the program gives, hooks, and values that are computed again in the backward
// pass.
#include <mote/grad.h>

#include <unordered_map>

#include "grad/grad.h"
#include "tensor/given.h"

namespace mote {

namespace {

struct CustomRule : GivenRule {
  Backward backward;
  std::vector<Tensor> gradients(const Tensor& y, std::span<const Tensor> x,
                                const Tensor& g) override {
    return backward({
        g, y, {x.begin(), x.end()}
    });
  }
};

struct HookRule : GivenRule {
  std::vector<GradientHook> hooks;
  Tensor passed(Tensor g) const {
    for (const GradientHook& hook : hooks) {
      Tensor next = hook(g);
      if (!next.defined()) continue;
      expect(dims_of(next) == dims_of(g), "a hook made a gradient of shape ", next,
             " from one of shape ", g);
      g = next.to(g.dtype());
    }
    return g;
  }
  std::vector<Tensor> gradients(const Tensor&, std::span<const Tensor>, const Tensor& g) override {
    return {passed(g)};
  }
};

const HookRule& hooks_of(const Tensor& leaf) {
  return static_cast<const HookRule&>(*leaf.impl()->hooks->arg.storage);
}

void hook_leaf(const Tensor& leaf, GradientHook hook) {
  auto* rule = new HookRule;
  if (leaf.impl()->hooks) rule->hooks = hooks_of(leaf).hooks;
  rule->hooks.push_back(std::move(hook));
  leaf.impl()->hooks = rule_operand(rule, leaf.impl()->device);
}

// ---- computed again

// x as a value that is not there before g is: a copy of it behind one element of g. What is made of
// it is therefore another value than what was made of x, and cannot be computed early.
Ref again(const Ref& x, const Ref& g) {
  const int64_t count = x->shape->count();
  if (count == 0) return x;
  const Dim flat = count, all = g->shape->count(), one = 1;
  const prim::Extent first = {0, 1}, front = {0, count}, last = {count, count + 1};
  Ref waits = prim::shrink(prim::reshape(g, {&all, 1}), {&first, 1});
  waits =
      prim::copy_to(prim::cast(prim::detach(prim::reshape(waits, {&one, 1})), x->dtype), x->device);
  Ref memory =
      prim::assign(prim::shrink(prim::buffer(x->device, x->dtype, count + 1), {&last, 1}), waits);
  memory =
      prim::assign(prim::shrink(memory, {&front, 1}), prim::reshape(prim::detach(x), {&flat, 1}));
  return prim::reshape(prim::shrink(memory, {&front, 1}), x->shape->dims);
}

using Replaced = std::unordered_map<const Node*, Ref>;

Ref rebuilt(UOp value, Replaced& by) {
  auto enter = [&](UOp n) { return !by.contains(n.get()); };
  for (UOp n : toposort({&value, 1}, enter)) {
    if (by.contains(n.get())) continue;
    std::vector<Ref> src;
    bool same = true;
    for (Node* s : n->src()) {
      src.push_back(by.at(s));
      same &= src.back().get() == s;
    }
    ProvenanceScope scope(n->provenance);
    by.emplace(n.get(), same ? Ref(n) : tensor_graph::make(n->op, n->dtype, src, n->arg));
  }
  return by.at(value.get());
}

// Reshapes and permutations merge with what is above them; what they look at does not.
UOp below_reshapes(UOp n) {
  while (n->is(Op::Reshape) || n->is(Op::Permute)) n = n->src(0);
  return n;
}

// The operands are the inputs, then the marked leaves that the value depends on besides.
struct CheckpointRule : GivenRule {
  size_t inputs = 0;
  std::vector<Tensor> gradients(const Tensor& y, std::span<const Tensor> x,
                                const Tensor& g) override {
    const Ref value = node_of(y), upstream = node_of(g);
    Replaced by;
    std::vector<Ref> targets;
    for (size_t i = 0; i < x.size(); ++i) {
      const Ref of = node_of(x[i]);
      targets.push_back(of);
      if (i < inputs) by[of.get()] = targets.back() = again(of, upstream);
    }
    const Ref anew = rebuilt(value->src(0), by);
    std::vector<Tensor> out;
    const std::vector<Ref> found = mote::gradients(anew, targets, upstream);
    for (size_t i = 0; i < x.size(); ++i)
      out.push_back(found[i] ? make_value(found[i], x[i]) : Tensor());
    return out;
  }
};

// The inputs, each once, and the marked leaves that value depends on without passing them.
std::vector<Tensor> checkpoint_operands(UOp value, std::span<const Ref> inputs, size_t& count) {
  std::vector<Tensor> out;
  std::unordered_map<const Node*, bool> known;
  auto add = [&](UOp n) {
    if (known.emplace(n.get(), true).second)
      out.push_back(make_value(Ref(n), n->device ? n->device : kDefaultDevice));
  };
  for (const Ref& in : inputs) add(in);
  count = out.size();
  auto enter = [&](UOp n) {
    return !known.contains(n.get()) && !marked_leaf(n) && (is_float(n->dtype) || n->is(Op::Store));
  };
  for (UOp n : toposort({&value, 1}, enter))
    if (marked_leaf(n)) add(n);
  return out;
}

}  // namespace

Tensor custom_function(const std::vector<Tensor>& inputs, const Forward& forward, Backward backward,
                       Loc where) {
  ProgramCall call("custom_function", where);
  std::vector<Tensor> plain;
  for (const Tensor& t : inputs) plain.push_back(t.detach());
  Tensor value = forward(plain);
  expect_defined(value, "the forward function's result");
  auto* rule = new CustomRule;
  rule->backward = std::move(backward);
  return given(rule_operand(rule, value.impl()->device), value, inputs);
}

void register_hook(Tensor& t, GradientHook hook, Loc where) {
  OuterCall call("register_hook", where);
  expect_defined(t);
  TensorImpl& impl = *t.impl();
  if (impl.marked) return hook_leaf(t, std::move(hook));
  expect(t.requires_grad(), "the tensor depends on no marked leaf, so it gets no gradient");
  auto* rule = new HookRule;
  rule->hooks.push_back(std::move(hook));
  Tensor with = given(rule_operand(rule, impl.device), t, {&t, 1});
  impl.base = {}, impl.chain = {}, impl.strides = {};
  if (impl.storage) set_own(impl, false);
  impl.value = node_of(with);
}

void remove_hooks(Tensor& t) {
  if (t.defined()) t.impl()->hooks = {};
}

Tensor hooked(const Tensor& leaf, Tensor gradient) {
  const Ref held = leaf.impl()->hooks;  // a hook may remove hooks
  return static_cast<const HookRule&>(*held->arg.storage).passed(std::move(gradient));
}

Tensor checkpoint(const Forward& f, const std::vector<Tensor>& inputs, Loc where) {
  ProgramCall call("checkpoint", where);
  std::vector<Ref> nodes;
  std::vector<Tensor> fed;
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect(inputs[i].defined(), "input ", i, " is undefined");
    expect(!shape_of(inputs[i]).symbolic, "input ", i, " has a symbolic size: ", inputs[i]);
    fed.push_back(make_value(node_of(inputs[i]), inputs[i]));
    nodes.emplace_back(below_reshapes(node_of(fed[i])));
  }
  const Tensor value = f(fed);
  expect_defined(value, "the function's result");
  if (!value.requires_grad()) return value;
  auto* rule = new CheckpointRule;
  std::vector<Tensor> operands = checkpoint_operands(node_of(value), nodes, rule->inputs);
  return given(rule_operand(rule, value.impl()->device), value, operands);
}

}  // namespace mote
