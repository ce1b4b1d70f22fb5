#include "ir/graph.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/large_pages.h"
#include "base/lifetime.h"
#include "ir/build.h"
#include "ir/device_list.h"
#include "ir/fold.h"
#include "ir/provenance.h"
#include "ir/size_sum.h"
#include "ir/storage.h"

namespace mote {

uint64_t arg_hash(Op op, Arg arg) {
  switch (row(op).arg) {
    case ArgKind::Nil: return 0;
    case ArgKind::Int: return static_cast<uint64_t>(arg.i);
    case ArgKind::Value: return static_cast<uint64_t>(arg.i);  // float bits share the word
    case ArgKind::Object:
      // Hashes order operands, and the same program on another device is to be the same code.
      return op == Op::Param ? hash_bytes(arg.object->ints.data(),
                                           std::min<size_t>(3, arg.object->ints.size()) * 8)
                             : arg.object->hash;
    case ArgKind::Handle: return arg.storage->id;
  }
  return 0;
}

namespace {

uint64_t structural_hash(const Parts& p) {
  uint64_t h = mix(static_cast<uint64_t>(p.op) << 8 | static_cast<uint64_t>(p.dtype),
                   arg_hash(p.op, p.arg));
  for (const Node* s : p.src) h = mix(h, s->hash);
  return h;
}

bool matches(const Node* n, uint64_t hash, const Parts& p) {
  return n->hash == hash && n->op == p.op && n->dtype == p.dtype && n->arg.i == p.arg.i &&
         n->nsrc == p.src.size() &&
         std::equal(p.src.begin(), p.src.end(), n->sources);
}

uint64_t shape_hash(std::span<const Dim> dims) {
  uint64_t h = dims.size();
  for (const Dim& d : dims)
    h = mix(h, static_cast<uint64_t>(d.size) ^ (d.symbol ? d.symbol->hash : 0));
  return h;
}

// Interned shapes of one graph. Shapes of the tensor graph keep their symbols alive for good:
// there are few, and nodes may outlive any one of them.
class ShapePool {
 public:
  const Shape* intern(std::vector<Dim> dims) {
    uint64_t h = shape_hash(dims);
    auto [begin, end] = table_.equal_range(h);
    for (auto it = begin; it != end; ++it)
      if (it->second->dims == dims) return it->second.get();
    bool symbolic = std::ranges::any_of(dims, &Dim::is_symbolic);
    auto shape = std::make_unique<Shape>(Shape{h, std::move(dims), symbolic});
    return table_.emplace(h, std::move(shape))->second.get();
  }
  void drop_symbolic() {
    std::erase_if(table_, [](const auto& e) { return e.second->symbolic; });
  }

 private:
  std::unordered_multimap<uint64_t, std::unique_ptr<Shape>> table_;
};

size_t node_bytes(size_t nsrc) { return sizeof(Node) + nsrc * sizeof(Node*); }

void fill(Node* n, uint64_t hash, const Parts& p, const Derived& d, const Shape* shape,
          uint32_t id) {
  n->hash = hash;
  n->op = p.op;
  n->dtype = p.dtype;
  n->device = d.device;
  n->flags = d.flags;
  n->nsrc = static_cast<uint32_t>(p.src.size());
  n->arg = p.arg;
  n->lo = d.lo;
  n->hi = d.hi;
  n->ranges = d.ranges;
  n->shape = shape;
  n->id = id;
  n->stamps = 0;
  n->realized.store(nullptr, std::memory_order_relaxed);
  std::copy(p.src.begin(), p.src.end(), n->sources);
}

bool has_shape(Op op) { return !has(op, Effect) || op == Op::After; }

}  // namespace

// ---- Arena

struct Arena::Impl {
  const size_t chunk_bytes;
  struct Chunk {
    char* data;
    size_t used;
  };
  std::vector<Chunk> chunks;
  size_t chunk = 0;                 // the one being filled
  std::vector<char*> large;         // nodes that do not fit a chunk
  // Open addressing, at most half full. A slot is a node's address and, in the bits above it, 16
  // of its hash: what is not there is found missing without looking at any node.
  std::vector<uint64_t> slots;
  ShapePool shapes;
  const Shape* scalar = nullptr;

