// From a graph of effects to a plan: kernels and copies, one after the other.
//
// Takes: a Sink of effects in the current arena whose leaves are Params (numbered buffers), Vars
// and constants: Store(view of a buffer version, value) and After(buffer version, stores...). A
// Param in local space is nobody's: it is written here, and not needed afterwards.
// Gives: a plan (schedule/plan.h), a graph like those of all other stages.
// Guarantees: every effect asked for happens; a read of a buffer version sees exactly that version;
// a value that is stored is computed once; the bounds of each device's target on kernel size and on
// buffers per kernel hold.
//
// From tensors to kernels:
//   split_reduces   (split_reduces.cpp)    products apart; much into little in two steps
//   bound_kernels   (bounds.cpp)           where a fused expression would outgrow the target
//   assign_ranges   (ranges.cpp)           consumers first: who is evaluated where
//                   (choices.cpp)          store, stage or recompute
//   build_kernels   (kernels.cpp)          scalar expressions
//   order_kernels   (order.cpp)            the first plan, by the versions of buffers
// Then passes over the plan, which the table in schedule.cpp gives in order.
#pragma once
#include "ir/build.h"
#include "ir/target.h"

namespace mote {

// Temporaries have memory of their own: plan_memory has yet to run.
UOp schedule(UOp sink, const Targets& targets);

// The passes over a plan, as schedule runs them: for one made otherwise.
UOp improve(UOp plan, const Targets& targets);

// Temporaries become slices of one arena per device; those with disjoint lifetimes share memory.
// One that is written in parts lives part by part: what is not written yet is free for others.
UOp plan_memory(UOp plan);

// Estimated work of a kernel body: floating and integer operations, bytes of distinct elements.
struct Estimate {
  double ops = 0, bytes = 0;
};
Estimate estimate(UOp body);

}  // namespace mote
