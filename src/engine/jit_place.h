// Where the arguments of one call are in memory, and how the function sees them.
//
// The same happens in every call, whether the function is called or replayed, so that the same
// kernels run: what this thread left pending is finished first, then the arguments. A view of a
// part is copied, because a captured list reads whole buffers, and the function sees the copy in
// its place. The copy is as good as the view until someone writes: then the function sees the view
// again.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/jit_arguments.h"
#include "ir/graph.h"

namespace mote {

// What an argument shows of which memory.
struct ArgumentPlace {
  uint64_t root = 0;  // the id of the storage; 0: undefined
  Ref chain;          // of a view of a part, or in another order
  bool operator==(const ArgumentPlace& o) const { return root == o.root && chain == o.chain; }
};

// By position.
struct PlacedArguments {
  std::vector<Tensor> pieces;      // the tensor that is used: the argument, or a copy of a view
  std::vector<Storage*> storages;  // under it; null: undefined, or a view that is not copied
  std::vector<Storage*> roots;     // under what the argument is or looks at
  std::vector<ArgumentPlace> places;
  std::unordered_map<const Storage*, size_t> first_in;  // the first of those that share a storage
  std::optional<size_t> first_with(const Storage* s) const;
};

// What is realized together runs on one device, and unrelated work must not change how.
void realize_by_device(std::vector<Tensor> tensors);

// Realizes. A view is not copied where gradients flow through it, or its device only holds data.
PlacedArguments place_arguments(const Walked& arguments);
// The tensors that are whole, of those wanted, get memory of their own. No list: all.
void give_own_memory(const Walked& arguments, const std::vector<bool>& wanted,
                     PlacedArguments& placed);

using TensorSet = std::unordered_set<const TensorImpl*>;

// Views that the function sees as tensors of their own.
class ShownViews {
 public:
  ~ShownViews() { restore({}); }
  void show(const Walked& arguments, const PlacedArguments& placed);
  // Before t is written: views of the same memory are views again, and so are those that the
  // function made of them. Whether there were any.
  bool prepare_write(const Tensor& t, const TensorSet& made);
  // At the end all are views again; what the function made of them are copies.
  void restore(const TensorSet& made);

 private:
  struct Shown {
    Tensor view, base;
    Ref chain;
    std::vector<int64_t> strides;
  };
  static void hide(Shown& s);
  std::vector<Shown> shown_;
};

}  // namespace mote
