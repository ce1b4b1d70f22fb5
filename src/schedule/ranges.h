// What assign_ranges finds out about every tensor-level node, read by build_kernels.
#pragma once
#include <deque>
#include <memory>
#include <memory_resource>
#include <set>
#include <span>
#include <vector>

#include "base/large_pages.h"
#include "schedule/by_words.h"
#include "schedule/plan.h"

namespace mote {

// Lists that live as long as this.
class Lists {
 public:
  template <class T>
  std::span<const T> keep(const std::vector<T>& list) {
    auto* kept = static_cast<T*>(memory_->allocate(list.size() * sizeof(T), alignof(T)));
    std::uninitialized_copy(list.begin(), list.end(), kept);
    return {kept, list.size()};
  }
  // A list of T(memory): what they allocate there goes with this, without a destructor.
  template <class T>
  std::span<T> make(size_t size) {
    auto* made = static_cast<T*>(memory_->allocate(size * sizeof(T), alignof(T)));
    for (size_t i = 0; i < size; ++i) new (made + i) T(memory_.get());
    return {made, size};
  }

 private:
  using Memory = std::pmr::monotonic_buffer_resource;
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>(size_t{64} << 10, large_pages());
};

// Where elements are: one index expression per axis.
class Positions {
 public:
  // Of a movement node's source, for those of the node; `valid` is narrowed by Pad.
  std::vector<UOp> through(UOp movement, std::span<const UOp> position, UOp* valid);
  UOp flatten(std::span<const UOp> position, std::span<const Dim> dims);
  // In memory, which has room for the largest sizes: steps through it are numbers.
  UOp place(std::span<const UOp> position, const Shape& shape);
  std::vector<UOp> unflatten(UOp flat, std::span<const Dim> dims);

 private:
  std::vector<UOp> through_reshape(UOp reshape, std::span<const UOp> position);
  void remember(std::span<const Dim> dims);

  ByWords<UOp> flattened_;
  ByWords<std::vector<UOp>> unflattened_;
  std::vector<uint64_t> words_;  // what is asked, kept warm
};

// "Evaluate this node at these positions inside that kernel." Lists are the Draft's: most requests
// share theirs with the one above.
struct Request {
  int kernel = -1;
  uint32_t place = 0;            // who made the value; 0: nobody that is known
  std::span<const UOp> position; // one index expression per axis
  UOp valid;                     // bool; where false the value is not used
  uint64_t scope = 0;            // slots of the loops around the evaluation
  Op folded_by = Op::Sink;       // the reduce this value flows into through movement only; or Sink
  uint32_t other = 0;            // where there are many: the same kernel's one before, plus one
  std::span<const uint32_t> below;  // per source: the request made of it
  std::span<const UOp> ranges;   // of a Reduce: its own ranges
  UOp value;                     // the scalar expression, once built
};

// A place in memory that holds a value or a version of the caller's buffer.
struct Holder {
  int buffer = -1;   // slot of the memory
  UOp version;       // the Store that made its content; empty: as the caller gave it
  bool operator==(const Holder& o) const { return buffer == o.buffer && version == o.version; }
};

struct Entry {
  explicit Entry(std::pmr::memory_resource* memory) : requests(memory), stores(memory) {}
  std::pmr::vector<Request> requests;
  std::pmr::vector<UOp> stores;  // full Stores of this value
  bool stored = false;
  uint32_t own = 0;          // when stored or staged: the request that computes it
  uint64_t staged = 0;       // when not 0: axes that its only kernel stages as a whole
  UOp stage;                 // that memory, once built
  Holder holder;             // when stored or a leaf: where readers find it
};

// One write of a kernel.
struct Output {
  UOp node;             // the value: its request number `request`
  uint32_t request = 0;
  UOp position;         // flat, in the buffer
  uint64_t slots = 0;   // the loops the write stands in
  int buffer = -1;
  UOp store;            // the Store it performs; empty for temporaries
  UOp before;           // the version of the buffer it overwrites (a Store or empty)
  UOp value;            // once built
  Holder holder() const { return {buffer, store}; }
};

// A holder that a kernel reads or overwrites, and what stands for it in the kernel's expressions.
// Params are numbered per kernel, like loops: the same computation on other memory, such as the
// next layer's, is the same nodes.
struct Argument {
  int holder = -1;  // id in Holders
  UOp param;
};

struct KernelDraft {
  std::vector<UOp> ranges;        // output ranges, slot order
  int next_slot = 0;
  std::vector<int64_t> extents;   // by slot
  uint64_t reduce_slots = 0;
  bool is_tiled = false;          // the loops are to be chosen for one fold
  std::vector<uint32_t> reads;    // nodes it may have to read from memory, by id, sorted
  size_t writes = 0;              // buffers it writes
  int size = 0;                   // ops it has at most
  size_t staged = 0;              // values, each in a memory of its own
  bool scatters = false;          // it will be writes in order, and nothing else
  std::vector<Output> outputs;
  std::set<int> after;            // kernels whose results it reads
  std::vector<Argument> arguments;   // by slot, once built
  UOp body;                          // over them, once asked for
  std::vector<uint32_t> provenance;  // calls that went into it, at most kMaxPlaces
  UOp whole;                      // Copy or Source: makes outputs[0] from whole sources
  std::vector<Holder> sources;    // of `whole`
  uint8_t device = 0;
  bool only_constants = false;    // all that provenance names are constants
  void add_provenance(uint32_t place, bool is_constant);
};

// Holders, numbered as they are first asked for.
class Holders {
 public:
  int id(const Holder& h);
  const Holder& operator[](int id) const { return list_[static_cast<size_t>(id)].holder; }

