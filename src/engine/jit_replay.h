// A captured function: one list of calls, with what surrounds it.
//
// Made from what a Recorder saw. The buffers of the recorded runs are of five kinds:
//   argument   replaced by position in each replay
//   gradient   that a leaf had when the function was called: whatever it has in a replay; where
//              backward added to it, one that it no longer has counts as 0
//   state      there before the function ran, or made by it to stay: used in place
//   output     made by the function and returned, or left as a gradient: replaced by other memory
//              while something holds what an earlier replay put there
//   temporary  made by the function and gone, or left behind with the capture's values: planned
//              together with the runs' own temporaries into one arena per device
#pragma once
#include <mote/jit.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/call_list.h"
#include "engine/jit_arguments.h"
#include "engine/jit_record.h"

namespace mote {

// Where the arguments of one call are in memory.
struct PlacedArguments {
  std::vector<Tensor> pieces;      // by position: the tensor that is used, a copy of some views
  std::vector<Storage*> storages;  // null: undefined
};
// Realizes. give_own: the argument will be written, in memory of its own.
PlacedArguments place_arguments(const Walked& arguments, const std::vector<bool>& give_own);

class Replayable {
 public:
  // After the function has run and all it leaves is realized. A User error when a replay could not
  // do the same: a variable bound inside, values from the host.
  Replayable(const Recorder& recorder, const Values& values, const Walked& arguments,
             const PlacedArguments& placed, const Walked& results);
  // A User error when a state tensor is held by nothing but this: another was put in its place.
  // Holds in every replay, and from when the recorder is gone.
  void check_held() const;

  struct Results {
    std::vector<Tensor> tensors;
    std::vector<Sym> symbols;
  };
  Results replay(const ArgumentSpecs& specs, const Walked& arguments);
  std::vector<JitState> state(const std::vector<NamedTensor>& names) const;

 private:
  struct State {
    StorageRef storage;
    Tensor owner;   // undefined: no tensor's own, so that nothing writes it
    uint32_t left;  // Storage::left in the capture
    bool written = false, read_first = false;
  };
  struct Output {
    std::vector<StorageRef> pool;  // that earlier replays wrote, and at first the capture
    int param;
    bool from_graph;
  };
  // How a replay makes one tensor.
  struct Item {
    enum Kind {
      Undefined,
      Given,
      GivenRoot,
      GivenGradient,
      Owned,  // a tensor that is there
      OfArgument,
      OfGradient,
      OfState,
      OfOutput,
      View  // one made of memory, or of another item
    } kind;
    int index = 0;  // of the argument, gradient, state or output; of a view: the item under it
    Ref form = {};  // movement over a placeholder
    bool symbolic = false, own = false;
    std::vector<int64_t> strides = {};
  };
  struct Gradient {
    Tensor leaf;
    EffectListener::Use first;
    bool was_there, stays;  // stays: it is the same tensor afterwards
    int item = -1;          // otherwise what the leaf has afterwards; -1: none
    int param = -1;         // of the gradient that was there
    bool written = false;
    StorageRef zeros = {};  // memory for one that is gone
  };
  // An index that lies in an argument's or a state's memory, and one that a kernel looks at.
  struct KnownIndex {
    HostCheck check;
    int argument;  // -1: the check's own storage
  };
  struct ComputedIndex {
    DeviceCheck check;
    int output;
  };
  friend class ReplayBuilder;  // jit_build.cpp

  void check_gradients() const;
  void check_parts(const Values& values) const;
  void check_known_indices(const std::vector<Storage*>& storages) const;
  void watch_computed_indices(const Values& values) const;
  void replace_missing_gradients();
  void place_gradients(std::vector<Tensor>& written);
  void check_own_tensors(const Walked& arguments, const std::vector<Storage*>& storages) const;
  void run_pending_writes();
  void prepare_writes(std::vector<Tensor> written);
  void choose_outputs();
  Tensor make_item(const Item& item, const Walked& arguments, const PlacedArguments& placed,
                   const Values& values) const;
  Results make_results(const Walked& arguments, const PlacedArguments& placed,
                       const Values& values);

  std::vector<int> argument_params_;  // -1: not used, or the memory of an earlier one
  std::vector<bool> argument_written_;
  std::vector<State> states_;  // in the order of first use
  std::unordered_map<const Storage*, int> state_of_;
  std::vector<Output> outputs_;
  std::vector<Item> items_;   // what a view looks at stands before it
  std::vector<int> results_;  // items
  std::vector<Ref> symbols_;
  std::vector<Gradient> gradients_;
  std::vector<SymbolicPart> parts_;
  std::vector<KnownIndex> known_indices_;
  std::vector<ComputedIndex> computed_indices_;
  std::unique_ptr<CallList> list_;

  std::vector<Tensor> gradients_now_;  // those that are there, in a replay
  std::vector<Storage*> chosen_;       // by output, in a replay
  std::vector<Tensor> made_;           // by item, in a replay
};

}  // namespace mote
