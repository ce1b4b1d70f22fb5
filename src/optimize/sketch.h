// A kernel while its actions are chosen: the body so far and what its memory accesses look like.
#pragma once
#include <memory>
#include <unordered_map>

#include "algebra/algebra.h"
#include "base/integers.h"
#include "optimize/apply.h"

namespace mote {

struct Access {
  UOp memory;
  UOp position;  // without its gate
  bool store = false, gated = false;
  uint64_t nest = 0;      // ranges of the reduces it stands in, and of what is around them
  uint64_t moved_by = 0;  // slots of the ranges in the position itself, not in their extents
  uint64_t filled_by = 0;  // slots of the loops that a stage is filled again in
  Linear sum = {};        // the position

  DType dtype() const { return memory->dtype; }
  std::optional<int64_t> stride(UOp range) const { return stride_of(sum, range); }
  // In elements, 0 where it is uneven.
  int64_t step(UOp range) const { return stride(range).value_or(0); }
  bool depends_on(UOp range) const { return ((moved_by | filled_by) & slot_bit(range)) != 0; }
};

// What a body looks like, or one of its nests.
struct Looked {
  Ranges ranges;
  std::vector<UOp> outputs, reduces;  // by slot
  std::vector<Access> accesses;
  UOp sum, sum_stage;  // the only reduce, and where it is staged; empty: none, or several
};

struct Sketch : Looked {  // as of the last look()
  UOp body;
  const Target* target;
  std::vector<Action> actions;
  // Loops that fill stages, as sets of slots; a nest is looked at by itself, as if
  // it were a kernel that stores there. -1: what the outputs are made of.
  std::vector<uint64_t> nests;
  int focus = -1;
  int shared = -1;           // the slot of a loop that was cut for threads
  bool sweeps = false;       // rows are added to all outputs
  std::vector<Action> last;  // what is to be done when threads are chosen

  Sketch(UOp kernel, const Target& on)
      : body(kernel), target(&on), known_(std::make_shared<Known>()) {
    look();
  }
  void look();
  void find_nests();  // every stage with loops of its own
  void look_at(int nest) { focus = nest, look(); }
  bool act(const Action& a);       // and look; false: refused
  bool act_all(std::span<const Action> list);  // no splits; the target runs what comes of it
  void take(const Sketch& trial) { *this = trial; }  // what was tried on a copy of this one
  // The slot of the inner range, -1 where the action was refused.
  int split(int slot, int64_t amount, Role role);
  // An output loop becomes two of which the inner one takes its place among the others.
  bool cut_in_place(int slot, int64_t amount);
  UOp range_of(int slot) const { return ranges.find(slot); }
  int next_slot() const { return ranges.next_slot; }
  static int64_t size(UOp r) { return usual_positions(r); }
  // A loop whose end other loops say is cut into whole pieces only.
  static bool may_cut(UOp r, int64_t piece);

 private:
  // What the copies of one sketch found out: ways to choose loops begin alike.
  struct Known {
    struct Step {
      Action action;
      UOp next;  // empty: refused
    };
    struct Look {
      int focus;
      std::vector<uint64_t> nests;
      Looked seen;
    };
    std::unordered_map<const Node*, std::vector<Step>> steps;  // by body
    std::unordered_map<const Node*, std::vector<Look>> looks;
  };
  std::shared_ptr<Known> known_;

  UOp after(const Action& a);
  void look_anew();
  int nest_of(UOp stage) const;  // -1: it belongs to what is looked at
  UOp root() const;
  void note_accesses(std::span<const UOp> order);
  void note_access(UOp memory, UOp place, bool store, uint64_t nest);
};

// The loops of the only reduce as memory lies, the longest steps outside; ranges that a gate
// depends on before all others, so that these can be skipped; the longest one inside all others if
// asked.
void order_reduces(Sketch& sketch, bool longest_inside);

// A gate on products need not be tried for each of them if a long loop does not change it.
void skip_gates(Sketch& sketch);

// Outputs that the caches do not hold until they are read go past them.
void stream_stores(Sketch& sketch);

// A loop of enough parts for threads, where they do nothing twice.
void share_out(Sketch& sketch);

// Where nothing else is folded than what no cache holds, each element once.
void ask_ahead(Sketch& sketch);

// Of rows that are worked on in several passes the next one is asked for ahead.
void fetch_rows(Sketch& sketch);

}  // namespace mote