 private:
  struct Known {
    Holder holder;
    int other;               // of the same buffer, known before; -1: none
  };
  std::vector<Known> list_;
  std::vector<int> latest_;  // by buffer
};

struct Draft {
  Lists lists;
  Positions positions;
  std::vector<UOp> order;              // sources first
  std::span<Entry> entries;            // by node id, in lists
  std::deque<KernelDraft> kernels;      // stay where they are
  std::vector<UOp> memories;           // of the plan, by slot
  Holders holders;
  Entry& at(UOp n) { return entries[n->id]; }
  UOp memory(const Holder& h) const { return memories[static_cast<size_t>(h.buffer)]; }
  int add_temporary(DType dtype, int64_t count, uint8_t device);  // its slot
  // The argument of k that stands for h, added if k has none.
  UOp argument(KernelDraft& k, const Holder& h);
};

// A Reduce of more elements than this into one folds much: its result is as good as always stored.
constexpr int kMuch = 16;

UOp split_reduces(UOp sink, const Targets& targets);
constexpr int kEndless = 1 << 20;
// Per node id. A value that is stored anyway counts as one buffer for those who use it.
struct Bounds {
  std::vector<bool> forced;  // to be stored by a kernel of its own so that the target's bounds hold
  std::vector<bool> stored;  // a Store wants it as a whole, or it is Contiguous
  // Of a Reduce that becomes writes in order (scatter.h): those axes of its result.
  std::vector<uint64_t> scattered;
  std::vector<bool> scatters;  // such a Reduce, or what only moves the elements of one
  // What a kernel that evaluates the node reads from memory at most: node ids, sorted.
  std::vector<std::span<const uint32_t>> reads;
  std::vector<int> size;     // ops of such a kernel at most, up to kEndless
  Lists lists;               // those of `reads`
};
Bounds bound_kernels(std::span<const UOp> order, const Targets& targets);
Draft assign_ranges(UOp sink, const Targets& targets);

void build_kernels(Draft& draft);

// The kernels as a plan, in an order that respects buffer versions; a version that is still read
// after it was overwritten is copied before.
UOp order_kernels(Draft draft);

UOp under_movement(UOp n);
// The buffer under a movement chain, and whether the chain is only reshapes of the whole of it.
struct Under {
  UOp leaf;            // Param or After; empty if something else is there
  bool whole = false;
};
Under under(UOp node);
// Whether it is a buffer or movement of one.
bool is_leaf(UOp value);
// A copy between devices, or a program: no kernel of ours. Its sources are in memory.
inline bool takes_all(UOp value) { return value->is(Op::Copy) || value->is(Op::Source); }
// The reduce whose fold a reduce continues: the two become one loop nest. Empty: none.
UOp continued(UOp reduce);
// Whether it is a cast to a longer dtype: what is below is the cheaper one to store.
bool widens(UOp n);

// The extent of a loop over an axis, as it stands in everything that is simplified afterwards.
UOp loop_extent(const Dim& d);
// Whether all who use the value that a Store writes can find it in the buffer.
bool keeps_value(UOp store);

}  // namespace mote
