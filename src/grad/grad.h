// Derivatives, graph to graph: a loss and targets in, the graphs of the gradients out. What comes
// out is ordinary graph, so any order of derivative works. Nothing runs and nothing is stored.
//
// A target is a value: every use of an equal node counts, and a reshape or permutation is the same
// value as its source (graphs merge them, so uses of the two cannot be told apart).
// A marked leaf is a Buffer, or an After over it, whose Storage has requires_grad: no walk looks
// below it, whatever was assigned to it.
// A value crosses neither Detach, integers, comparisons nor bit casts. The operands of a Given get
// what its row says (tensor/given.h); what computes its value gets nothing.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "tensor/impl.h"

namespace mote {

// d(sum(seed * loss)) / d(target) for each target, in its shape, dtype and device; an empty Ref for
// a target the loss does not depend on. The seed has the loss's shape and dtype. Visits, once each,
// the nodes between the loss and the targets; needs no stack. A node of a gradient has the
// provenance of the forward node it is the derivative of.
// User error when a value on the way was realized from marked leaves and is not a target itself:
// its graph is gone, and what flows through it would be missing.
std::vector<Ref> gradients(const Ref& loss, std::span<const Ref> targets, const Ref& seed);

// The same for every marked leaf that the loss depends on: (leaf, gradient in the buffer's shape).
// Versions of one Storage come as separate entries.
std::vector<std::pair<Ref, Ref>> leaf_gradients(const Ref& loss, const Ref& seed);

// What a marked leaf's hooks make of its gradient (mote/grad.h).
Tensor hooked(const Tensor& leaf, Tensor gradient);

// The storage of a node that is a version of a marked leaf, otherwise null.
Storage* marked_leaf(UOp node);
// For each node: does it depend on a marked leaf, or on memory that was realized from one? One walk
// over all.
std::vector<bool> depend_on_leaves(std::span<const UOp> nodes);
bool depends_on_leaf(UOp node);

// The table of derivatives (derivatives.cpp), one row per primitive op.
// carries: does source i of node influence the node's value differentiably?
// derivative: what source i gets when node gets `upstream`, in the shape of source i.
bool carries(UOp node, uint32_t i);
Ref derivative(UOp node, const Ref& upstream, uint32_t i);

// The movement ops from base up to view, applied to `memory` of base's shape instead.
Ref seen_through(UOp view, UOp base, const Ref& memory);

}  // namespace mote
