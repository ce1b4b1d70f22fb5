// What a realization has to store, so that every tensor and every pending graph still means what it
// meant, and what holds of them afterwards.
#pragma once
#include <mote/tensor.h>

#include <span>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace mote {

using StorageSet = std::unordered_set<const Storage*>;

// One thing that will be in memory afterwards.
struct Goal {
  Ref node;       // a value, or an After whose pending writes are to be run
  Ref effect;     // what to schedule
  Ref buffer;     // of a value: the new Buffer
  Tensor tensor;  // who asked; undefined for values kept because others still need them
};

std::vector<UOp> effects_of(std::span<const Goal> goals);

// The version of a buffer that node shows whole and in order: through reshapes, and the cut that
// fits a symbolic shape into its buffer. {} otherwise.
UOp whole_version(UOp node);

// What an effect writes, or what holds the elements that a view of memory shows.
Storage* storage_under(UOp node);

// Of the tensors asked for (undefined ones ask for nothing): what is not in memory yet.
std::vector<Goal> goals_of(std::span<const Tensor> tensors);

// Adds what else must be stored, because writes that the goals run
//   * are done for good: whoever else names a version they leave in memory must find it there, and
//     not write again. A version that another write overwrites is not left in memory: who asked for
//     it gets a copy;
//   * would spoil values that depend on an overwritten version and are still referred to elsewhere.
// Gives the storages without memory that only the goals' graphs know: what is written to them is
// not needed afterwards.
StorageSet complete(std::vector<Goal>& goals);

// Tensors in memory that is their own, about to be written by something that is no graph: goals
// that copy what they hold for whoever else reads it.
std::vector<Goal> copies_for_others(std::span<const Tensor> tensors);
// Does nothing but the tensor itself, which is in memory, name what it holds?
bool is_sole_reader(const TensorImpl& impl);
// After those copies: the tensors name the next version.
void begin_versions(std::span<const Tensor> tensors);

// After the effects have run: nodes and tensors read the buffers from here on. A value known to
// others is realized for them too, and its buffer never written: the tensor gets storage of its own
// when it is (tensor/impl.h). Otherwise the buffer is the tensor's.
void settle(std::vector<Goal>& goals);

}  // namespace mote
