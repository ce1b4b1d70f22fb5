// Custom gradients: functions with a derivative of your own, hooks, and activation checkpointing.
//
// The functions that you pass here run when backward() or gradient() builds the graph of the
// gradients. Their tensors are not computed yet: keep them tensors. Reading a value inside computes
// it then and there, and is an error in a captured function (jit.h), which runs them during the
// capture.
#pragma once
#include <mote/no_grad.h>
#include <mote/tensor.h>

#include <functional>
#include <vector>

namespace mote {

// What the backward of a custom function receives.
struct BackwardCall {
  Tensor gradient;  // of the output
  Tensor output;
  std::vector<Tensor> inputs;
};
// Returns the gradients of the inputs, each in its input's shape; undefined for none.
using Backward = std::function<std::vector<Tensor>(const BackwardCall&)>;
using Forward = std::function<Tensor(const std::vector<Tensor>&)>;

// forward(inputs), with the gradients that backward returns: torch.autograd.Function. No gradient
// flows into other tensors that forward uses. If backward consists of tensor functions, it can be
// differentiated in turn.
//
//   Tensor y = custom_function({x}, [](auto& in) { return in[0].round(); },
//                              [](const BackwardCall& b) { return std::vector{b.gradient}; });
Tensor custom_function(const std::vector<Tensor>& inputs, const Forward& forward, Backward backward,
                       Loc = MOTE_HERE);

// Calls hook with the gradient of t, before it flows on. If the hook returns a defined tensor, it
// replaces the gradient. For a leaf, the hook runs before the gradient is added to grad(). Hooks
// run in the order of registration and apply to uses of t from here on; a view that is not a leaf
// becomes a tensor of its own.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;
void register_hook(Tensor& t, GradientHook hook, Loc = MOTE_HERE);
// Removes all hooks of a leaf.
void remove_hooks(Tensor& t);

// f(inputs), with less memory: backward() keeps only the inputs, and computes everything inside f
// again from copies of them. It costs the time of one more forward pass. f is called once.
// Parameters that f uses get their gradients as usual.
//
//   for (Block& block : blocks) x = checkpoint([&](auto& in) { return block(in[0]); }, {x});
Tensor checkpoint(const Forward& f, const std::vector<Tensor>& inputs, Loc = MOTE_HERE);

}  // namespace mote
