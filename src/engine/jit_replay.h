// A captured function: one list of calls, with what surrounds it.
//
// Made from what a Recorder saw. The buffers of the recorded runs are of five kinds:
//   argument   replaced by position in each replay
//   gradient   that a leaf had when the function was called: whatever it has in a replay
//   state      there before the function ran, or made by it to stay: used in place
//   output     made by the function and returned, or left as a gradient: replaced by other memory
//              while something holds what an earlier replay put there
//   temporary  made by the function and gone, or left behind with the capture's values: planned
//              together with the runs' own temporaries into one arena per device
// A list holds for one situation: which tensors share memory, which leaves have a gradient, what
// modules' switches say, which class the values of variables are of. In another one the function is
// called (misfit).
//
// Memory that an argument has might be known to the function itself as well, and the graph does not
// tell the two apart. So a list holds for the very tensors it was captured with, until it is known
// that the function follows its arguments: because nobody else holds what the argument was, or
// because another call did the same with another argument in its place (Recording).
#pragma once
#include <mote/jit.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/call_list.h"
#include "engine/jit_arguments.h"
#include "engine/jit_place.h"
#include "engine/jit_record.h"

namespace mote {

// A handle that a list holds on a tensor that is not its own. It does not count as somebody's:
// lists of all functions know of each other's.
class KnownTensor {
 public:
  KnownTensor() = default;
  KnownTensor(Tensor t);
  KnownTensor(KnownTensor&& o) noexcept : tensor_(std::move(o.tensor_)) { o.tensor_ = {}; }
  KnownTensor& operator=(KnownTensor&& o) noexcept {
    std::swap(tensor_, o.tensor_);
    return *this;
  }
  ~KnownTensor();
  bool defined() const { return tensor_.defined(); }
  TensorImpl* impl() const { return tensor_.impl(); }
  operator const Tensor&() const { return tensor_; }
  bool held_elsewhere() const;  // by something that may use it

 private:
  Tensor tensor_;
};

// Which of the five a memory is, and the number of the argument, gradient, state or output.
struct MemoryRole {
  enum Kind : uint8_t { Temporary, Argument, Gradient, State, Output } kind = Temporary;
  int index = 0;
  bool operator==(const MemoryRole&) const = default;
};
using MemoryRoles = std::unordered_map<const Storage*, MemoryRole>;  // none: Temporary

// What one call of the function did, and what arguments and gradients were.
struct Recording {
  std::vector<std::shared_ptr<const CompiledPlan>> plans;
  std::vector<uint64_t> uses;  // of arguments and gradients by position, of other memory by its id
  std::vector<ArgumentPlace> places;  // of the arguments, then of the gradients
  bool does_the_same(const Recording& o) const { return plans == o.plans && uses == o.uses; }
};
Recording recording_of(const Recorder& recorder, const Walked& arguments,
                       const PlacedArguments& placed, const Walked& results);

// What of a captured function there is besides its runs.
struct Situation {
  Recording recording;
  std::vector<SeenSwitch> switches;
  std::vector<KnownTensor> graphs;  // that were pending
  uint64_t plain_switches;          // plain_switches() then
  DType autocast;                   // autocast_dtype()
  bool grad_enabled;                // is_grad_enabled()
  bool pinned;                      // the list holds for its own arguments only
};

// Why a list does not hold.
struct Misfit {
  std::string why;
  bool unproven = false;  // it is not known whether the function follows its arguments
};

class Replayable {
 public:
  // After the function has run and all it leaves is realized. A User error when a replay could not
  // do the same: a variable bound inside, values from the host.
  Replayable(const Recorder& recorder, const VarValues& values, const Walked& arguments,
             const PlacedArguments& placed, const Walked& results, Situation situation);
  // A User error when a state tensor is held by nothing but this: another was put in its place.
  // Holds in every replay, and from when the recorder is gone.
  void check_held() const;

  struct Results {
    std::vector<Tensor> tensors;
    std::vector<Sym> symbols;
  };
  // A list that does not hold changes nothing.
  std::optional<Misfit> misfit(const VarValues& values, const Walked& arguments,
                               const PlacedArguments& placed);
  // Another call is known. Whether it did the same: then the function follows those of its
  // arguments that were others.
  bool compare(const Recording& other);
  const Recording& recording() const { return situation_.recording; }
  // The list holds.
  Results replay(const VarValues& values, const Walked& arguments, PlacedArguments& placed);
  std::vector<JitState> state(const std::vector<NamedTensor>& names) const;

