// The node: one immutable, hash-consed record for every level of the program.
//
// A node is (op, dtype, sources, argument); two nodes of one graph with equal parts are the same
// node, so equality is pointer equality. Everything else in it is derived from those parts when it
// is made (shape, interval, open ranges, structural hash) or stands outside identity (provenance,
// counts, the buffer it was realized to).
//
// Nodes live in one of two kinds of graph (graph.h):
//   * the tensor graph: one per process, shared by all threads, counted; held through `Ref`.
//   * an Arena: one per worker, no locks and no counts, reset after each piece of work; `UOp`.
// A `UOp` is a plain word and keeps nothing alive: it is for arenas and for walking what a Ref
// holds.
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "ir/ops.h"

namespace mote {

struct Node;
struct Storage;  // opaque memory handle, counted; implemented in runtime/

// An interned list of integers with an optional string; never freed, shared by all graphs.
struct ArgObject {
  uint64_t hash;
  std::vector<int64_t> ints;
  std::string str;
};
const ArgObject* intern_arg(std::span<const int64_t> ints, std::string_view str = {});

// The argument of a node; which member counts is said by the op's row.
union Arg {
  int64_t i = 0;
  double f;
  const ArgObject* object;
  Storage* storage;
  static Arg of(int64_t v) { Arg a; a.i = v; return a; }
  static Arg of(double v) { Arg a; a.f = v; return a; }
  static Arg of(const ArgObject* o) { Arg a; a.object = o; return a; }
  static Arg of(Storage* s) { Arg a; a.storage = s; return a; }
};

// In a movement op's list: "the size is the next extra source".
constexpr int64_t kSymbolic = std::numeric_limits<int64_t>::min();

class UOp {
 public:
  constexpr UOp() = default;
  constexpr UOp(const Node* node) : node_(const_cast<Node*>(node)) {}
  const Node* operator->() const { return node_; }
  const Node& operator*() const { return *node_; }
  Node* get() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const UOp& o) const { return node_ == o.node_; }

 private:
  Node* node_ = nullptr;
};

// One axis: a number, or a symbolic index expression of the same graph with 1 <= value <= its hi.
struct Dim {
  int64_t size = 0;  // the upper bound when symbolic
  UOp symbol;
  Dim() = default;
  Dim(int64_t n) : size(n) {}
  explicit Dim(UOp expression);
  bool is_symbolic() const { return static_cast<bool>(symbol); }
  bool operator==(const Dim& o) const { return size == o.size && symbol == o.symbol; }
};

struct Shape {
  uint64_t hash;
  std::vector<Dim> dims;
  bool symbolic;
  int rank() const { return static_cast<int>(dims.size()); }
  const Dim& operator[](int i) const { return dims[static_cast<size_t>(i)]; }
  int64_t count() const;  // elements; the upper bound when symbolic
  std::vector<int64_t> sizes() const;
};
void append(std::string& out, const Dim& d);
void append(std::string& out, const Shape& s);

struct Node {
  uint64_t hash;             // structural, creation-independent
  Op op;
  DType dtype;
  uint8_t device;            // id of an interned device list; 0: any
  uint8_t flags;
  uint32_t nsrc;
  Arg arg;
  int64_t lo, hi;            // interval of integers (saturated); INT64_MIN/MAX otherwise
  uint64_t ranges;           // bit s: depends on the open range of slot s
  const Shape* shape;        // null for effects
  uint32_t id;               // dense within its graph, for side columns
  uint32_t provenance;       // outside identity: who made it first (ir/provenance.h)
  mutable std::atomic<uint32_t> refs;   // tensor graph only
  uint32_t stamps;           // rule sets for which this node is a normal form
  mutable std::atomic<Node*> realized;  // tensor graph only: the Buffer that holds this value now
  Node* next;                // intern table chain
  Node* sources[];           // trailing

  // Flag: the value may be Invalid, so its interval speaks only of the valid case.
  static constexpr uint8_t kPoisoned = 1;

  std::span<Node* const> src() const { return {sources, nsrc}; }
  UOp src(uint32_t i) const { return sources[i]; }
  const std::vector<int64_t>& ints() const { return arg.object->ints; }
  int64_t ints(size_t i) const { return arg.object->ints[i]; }
  bool is(Op o) const { return op == o; }
  bool is_const(int64_t v) const { return op == Op::Const && !is_float(dtype) && arg.i == v; }
};

inline bool is_const(UOp u) { return u->op == Op::Const; }  // of any dtype
inline bool is_const(UOp u, double value) {  // with that value; of floats -0.0 is not 0.0
  if (u->op != Op::Const) return false;
  if (!is_float(u->dtype)) return static_cast<double>(u->arg.i) == value;
  return std::bit_cast<uint64_t>(u->arg.f) == std::bit_cast<uint64_t>(value);
}
inline bool is_zero(UOp u) { return is_const(u, 0.0); }

// Range arguments.
// Global: shared out to blocks of workers, up to three launch dimensions; a CPU has one, and blocks
// of one worker. Local, Group: the position of a worker in its block; a Group is one of Reduces
// only. What closes such a range is done by its workers together. Upcast, Unroll, Vector: a tile of
// registers, the last one an axis of vectors. Accumulate: a reduce loop among the loops of the
// memory that it accumulates in. Fragment: a position in tiles that a group of lanes multiplies.
// Ordered: a loop of an output whose place is computed, so that rounds may write to the same one:
// one worker runs them one after the other.
enum class Role : uint8_t {
  Loop, Reduce, Global, Upcast, Unroll, Vector, Accumulate, Local, Group, Fragment, Ordered
};
const char* name(Role role);
bool parse_role(std::string_view text, Role* role);
inline int range_slot(UOp r) { return static_cast<int>(r->ints(0)); }
// The range alone; its `ranges` are also those that its extent depends on.
inline uint64_t slot_bit(UOp r) { return uint64_t{1} << range_slot(r); }
inline Role range_role(UOp r) { return static_cast<Role>(r->ints(1)); }

// Memory spaces of Param, Stage and Reg. Local: of one worker; Shared: of all workers of a block.
enum class Space : uint8_t { Global, Local, Register, Shared };
inline Space space_of(UOp param) { return static_cast<Space>(param->ints(2)); }

// Counted handle on a node of the tensor graph.
class Ref {
 public:
  Ref() = default;
  explicit Ref(UOp u);                       // takes a count
  static Ref adopt(Node* node);              // takes over a count already held
  Ref(const Ref& o);
  Ref(Ref&& o) noexcept : node_(o.node_) { o.node_ = nullptr; }
  Ref& operator=(Ref o) noexcept { std::swap(node_, o.node_); return *this; }
  ~Ref();
  const Node* operator->() const { return node_; }
  const Node& operator*() const { return *node_; }
  operator UOp() const { return UOp(node_); }
  Node* get() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Ref& o) const { return node_ == o.node_; }

 private:
  Node* node_ = nullptr;
};

}  // namespace mote