  explicit Impl(size_t piece) : chunk_bytes(piece), slots(piece / 512) {
    scalar = shapes.intern({});
  }
  ~Impl() {
    for (size_t i = 0; i < chunks.size(); ++i) memory_of(i)->deallocate(chunks[i].data, chunk_bytes);
    for (char* c : large) delete[] c;
  }

  // Walking a large graph is missing the caches, and small pages make it miss the page tables as
  // well. Most kernels never fill their first chunk.
  std::pmr::memory_resource* memory_of(size_t number) const {
    return number && chunk_bytes == kWork ? large_pages() : std::pmr::new_delete_resource();
  }

  void add_chunk() {
    chunks.push_back({static_cast<char*>(memory_of(chunks.size())->allocate(chunk_bytes)), 0});
  }

  char* allocate(size_t bytes) {
    if (bytes > chunk_bytes) return large.emplace_back(new char[bytes]);
    if (chunks.empty() || chunks[chunk].used + bytes > chunk_bytes) {
      if (!chunks.empty()) ++chunk;
      if (chunk == chunks.size()) add_chunk();
      chunks[chunk].used = 0;
    }
    Chunk& c = chunks[chunk];
    c.used += bytes;
    return c.data + c.used - bytes;
  }

  static constexpr int kTagShift = 48;
  static uint64_t tag(uint64_t hash) { return hash >> kTagShift; }

  Node* find(const Parts& p, uint64_t hash) const {
    for (size_t i = hash & (slots.size() - 1); slots[i]; i = (i + 1) & (slots.size() - 1)) {
      if (slots[i] >> kTagShift != tag(hash)) continue;
      auto* n = reinterpret_cast<Node*>(slots[i] & ((uint64_t{1} << kTagShift) - 1));
      if (matches(n, hash, p)) return n;
    }
    return nullptr;
  }

  void link(Node* n) {
    size_t i = n->hash & (slots.size() - 1);
    while (slots[i]) i = (i + 1) & (slots.size() - 1);
    slots[i] = reinterpret_cast<uintptr_t>(n) | tag(n->hash) << kTagShift;
  }

