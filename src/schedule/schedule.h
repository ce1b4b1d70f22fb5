// From a graph of effects to an ordered list of kernels and copies.
//
// Takes: a Sink of effects in the current arena whose leaves are Params (numbered buffers), Vars
// and constants: Store(view of a buffer version, value) and After(buffer version, stores...). A
// Param in local space is nobody's: it is written here, and not needed afterwards.
// Gives: a Plan. Each kernel is a body
//     Sink(End(Store(Index(Param, position), value), ranges...), ...)
// over its own ranges (slots from 0) and its own Params (slots by first use), so that equal kernels
// are equal nodes. No movement op, After or tensor-level Reduce is left; positions may be gated
// (where(valid, position, Invalid)).
// Guarantees: every effect asked for happens; a read of a buffer version sees exactly that version;
// a value that is stored is computed once; the bounds of the target on kernel size and on buffers
// per kernel hold.
//
// The passes, in order:
//   two_step_reduce (two_step_reduce.cpp)  much into little becomes two reduces
//   bound_kernels   (bounds.cpp)           where a fused expression would outgrow the target
//   assign_ranges   (ranges.cpp)           consumers first: who is evaluated where
//                   (choices.cpp)          store, stage or recompute
//   build_kernels   (kernels.cpp)          scalar expressions, several outputs, siblings merged
//   order_kernels   (order.cpp)            read-after-write and write-after-read by buffer versions
//                   (partial_sums.cpp)     of sums that threads cannot share out
//                   (bodies.cpp)           numbers that equal kernels have in common
//   plan_memory     (memory.cpp)           temporaries into one arena per device
#pragma once
#include <map>
#include <vector>

#include "ir/build.h"
#include "ir/size_sum.h"
#include "ir/target.h"

namespace mote {

struct PlannedBuffer {
  DType dtype = DType::none;
  int64_t count = 0;
  uint8_t device = 0;
  int param = -1;        // slot of the caller's buffer; -1: a temporary
  int64_t offset = -1;   // of a temporary: bytes into the arena
  int64_t bytes() const { return size_bytes(count, dtype); }
};

// Of a buffer: from begin to before end.
struct Elements {
  int64_t begin = 0, end = 0;
};

struct Step {
  UOp body;                   // of a kernel; empty: copy buffers[1] to buffers[0]
  std::vector<int> buffers;   // by Param slot: ids into Plan::buffers; written ones first
  int outputs = 0;            // how many of them are written
  std::vector<Elements> written;  // by output: no others are
  uint8_t device = 0;
  std::vector<uint32_t> provenance;  // calls that went into it, at most kMaxPlaces
  static constexpr size_t kMaxPlaces = 8;
};

struct Plan {
  std::vector<Step> steps;
  std::vector<PlannedBuffer> buffers;  // the caller's Params first, by slot
  std::map<uint8_t, int64_t> arenas;   // bytes of temporaries per device, after planning
  int64_t unplanned_bytes = 0;         // the sum of all temporaries
  int64_t arena_bytes() const;         // of all devices
};

Plan schedule(UOp sink, const Target& target);

// Assigns offsets so that temporaries with disjoint lifetimes share memory. One that is written in
// parts lives part by part: what is not written yet is free for others.
void plan_memory(Plan& plan);

// Estimated work of a kernel body: floating and integer operations, bytes of distinct elements.
struct Estimate {
  double ops = 0, bytes = 0;
};
Estimate estimate(UOp body);

}  // namespace mote