 private:
  struct State {
    StorageRef storage;
    KnownTensor owner;  // undefined: no tensor's own, so that nothing writes it
    uint32_t left;      // Storage::left in the capture
    bool marked;        // Storage::requires_grad in the capture
    bool written = false, read_first = false;
  };
  struct Output {
    std::vector<StorageRef> pool;  // that earlier replays wrote, and at first the capture
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
      Value,  // one made of a memory
      View    // or of another item
    } kind;
    int index = 0;  // of the argument, gradient or state; of a view: the item under it
    MemoryRole memory = {};
    Ref form = {};  // movement over a placeholder
    bool symbolic = false, own = false;
    std::vector<int64_t> strides = {};
  };
  struct Gradient {
    KnownTensor leaf;  // undefined: an argument, or the tensor under it
    int argument;      // which
    EffectListener::Use first;
    bool was_there, stays;  // stays: it is the same tensor afterwards
    int given = -1;         // the argument whose memory the gradient had
    int item = -1;          // otherwise what the leaf has afterwards; -1: none
    bool used = false;      // the gradient that was there, by the list
    bool written = false;
  };
  // An index that lies in an argument's or a state's memory, and one that a kernel looks at.
  struct KnownIndex {
    HostCheck check;
    MemoryRole memory;
  };
  struct ComputedIndex {
    DeviceCheck check;
    int output;
  };
  friend class ReplayBuilder;  // jit_build.cpp

  TensorImpl& leaf_of(const Gradient& g, const Walked& arguments) const;
  Storage& storage_of(MemoryRole memory, const PlacedArguments& placed) const;  // in a replay
  bool is_written(MemoryRole memory) const;
  bool is_state(const Storage* s) const { return state_of_.count(s) != 0; }
  // Why a list does not hold, one reason each: jit_fit.cpp.
  std::string changed_class(const VarValues& values) const;
  std::string changed_switch(const Walked& arguments) const;
  std::string changed_aliases(const Walked& arguments, const PlacedArguments& placed) const;
  std::string changed_gradient(const Walked& arguments, const PlacedArguments& placed) const;
  std::string changed_state() const;
  std::string written_view(const Walked& arguments, const PlacedArguments& placed) const;
  bool follows(size_t position);
  void place_gradients(const Walked& arguments, std::vector<Tensor>& written);
  void check_parts(const VarValues& values) const;
  void check_known_indices(const PlacedArguments& placed) const;
  void watch_computed_indices(const VarValues& values) const;
  void finish_state();
  void prepare_writes(std::vector<Tensor> written);
  void choose_outputs();
  void run(const PlacedArguments& placed);
  void take_values(const VarValues& values);
  Tensor make_item(const Item& item, const Walked& arguments, const PlacedArguments& placed) const;
  Results make_results(const Walked& arguments, const PlacedArguments& placed);

  Situation situation_;
  SizeClasses classes_;
  std::vector<std::pair<std::string, bool>> argument_switches_;
  std::vector<KnownTensor> was_;  // arguments, then gradients, of the capture; undefined: followed
  std::vector<size_t> same_as_;   // by argument: the first with the same memory
  std::vector<bool> argument_written_;
  std::vector<State> states_;  // in the order of first use
  std::unordered_map<const Storage*, int> state_of_;
  std::vector<Output> outputs_;
  std::vector<Item> items_;   // what a view looks at stands before it
  std::vector<int> results_;  // items
  VarValues values_;          // of the latest replay, which list, items and symbols have
  std::vector<Ref> symbols_;
  std::vector<Gradient> gradients_;
  std::vector<SymbolicPart> parts_;
  std::vector<KnownIndex> known_indices_;
  std::vector<ComputedIndex> computed_indices_;
  std::vector<MemoryRole> params_;  // of the list
  std::unique_ptr<CallList> list_;

  std::vector<Tensor> gradients_now_;  // those that are there, in a replay
  std::vector<Storage*> chosen_;       // by output, in a replay
  std::vector<Tensor> made_;           // by item, in a replay
};

}  // namespace mote
