// The plan: a graph of kernels on memory, which passes change and the engine runs.
//
//   plan      := Linear(statement, ...)
//   statement := Call(body, place, ...)     run the kernel on these places; [provenance...]
//              | Call(Source, place, ...)   run the program: it writes the first place
//              | Copy(to, from, bytes)      between the memories of two devices
//              | Range(n)                   the statements up to its End, for each position
//              | End(range)
//   place     := memory                     all of it
//              | Index(memory, position)    from there on, in its elements; may depend on Ranges
//   memory    := Param(slot, size, global, device)     the caller's buffer of that slot
//              | Param(slot, size, local, device)      a temporary of the plan
//
// A body is Sink(End(Store(Index(Param, position), value), ranges...), ...) over its own ranges and
// its own Params (device 0): effect i writes Param i, those that are only read follow. Both are
// numbered by how they are used, so that equal kernels are equal nodes, and what is found out about
// one or made of it holds for all. No movement op, After or tensor-level Reduce is left; positions
// may be gated (where(valid, position, Invalid)).
// A kernel runs on the device of the memory that it writes. The same statement may come twice.
#pragma once
#include <functional>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <vector>

#include "ir/build.h"
#include "ir/size_sum.h"
#include "ir/target.h"
#include "schedule/by_words.h"

namespace mote {

// ---- statements

constexpr size_t kMaxPlaces = 8;  // of the user's program that a Call names
UOp call(UOp body, std::span<const UOp> places, std::span<const uint32_t> provenance);
UOp copy(UOp to, UOp from);  // memories of the same size
UOp linear(std::span<const UOp> statements);

inline bool is_step(UOp statement) { return statement->is(Op::Call) || statement->is(Op::Copy); }
inline std::span<Node* const> places_of(UOp step) {
  return step->is(Op::Call) ? step->src().subspan(1) : step->src().first(2);
}
// A Call of an expression. Other Calls run a program, which writes its first place.
inline bool is_kernel(UOp step) { return step->is(Op::Call) && step->src(0)->is(Op::Sink); }
// How many of its places it writes: the first ones.
inline uint32_t written_by(UOp step) { return is_kernel(step) ? step->src(0)->nsrc : 1; }
inline UOp memory_of(UOp place) { return place->is(Op::Index) ? place->src(0) : place; }
inline int slot_of(UOp memory) { return static_cast<int>(memory->ints(0)); }
inline int64_t count_of(UOp memory) { return memory->ints(1); }
inline int64_t bytes_of(UOp memory) { return size_bytes(count_of(memory), memory->dtype); }
inline bool is_temporary(UOp memory) { return static_cast<Space>(memory->ints(2)) == Space::Local; }
std::vector<uint32_t> provenance_of(UOp call);

// Every memory of the plan once, in the order of first use.
std::vector<UOp> memories_of(UOp plan);
int64_t temporary_bytes(UOp plan);

// ---- kernels

// Loops that fusion gives one kernel at most. A set of slots has 64; actions need the others.
constexpr int kFusedLoops = 32;

// Of a memory: from begin to before end.
struct Elements {
  int64_t begin = 0, end = 0;
};

// What the expressions of a kernel say. Memory is named by the slot of the Param.
struct KernelFacts {
  struct Read {
    int slot;
    UOp position;
  };
  std::vector<Read> reads;
  // In sums that reuse what they load, such as matrix products; what does not change within the sum
  // is not used again in it.
  double products = 0;
  double across = 0;              // bytes of the largest memory that a fold reads across
  std::vector<bool> is_read;      // by slot
  std::vector<Elements> written;  // by effect: no others are
  std::vector<UOp> outputs;       // the loops of its effects
  std::vector<UOp> inner;         // the others, as they end in program order
  uint64_t nested = 0;            // slots of those that stand inside another of them
  int ops = 0;                    // of the values
  size_t staged = 0;              // values, each in memory of its own
  bool is_heavy() const { return products > 0; }
};
class Facts {
 public:
  const KernelFacts& of(UOp body);
  bool reads(UOp step, uint32_t place);

 private:
  std::unordered_map<const Node*, KernelFacts> known_;
};

// Kernels with their final numbers: Params and loops of the effects first, the others canonically.
class Bodies {
 public:
  // `body` has any numbers; `places` by its slots.
  UOp call(UOp body, std::span<const UOp> places, std::span<const uint32_t> provenance);

 private:
  struct Body {
    UOp sink;
    std::vector<int> slots;  // that its Params had
  };
  static Body numbered(UOp given);
  std::unordered_map<const Node*, Body> known_;
};

// The Params and Ranges below the roots, in an order that depends on how they are used but not on
// their numbers; `numbered` are those that have their final numbers already.
std::vector<UOp> canonical_leaves(std::span<const UOp> roots, std::span<const UOp> numbered);

// ---- order

// Two of a list, the later of which must wait for the earlier.
struct Edge {
  int later, earlier;
};

// By the memory that the steps use. The steps stand in an order that is right.
std::vector<Edge> dependences(std::span<const UOp> steps, Facts& facts);

// An order of 0..n-1 that the edges allow: of those that may come next, the one that ranks highest.
// Shorter than n where edges form a circle.
std::vector<int> sorted(size_t n, std::span<const Edge> edges,
                        const std::function<int64_t(int)>& rank);

// ---- passes

// The plan with each run of steps between loops changed by f, which gives others in their place.
using StepsFunction = std::function<std::vector<UOp>(std::vector<UOp> steps)>;
UOp map_steps(UOp plan, const StepsFunction& f);
// The step on other places.
UOp with_places(UOp step, const std::function<UOp(UOp place)>& f);

// Folds of what is equal to a position, of what comes before it, and counts of equal keys become
// writes in order (scatter.h).
UOp write_in_order(UOp plan, const Targets& targets);
// Kernels with the same loops that read the same memory, and need not wait for each other, are one.
UOp merge_siblings(UOp plan, const Targets& targets);
// Those that end the lives of temporaries come early.
UOp arrange(UOp plan, const Targets& targets);
// Loops that read from one place after another become kernels that read straight, one for each.
UOp cut_to_pieces(UOp plan, const Targets& targets);
// Where more threads need it and it costs little, a sum becomes a kernel of partial sums and one
// that folds them.
UOp partial_sums(UOp plan, const Targets& targets);

}  // namespace mote
