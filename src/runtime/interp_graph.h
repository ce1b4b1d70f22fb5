// The reference interpreter of tensor graphs: every op by itself, on whole arrays in host memory,
// with plain loops. It shares nothing with schedule, optimize and lower, so that it can judge them.
//
// Elementwise ops mean what ir/eval says. A Reduce folds the elements of each result in row-major
// order, starting from the op's identity, rounding to its dtype at every step. A node that was
// realized is read from its Buffer. After(version, Store(view, value)) is the version's content
// with the view's places overwritten in row-major order; nothing is changed in place. Symbolic
// sizes are the values bound to their variables. No recursion; an array lives until its last
// reader has run.
#pragma once
#include <functional>

#include "runtime/host_array.h"

namespace mote {

struct Storage;

struct GraphReader {
  // The content of a storage, at least its count of elements; empty: never written, reads as zeros.
  std::function<std::span<const std::byte>(const Storage&)> bytes_of;
  // Compute and give every float in f64 without rounding to its own dtype, as a measure of error.
  bool floats_as_f64 = false;
};

HostArray interpret(UOp root, const GraphReader& reader);
std::vector<HostArray> interpret(std::span<const UOp> roots, const GraphReader& reader);

}  // namespace mote