  // In the order of memory, not of the old slots: a graph may be larger than the caches.
  void grow() {
    slots.assign(slots.size() * 2, 0);
    for (size_t i = 0; i < chunks.size() && i <= chunk; ++i)
      for (size_t at = 0; at < chunks[i].used;) {
        auto* n = reinterpret_cast<Node*>(chunks[i].data + at);
        at += node_bytes(n->nsrc);
        link(n);
      }
    for (char* c : large) link(reinterpret_cast<Node*>(c));
  }
};

Arena::Arena(size_t piece) : impl_(std::make_unique<Impl>(piece)) {}
Arena::~Arena() = default;

const Shape* Arena::intern_shape(std::vector<Dim> dims) {
  return impl_->shapes.intern(std::move(dims));
}

static const Shape* arena_shape(Arena& a, const Parts& p) {
  if (!has_shape(p.op)) return nullptr;
  if (const Shape* s = shared_shape(p)) return s;
  return a.intern_shape(derive_shape(p));
}

Node* Arena::find(const Parts& p, uint64_t hash) const {
  return impl_->find(p, hash);
}

UOp Arena::insert(const Parts& p, uint64_t hash, const Derived& d) {
  Impl& m = *impl_;
  ArenaScope scope(*this);  // a symbolic shape makes nodes
  const Shape* shape = arena_shape(*this, p);
  auto* n = reinterpret_cast<Node*>(m.allocate(node_bytes(p.src.size())));
  fill(n, hash, p, d, shape, next_id_++);
  n->provenance = p.src.empty() ? 0 : p.src[0]->provenance;
  if (2 * size_t{next_id_} > m.slots.size())
    m.grow();  // links n too
  else
    m.link(n);
  return n;
}

UOp Arena::make_raw(const Parts& p) {
  ++made_;
  uint64_t hash = structural_hash(p);
  if (Node* known = find(p, hash)) return known;
  return insert(p, hash, derive(p));
}

UOp Arena::make(Op op, DType dtype, std::span<Node* const> src, Arg arg) {
  Parts p{op, dtype, src, arg};
  if (op == Op::Copy && src.size() == 1 && src[0]->device == kNoDevice)
    return UOp(src[0]);  // it is everywhere
  if (!has(op, Alu)) return make_raw(p);
  Node* swapped[2];
  if (wants_swap(p)) {
    swapped[0] = src[1];
    swapped[1] = src[0];
    p.src = swapped;
  }
  // What is there already was folded when it was made.
  ++made_;
  uint64_t hash = structural_hash(p);
  if (Node* known = find(p, hash)) return known;
  Derived d = derive(p);
  Folded f = fold(p, d);
  if (f.existing) return f.existing;
  if (f.literal) return make_raw({Op::Const, dtype, {}, *f.literal});
  return insert(p, hash, d);
}

void Arena::reset() {
  Impl& m = *impl_;
  std::ranges::fill(m.slots, 0);
  m.chunk = 0;
  if (!m.chunks.empty()) m.chunks[0].used = 0;
  for (char* c : m.large) delete[] c;
  m.large.clear();
  m.shapes.drop_symbolic();
  next_id_ = 0;
}

static thread_local Arena* current_arena = nullptr;
static thread_local bool in_tensor_graph = false;

namespace {
struct Fallback {
  Arena arena;
};
}  // namespace

Arena& arena() { return current_arena ? *current_arena : PerThread<Fallback>::get().arena; }

ArenaScope::ArenaScope(Arena& a) : before_(current_arena) { current_arena = &a; }
ArenaScope::~ArenaScope() { current_arena = before_; }

// ---- Tensor graph

namespace {

struct Shard {
  std::mutex mutex;
  std::vector<Node*> buckets = std::vector<Node*>(64, nullptr);
  size_t count = 0;
  uint64_t made = 0;
};

struct Shared {
  static constexpr int kShards = 64;
  Shard shards[kShards];
  std::mutex shape_mutex;
  ShapePool shapes;
  std::mutex id_mutex;
  std::vector<uint32_t> free_ids;
  uint32_t next_id = 0;
  std::atomic<uint64_t> live{0};
};
// Never destroyed: tensors in static storage may die after main.
Shared& shared() {
  static Shared* s = new Shared;
  return *s;
}

Shard& shard_of(uint64_t hash) { return shared().shards[hash >> 58]; }
Node*& bucket(Shard& s, uint64_t hash) { return s.buckets[hash & (s.buckets.size() - 1)]; }

uint32_t take_id() {
  Shared& s = shared();
  std::lock_guard lock(s.id_mutex);
  if (s.free_ids.empty()) return s.next_id++;
  uint32_t id = s.free_ids.back();
  s.free_ids.pop_back();
  return id;
}

void grow(Shard& s) {
  std::vector<Node*> old(s.buckets.size() * 2, nullptr);
  old.swap(s.buckets);
  for (Node* n : old)
    while (n) {
      Node* rest = n->next;
      Node*& head = bucket(s, n->hash);
      n->next = head;
      head = n;
      n = rest;
    }
}

// Takes a count unless the node is dying: a dead node is never revived, a new twin is made.
bool try_retain(Node* n) {
  uint32_t count = n->refs.load(std::memory_order_relaxed);
  while (count)
    if (n->refs.compare_exchange_weak(count, count + 1, std::memory_order_relaxed)) return true;
  return false;
}

void unlink(Node* n) {
  Shard& s = shard_of(n->hash);
  std::lock_guard lock(s.mutex);
  for (Node** link = &bucket(s, n->hash); *link; link = &(*link)->next)
    if (*link == n) {
      *link = n->next;
      --s.count;
      return;
    }
}

void drop(Node* root) {
  if (root->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // A list instead of recursion: graphs are as deep as programs are long.
  Node* dead = root;
  unlink(root);
  root->next = nullptr;
  auto bury = [&](Node* n) {
    if (n->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    unlink(n);
    n->next = dead;
    dead = n;
  };
  Shared& s = shared();
  while (dead) {
    Node* n = dead;
    dead = n->next;
    for (Node* src : n->src()) bury(src);
    if (Node* held = n->realized.load(std::memory_order_acquire)) bury(held);
    if (n->op == Op::Buffer) release(n->arg.storage);
    {
      std::lock_guard lock(s.id_mutex);
      s.free_ids.push_back(n->id);
    }
    s.live.fetch_sub(1, std::memory_order_relaxed);
    ::operator delete(n);
  }
}

const Shape* tensor_shape(const Parts& p) {
  if (!has_shape(p.op)) return nullptr;
  if (const Shape* s = shared_shape(p)) return s;
  // A size is made of nodes that have shapes themselves.
  struct Before {
    bool was = std::exchange(in_tensor_graph, true);
    ~Before() { in_tensor_graph = was; }
  } before;
  std::vector<Dim> dims = derive_shape(p);
  check_sizes(dims);
  Shared& s = shared();
  std::lock_guard lock(s.shape_mutex);
  const Shape* shape = s.shapes.intern(dims);
  if (shape->symbolic && !shape->dims.empty())
    for (const Dim& d : dims)
      if (d.symbol) d.symbol->refs.fetch_add(1, std::memory_order_relaxed);
  return shape;
}

Ref make_shared(const Parts& p, bool* fresh = nullptr) {
  uint64_t hash = structural_hash(p);
  Shard& s = shard_of(hash);
  {
    std::lock_guard lock(s.mutex);
    ++s.made;
    for (Node* n = bucket(s, hash); n; n = n->next)
      if (matches(n, hash, p) && try_retain(n)) return Ref::adopt(n);
  }
  const Shape* shape = tensor_shape(p);
  Derived d = derive(p);
  auto* n = static_cast<Node*>(::operator new(node_bytes(p.src.size())));
  fill(n, hash, p, d, shape, take_id());
  n->provenance = current_provenance();
  n->refs.store(1, std::memory_order_relaxed);
  {
    std::lock_guard lock(s.mutex);
    for (Node* twin = bucket(s, hash); twin; twin = twin->next)
      if (matches(twin, hash, p) && try_retain(twin)) {  // another thread was faster
        std::lock_guard ids(shared().id_mutex);
        shared().free_ids.push_back(n->id);
        ::operator delete(n);
        return Ref::adopt(twin);
      }
    for (Node* src : p.src) src->refs.fetch_add(1, std::memory_order_relaxed);
    if (++s.count > s.buckets.size()) grow(s);
    Node*& head = bucket(s, hash);
    n->next = head;
    head = n;
  }
  shared().live.fetch_add(1, std::memory_order_relaxed);
  if (fresh) *fresh = true;
  return Ref::adopt(n);
}

}  // namespace

Ref::Ref(UOp u) : node_(u.get()) {
  if (node_) node_->refs.fetch_add(1, std::memory_order_relaxed);
}
Ref::Ref(const Ref& o) : Ref(UOp(o.node_)) {}
Ref Ref::adopt(Node* node) {
  Ref r;
  r.node_ = node;
  return r;
}
Ref::~Ref() {
  if (node_) drop(node_);
}

namespace tensor_graph {

Ref make(Op op, DType dtype, std::span<const Ref> src, Arg arg) {
  std::vector<Node*> nodes;
  for (const Ref& r : src) nodes.push_back(r.get());
  Parts p{op, dtype, nodes, arg};
  // Only sizes are folded here: what a tensor program says stays as it was said.
  if (dtype == DType::index && has(op, Alu) && std::ranges::all_of(nodes, [](const Node* n) {
        return n->shape->dims.empty();
      })) {
    Folded f = fold(p, derive(p));
    if (f.existing) return Ref(UOp(f.existing));
    if (f.literal) return make_shared({Op::Const, dtype, {}, *f.literal});
  }
  return make_shared(p);
}

Ref make(Op op, DType dtype, std::initializer_list<Ref> src, Arg arg) {
  return make(op, dtype, std::span<const Ref>(src.begin(), src.size()), arg);
}

Ref buffer(Storage* storage) {
  bool fresh = false;
  Ref version;
  std::vector<Node*> src;
  if (storage->version) {
    version = make(Op::Const, DType::index, std::initializer_list<Ref>{},
                   Arg::of(static_cast<int64_t>(storage->version)));
    src.push_back(version.get());
  }
  Ref r = make_shared({Op::Buffer, storage->dtype, src, Arg::of(storage)}, &fresh);
  if (!fresh) release(storage);  // the node already holds a count
  return r;
}

uint64_t live_nodes() { return shared().live.load(std::memory_order_relaxed); }

uint64_t made() {
  uint64_t sum = 0;
  for (Shard& s : shared().shards) {
    std::lock_guard lock(s.mutex);
    sum += s.made;
  }
  return sum;
}

bool set_realized(const Ref& node, const Ref& buffer) {
  Node *held = buffer.get(), *before = nullptr;
  held->refs.fetch_add(1, std::memory_order_relaxed);
  if (node->realized.compare_exchange_strong(before, held, std::memory_order_acq_rel)) return true;
  held->refs.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

UOp realized_in(UOp node) {
  UOp found;
  while (Node* held = node->realized.load(std::memory_order_acquire)) found = node = held;
  return found;
}

}  // namespace tensor_graph

Dim index_expression(Op op, const Dim& a, const Dim& b) {
  if (!in_tensor_graph) return Dim(binary(op, extent(a), extent(b)));
  auto ref = [](const Dim& d) {
    return d.symbol ? Ref(d.symbol)
                    : tensor_graph::make(Op::Const, DType::index, {}, Arg::of(d.size));
  };
  Ref r = tensor_graph::make(op, DType::index, {ref(a), ref(b)});
  // The shape that will hold this size keeps it for good (ShapePool).
  r->refs.fetch_add(1, std::memory_order_relaxed);
  return Dim(UOp(r));
}

// ---- Walking

namespace {
// Marks live in a per-thread column with an epoch, so that walking costs no clearing.
struct Walk {
  std::vector<uint32_t> marks;
  uint32_t epoch = 0;
  struct Visit {
    Node* node;
    Node* const* next;  // of its sources
    Node* const* end;
  };
  std::vector<Visit> stack;
};
}  // namespace

// `enter` must not walk itself.
std::vector<UOp> toposort(std::span<const UOp> roots, const std::function<bool(UOp)>& enter) {
  Walk& walk = PerThread<Walk>::get();
  if (++walk.epoch == 0) {
    std::ranges::fill(walk.marks, 0);
    walk.epoch = 1;
  }
  const uint32_t epoch = walk.epoch;
  std::span<uint32_t> marks = walk.marks;
  auto is_new = [&](const Node* n) {
    if (n->id >= marks.size()) [[unlikely]] {
      walk.marks.resize(std::max<size_t>(n->id + 1, marks.size() * 2), 0);
      marks = walk.marks;
    }
    return std::exchange(marks[n->id], epoch) != epoch;
  };
  const bool all = !enter;
  auto visit = [&](Node* n) {
    const uint32_t below = all || enter(UOp(n)) ? n->nsrc : 0;
    return Walk::Visit{n, n->sources, n->sources + below};
  };
  std::vector<Walk::Visit>& stack = walk.stack;
  stack.clear();
  std::vector<UOp> order;
  order.reserve(128);  // most graphs are kernels
  for (UOp root : roots) {
    if (is_new(root.get())) stack.push_back(visit(root.get()));
    while (!stack.empty()) {
      Walk::Visit& top = stack.back();
      if (top.next == top.end) {
        order.emplace_back(top.node);
        stack.pop_back();
      } else if (Node* n = *top.next++; is_new(n)) {
        if (n->nsrc)
          stack.push_back(visit(n));
        else
          order.emplace_back(n);
      }
    }
  }
  return order;
}

std::vector<UOp> toposort(UOp root) { return toposort(std::span<const UOp>(&root, 1)); }

}  // namespace mote
