// Where nodes live and how they are made.
#pragma once
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>

#include "ir/node.h"

namespace mote {

// The parts of a node before it is interned.
struct Parts {
  Op op;
  DType dtype;
  std::span<Node* const> src;
  Arg arg;
};

// Derived attributes of a node about to be made; the same code serves both graphs.
struct Derived {
  int64_t lo, hi;
  uint64_t ranges;
  uint8_t device;
  uint8_t flags;
};

uint64_t arg_hash(Op op, Arg arg);

// An arena of nodes for one thread. Reset drops all nodes at once and keeps the memory.
// Construction folds exact trivia (ir/fold.h), so `make` may return another node than asked for.
class Arena {
 public:
  // Memory is taken in pieces of so many bytes: small ones for a graph that is kept.
  static constexpr size_t kWork = 2 << 20, kKept = 8 << 10;
  explicit Arena(size_t piece = kWork);
  ~Arena();
  Arena(const Arena&) = delete;
  UOp make(Op op, DType dtype, std::span<Node* const> src, Arg arg = {});
  UOp make_raw(const Parts& parts);  // interned but never folded
  void reset();
  uint32_t size() const { return next_id_; }        // ids are below this
  uint64_t made() const { return made_; }           // constructions asked for since start
  const Shape* intern_shape(std::vector<Dim> dims);

 private:
  struct Impl;
  Node* find(const Parts& parts, uint64_t hash) const;
  UOp insert(const Parts& parts, uint64_t hash, const Derived& derived);
  std::unique_ptr<Impl> impl_;
  uint32_t next_id_ = 0;
  uint64_t made_ = 0;
};

// The arena that UOp operators of this thread build in.
Arena& arena();
class ArenaScope {
 public:
  explicit ArenaScope(Arena& a);
  ~ArenaScope();

 private:
  Arena* before_;
};

// The process-wide tensor graph. All functions are thread-safe.
namespace tensor_graph {
Ref make(Op op, DType dtype, std::span<const Ref> src, Arg arg = {});
Ref make(Op op, DType dtype, std::initializer_list<Ref> src, Arg arg = {});
// The storage's content at its present version; takes over one count of the storage.
Ref buffer(Storage* storage);
uint64_t live_nodes();
uint64_t made();               // constructions asked for since start
// The value of node is now in `buffer` (a Buffer node); readers use that from here on. The first
// buffer stays, so that a thread that reads it need not lock. False: another thread was first.
bool set_realized(const Ref& node, const Ref& buffer);
// The Buffer that node's value is read from; {} when it was not realized. A buffer that was
// overwritten since is itself realized, to the copy made before.
UOp realized_in(UOp node);
}  // namespace tensor_graph

Derived derive(const Parts& parts);
// The dims of the result; used by tensor-level ops. Throws User errors on impossible shapes.
std::vector<Dim> derive_shape(const Parts& parts);
// The shape of an elementwise op when its sources agree on one interned shape; null: derive it.
const Shape* shared_shape(const Parts& parts);
// a op b as a symbolic size, in the graph that is deriving shapes on this thread.
Dim index_expression(Op op, const Dim& a, const Dim& b);
// A movement op's list as dims, symbolic entries taken from the extra sources.
std::vector<Dim> list_dims(const Parts& parts);
std::vector<Dim> list_dims(UOp node);

// Postorder of everything below root (sources before users), without recursion. `enter` may refuse
// to look below a node (the node itself is still listed).
std::vector<UOp> toposort(UOp root);
std::vector<UOp> toposort(std::span<const UOp> roots, const std::function<bool(UOp)>& enter = {});

}  // namespace mote
