// Gradients of one's own: functions with a given derivative, hooks, and activations that are
// computed again in the backward pass instead of kept.
//
// What is given here runs when backward() or gradient() builds the gradients' graph, with tensors
// that are not computed yet: keep them tensors. Reading a value inside computes it then and there,
// and is an error in a captured function (jit.h), which runs this while it is captured.
#pragma once
#include <mote/no_grad.h>
#include <mote/tensor.h>

#include <functional>
#include <vector>

namespace mote {

// What a custom function's backward is told.
struct BackwardCall {
  Tensor gradient;  // of the output
  Tensor output;
  std::vector<Tensor> inputs;
};
// Gradients of the inputs, each in its input's shape; undefined where there is none.
using Backward = std::function<std::vector<Tensor>(const BackwardCall&)>;
using Forward = std::function<Tensor(const std::vector<Tensor>&)>;

// forward(inputs), whose inputs get what backward says; torch.autograd.Function. No gradient flows
// into other tensors that forward uses. Made of tensor functions, backward has derivatives too.
//
//   Tensor y = custom_function({x}, [](auto& in) { return in[0].round(); },
//                              [](const BackwardCall& b) { return std::vector{b.gradient}; });
Tensor custom_function(const std::vector<Tensor>& inputs, const Forward& forward, Backward backward,
                       Loc = MOTE_HERE);

// Calls hook with the gradient that backward() gives t, before it goes on: what it returns takes
// the gradient's place, unless that is undefined. Of a marked leaf: before it is added to grad().
// Hooks are called in the order they were registered, and see every user of t from here on; a view
// that is no leaf becomes a tensor of its own.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;
void register_hook(Tensor& t, GradientHook hook, Loc = MOTE_HERE);
// Of a marked leaf: takes all its hooks away.
void remove_hooks(Tensor& t);

// f(inputs), of which backward() keeps the inputs only: what f computes on the way is computed
// again from copies of the inputs once the gradient of the result is there. Costs time, and saves
// memory. f is called once. Parameters that f uses get their gradients as ever.
//
//   for (Block& block : blocks) x = checkpoint([&](auto& in) { return block(in[0]); }, {x});
Tensor checkpoint(const Forward& f, const std::vector<Tensor>& inputs, Loc = MOTE_HERE);

}  // namespace mote
