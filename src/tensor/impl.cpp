#include "tensor/impl.h"

#include <mote/no_grad.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "ir/flat.h"
#include "ir/storage.h"
#include "tensor/handles.h"
#include "tensor/movement.h"

namespace mote {

Storage* (*storage_from_bytes)(uint8_t, DType, int64_t, const void*) = nullptr;
Storage* (*storage_from_blob)(uint8_t, DType, int64_t, void*, void (*)(void*), void*) = nullptr;
Storage* (*storage_part)(Storage&, int64_t, int64_t) = nullptr;
void (*open_device)(uint8_t) = nullptr;
void (*compile_source)(uint8_t, UOp) = nullptr;

// In the order in which they became pending. Tensors may outlive the thread that wrote them.
struct PendingList {
  TensorImpl *first = nullptr, *last = nullptr;
  ~PendingList();
};
using PendingHere = PerThread<PendingList>;

thread_local HandleListener* handle_listener = nullptr;
thread_local bool Call::values = false, Call::composed = false;
thread_local int Call::depth = 0;

namespace {

std::vector<prim::Extent> pairs(UOp n) {
  std::vector<Dim> list = list_dims(n);
  std::vector<prim::Extent> out;
  for (size_t i = 0; i < list.size(); i += 2) out.push_back({list[i], list[i + 1]});
  return out;
}

Ref replay_one(UOp n, const Ref& a, bool as_target) {
  switch (n->op) {
    case Op::Reshape: return prim::reshape(a, list_dims(n));
    case Op::Expand: return prim::expand(a, list_dims(n));
    case Op::Permute: return prim::permute(a, n->ints());
    case Op::Flip: return prim::flip(a, n->ints());
    case Op::Window: return prim::window(a, n->ints(0), n->ints(1), n->ints(2), n->ints(3));
    case Op::Shrink: return prim::shrink(a, pairs(n));
    case Op::Pad: return prim::pad(a, pairs(n));
    default: return as_target ? a : prim::detach(a);  // a place has no history
  }
}

// The movement ops above `bottom` up to `top`, applied to `onto`.
Ref replay(UOp top, UOp bottom, const Ref& onto, bool as_target = false) {
  std::vector<UOp> ops;
  for (; top != bottom; top = top->src(0)) ops.push_back(top);
  Ref r = onto;
  for (size_t i = ops.size(); i-- > 0;) r = replay_one(ops[i], r, as_target);
  return r;
}

UOp param_under(UOp chain) {
  while (!chain->is(Op::Param)) chain = chain->src(0);
  return chain;
}

Ref placeholder(const Tensor& base) {
  const Shape& s = shape_of(base);
  int64_t ints[] = {0, count_with_room(s), 0};
  Ref param = tensor_graph::make(Op::Param, base.dtype(), std::initializer_list<Ref>{},
                                 Arg::of(intern_arg(ints)));
  return fit(param, s.dims);
}

// chain over the node of base. A numeric shape's chain merges with the placeholder's reshape, so it
// starts at the flat parameter.
Ref chain_over(const Tensor& base, const Ref& chain, const Ref& node, bool as_target) {
  const Shape& s = shape_of(base);
  if (s.symbolic) return replay(chain, placeholder(base), node, as_target);
  Dim count(s.count());
  return replay(chain, param_under(chain), prim::reshape(node, {&count, 1}), as_target);
}

// The value read from where its parts were realized to, so that their graphs can go.
Ref resolve(const Ref& value) {
  UOp at = value;
  while (!at->realized.load(std::memory_order_acquire) && has(at->op, Movement)) at = at->src(0);
  UOp buffer = tensor_graph::realized_in(at);
  if (!buffer) return value;
  return replay(value, at, fit(Ref(buffer), at->shape->dims));
}

// Do two elements of a view with these strides share a place?
bool overlaps(const Shape& shape, const std::vector<int64_t>& strides) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t i = 0; i < strides.size(); ++i)
    if (shape.dims[i].size > 1) axes.push_back({std::abs(strides[i]), shape.dims[i].size});
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;
  for (auto [stride, size] : axes) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

using Position = std::vector<int64_t>;

// The element of a flat array of these sizes, and back.
int64_t flat_place(const Position& at, const Shape& shape) {
  int64_t flat = 0;
  for (size_t i = 0; i < at.size(); ++i) flat = flat * shape.dims[i].size + at[i];
  return flat;
}
Position position_in(const Shape& shape, int64_t flat) {
  Position at(shape.dims.size());
  for (size_t i = at.size(); i-- > 0; flat /= shape.dims[i].size) at[i] = flat % shape.dims[i].size;
  return at;
}

// Which element of its source a movement op of numeric sizes shows at `at`.
Position source_position(UOp n, Position at) {
  const Shape& below = *n->src(0)->shape;
  switch (n->op) {
    case Op::Reshape: return position_in(below, flat_place(at, *n->shape));
    case Op::Permute: {
      Position out(at.size());
      for (size_t i = 0; i < at.size(); ++i) out[static_cast<size_t>(n->ints(i))] = at[i];
      return out;
    }
    case Op::Expand:
      at.resize(below.dims.size());
      for (size_t i = 0; i < at.size(); ++i) at[i] %= below.dims[i].size;
      return at;
    case Op::Shrink:
      for (size_t i = 0; i < at.size(); ++i) at[i] += n->ints(2 * i);
      return at;
    case Op::Flip:
      for (int64_t axis : n->ints()) {
        auto i = static_cast<size_t>(axis);
        at[i] = below.dims[i].size - 1 - at[i];
      }
      return at;
    case Op::Window:
      at[static_cast<size_t>(n->ints(0))] =
          at[static_cast<size_t>(n->ints(0))] * n->ints(2) + at.back() * n->ints(3);
      at.pop_back();
      return at;
    default: return at;
  }
}

// Whether sizes and bounds are numbers all the way: symbolic ones are further sources.
bool is_numeric(UOp chain) {
  for (; !chain->is(Op::Param); chain = chain->src(0))
    if (chain->nsrc > 1 || chain->shape->symbolic) return false;
  return true;
}

// Where in flat memory the first element of a view of numeric sizes lies.
int64_t first_place(UOp chain) {
  Position at(chain->shape->dims.size(), 0);
  for (; !chain->is(Op::Param); chain = chain->src(0)) at = source_position(chain, at);
  return at[0];
}

// The first and the last place in flat memory that a view of numeric sizes shows.
std::pair<int64_t, int64_t> places_spanned(UOp chain, const std::vector<int64_t>& strides) {
  const int64_t first = first_place(chain);
  std::pair<int64_t, int64_t> reach = {first, first};
  for (size_t i = 0; i < strides.size(); ++i) {
    int64_t far = (chain->shape->dims[i].size - 1) * strides[i];
    (far < 0 ? reach.first : reach.second) += far;
  }
  return reach;
}

std::vector<StridedAxis> axes_of(UOp chain, const std::vector<int64_t>& strides) {
  std::vector<StridedAxis> axes;
  for (size_t i = 0; i < strides.size(); ++i)
    axes.push_back({chain->shape->dims[i].size, strides[i]});
  return axes;
}

// A view of the whole of a tensor, with strides (`seen`, from `first` on), looked at through the
// strides of that tensor: how far apart its elements are along each axis; nothing where that is not
// the same everywhere. A step along an axis of the view changes the position in the tensor by the
// same amounts everywhere, unless it carries from one axis of the tensor to the next.
std::optional<std::vector<int64_t>> strides_through(std::span<const StridedAxis> seen,
                                                    int64_t first,
                                                    const std::vector<StridedAxis>& tensor) {
  auto position = [&](int64_t flat) {
    Position at(tensor.size());
    for (size_t k = at.size(); k-- > 0; flat /= tensor[k].size) at[k] = flat % tensor[k].size;
    return at;
  };
  const Position start = position(first);
  Position lo = start, hi = start;
  std::vector<int64_t> out;
  for (const StridedAxis& axis : seen) {
    const Position next = axis.size > 1 ? position(first + axis.stride) : start;
    int64_t stride = 0;
    for (size_t k = 0; k < tensor.size(); ++k) {
      const int64_t step = next[k] - start[k];
      stride += step * tensor[k].stride;
      (step < 0 ? lo : hi)[k] += step * (axis.size - 1);
    }
    out.push_back(axis.size > 1 ? stride : axis.stride);
  }
  for (size_t k = 0; k < tensor.size(); ++k)
    if (lo[k] < 0 || hi[k] >= tensor[k].size) return {};
  return out;
}

bool is_long(UOp chain) {
  int length = 0;
  for (; !chain->is(Op::Param); chain = chain->src(0))
    if (++length == prim::kLongChain) return true;
  return false;
}

// The element at lo + sum of |stride| * position, in the shape of the chain: an axis with a stride
// is a window of the flat memory, one without repeats, and those that walk backwards are flipped.
Ref windows_by_strides(const Ref& flat, std::span<const Dim> shape,
                       const std::vector<int64_t>& strides, int64_t lo, int64_t hi) {
  prim::Extent part = {lo, hi + 1};
  Ref seen = prim::shrink(flat, {&part, 1});
  std::vector<Dim> dims;
  std::vector<int64_t> backwards;
  for (size_t i = 0; i < strides.size(); ++i) {
    bool walks = strides[i] != 0 && shape[i].size > 1;
    dims.push_back(walks ? shape[i] : Dim(1));
    if (!walks) continue;
    seen = prim::window(seen, 0, shape[i].size, 1, std::abs(strides[i]));
    if (strides[i] < 0) backwards.push_back(seen->shape->rank() - 1);
  }
  return prim::expand(prim::reshape(prim::flip(seen, backwards), dims), shape);
}

// The same view in few steps, however long its chain.
Ref by_strides(const Ref& chain, const std::vector<int64_t>& strides) {
  UOp flat = chain;
  bool detached = false;
  for (; !flat->is(Op::Param); flat = flat->src(0)) detached |= flat->is(Op::Detach);
  Ref memory = detached ? prim::detach(Ref(flat)) : Ref(flat);
  if (chain->shape->count() == 0) {
    prim::Extent none = {0, 0};
    return prim::reshape(prim::shrink(memory, {&none, 1}), chain->shape->dims);
  }
  auto [first, last] = places_spanned(chain, strides);
  return windows_by_strides(memory, chain->shape->dims, strides, first, last);
}

// A tensor may die on one thread while another one asks whose a storage is.
std::mutex& owner_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// Call with owner_mutex() held. Never destroyed: tensors may outlive everything.
std::map<const TensorImpl*, const Shape*>& leaves() {
  static auto* all = new std::map<const TensorImpl*, const Shape*>;
  return *all;
}

// A handle on a tensor that another thread may be about to destroy. Call with owner_mutex() held.
Tensor handle_of(TensorImpl& impl) {
  uint32_t count = impl.refs.load(std::memory_order_relaxed);
  while (count && !impl.refs.compare_exchange_weak(count, count + 1)) {}
  return count ? Tensor(&impl) : Tensor();
}

// Call with owner_mutex() held.
void unlink(TensorImpl& impl) {
  PendingList* list = impl.pending;
  if (!list) return;
  TensorImpl *before = impl.pending_before, *after = impl.pending_after;
  (before ? before->pending_after : list->first) = after;
  (after ? after->pending_before : list->last) = before;
  impl.pending_before = impl.pending_after = nullptr;
  impl.pending = nullptr;  // last: its destructor, which looks at this alone, may run from here on
}

TensorImpl* new_impl() {
  auto* impl = new TensorImpl;
  if (handle_listener) handle_listener->made(*impl);
  return impl;
}

thread_local bool without_history = false;

// Whether n may depend on a marked leaf; after so many nodes: it may. Inside a scope without
// history the walk meets a Detach soon.
bool may_have_history(UOp n, int& nodes_left) {
  if (UOp held = tensor_graph::realized_in(n)) n = held;
  if (n->is(Op::Detach) || is_const(n) || !(is_float(n->dtype) || has(n->op, Effect))) return false;
  if (n->is(Op::Buffer)) return n->arg.storage->requires_grad || n->arg.storage->from_graph;
  if (--nodes_left < 0) return true;
  for (uint32_t i = 0; i < n->nsrc; ++i)
    if (may_have_history(n->src(i), nodes_left)) return true;
  return false;
}

bool must_detach(UOp n) {
  int nodes = 32;
  return without_history && is_float(n->dtype) && may_have_history(n, nodes);
}

const Tensor& root_of(const Tensor& t) { return t.impl()->base.defined() ? t.impl()->base : t; }

}  // namespace

NoGradScope::NoGradScope(bool on) : before_(std::exchange(without_history, on)) {}
NoGradScope::~NoGradScope() { without_history = before_; }
bool is_grad_enabled() { return !without_history; }

PendingList::~PendingList() {
  std::lock_guard lock(owner_mutex());
  while (first) unlink(*first);
}

Ref fit(const Ref& flat, std::span<const Dim> dims) {
  std::vector<Dim> most;
  std::vector<prim::Extent> bounds;
  for (int64_t size : room_for(dims)) most.emplace_back(size);
  for (const Dim& d : dims) bounds.push_back({0, d});
  return prim::shrink(prim::reshape(flat, most), bounds);
}

Ref copied_to(const Tensor& t, uint8_t device) {
  const Tensor& base = t.impl()->base;
  UOp memory = base.defined() ? prim::base_of(node_of(base)) : UOp();
  const Ref& chain = t.impl()->chain;
  if (!memory || !storage_part || t.numel() == 0 || !is_numeric(chain))
    return prim::copy_to(node_of(t), device);
  auto [first, last] = places_spanned(chain, t.impl()->strides);
  Storage* part = storage_part(*memory->arg.storage, first, last + 1 - first);
  if (!part) return prim::copy_to(node_of(t), device);
  Ref here = prim::copy_to(tensor_graph::buffer(part), device);
  if (t.is_contiguous()) return prim::reshape(here, dims_of(t));
  prim::Extent around = {first, shape_of(base).count() - 1 - last};
  return chain_over(base, chain, prim::pad(here, {&around, 1}), false);
}

Tensor::Tensor(const Tensor& o) : impl_(o.impl_) {
  if (impl_) impl_->refs.fetch_add(1, std::memory_order_relaxed);
}
Tensor::~Tensor() {
  if (!impl_ || impl_->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  InsideLibrary inside;
  if (!forked_amid_call()) delete impl_;
}
Tensor& Tensor::operator=(const Tensor& o) & {
  Tensor copy(o);
  std::swap(impl_, copy.impl_);
  return *this;
}
Tensor& Tensor::operator=(Tensor&& o) & noexcept {
  std::swap(impl_, o.impl_);
  return *this;
}

TensorImpl::~TensorImpl() {
  if (handle_listener) handle_listener->gone(*this);
  if (storage) set_own(*this, false);
  if (marked) {
    std::lock_guard lock(owner_mutex());
    leaves().erase(this);
  }
  if (pending) {
    std::lock_guard lock(owner_mutex());
    unlink(*this);
  }
}

void note_pending(TensorImpl& impl) {
  PendingList& list = PendingHere::get();
  if (impl.pending == &list) return;
  std::lock_guard lock(owner_mutex());
  unlink(impl);  // another thread wrote it before
  impl.pending = &list;
  impl.pending_before = list.last;
  (list.last ? list.last->pending_after : list.first) = &impl;
  list.last = &impl;
}

std::vector<Tensor> take_pending() {
  std::vector<Tensor> out;
  PendingList* list = PendingHere::if_made();
  if (!list) return out;
  std::lock_guard lock(owner_mutex());
  while (TensorImpl* impl = list->first) {
    if (Tensor t = handle_of(*impl); t.defined()) out.push_back(std::move(t));
    unlink(*impl);
  }
  return out;
}

void set_own(TensorImpl& impl, bool own) {
  Storage* storage = own ? prim::base_of(impl.value)->arg.storage : nullptr;
  if (storage == impl.storage) return;
  std::lock_guard lock(owner_mutex());
  if (impl.storage) impl.storage->owner = nullptr;
  if (storage) storage->owner = &impl;
  impl.storage = storage;
}

std::map<const TensorImpl*, const Shape*> live_leaves() {
  std::lock_guard lock(owner_mutex());
  return leaves();
}

void mark_leaf(const Tensor& t, bool marked) {
  TensorImpl& impl = *t.impl();
  if (marked == impl.marked) return;
  if (impl.base.defined()) {
    impl.value = node_of(impl);
    impl.base = {}, impl.chain = {}, impl.strides = {};
  }
  give_storage(t);
  impl.grad = {};
  impl.storage->requires_grad = marked;
  impl.marked = marked;
  std::lock_guard lock(owner_mutex());
  if (marked)
    leaves()[&impl] = &shape_of(t);
  else
    leaves().erase(&impl);
}

Tensor owner_of(Storage& storage) {
  std::lock_guard lock(owner_mutex());
  return storage.owner ? handle_of(*storage.owner) : Tensor();
}

thread_local bool UnrealizedScope::open = false;

Ref node_of(const TensorImpl& impl) {
  if (handle_listener) handle_listener->read(impl);
  if (impl.base.defined())
    return chain_over(impl.base, impl.chain, node_of(*impl.base.impl()), false);
  auto& self = const_cast<TensorImpl&>(impl);
  if (!UnrealizedScope::open) self.value = resolve(impl.value);
  return impl.value;
}

Ref node_of(const Tensor& t) {
  expect_defined(t);
  return node_of(*t.impl());
}

const Shape& shape_of(const Tensor& t) {
  expect_defined(t);
  return *(t.impl()->base.defined() ? t.impl()->chain : t.impl()->value)->shape;
}

Tensor make_value(Ref node, uint8_t device) {
  if (must_detach(node)) node = prim::detach(node);
  auto* impl = new_impl();
  impl->dtype = node->dtype;
  impl->device = device;
  impl->value = prim::cut_long_chain(node);
  return Tensor(impl);
}

Tensor make_stored(const Ref& buffer, std::span<const Dim> shape) {
  Tensor t = make_value(fit(buffer, shape), buffer->device);
  set_own(*t.impl(), true);
  return t;
}

Tensor make_view(const Tensor& of, Ref chain, std::vector<int64_t> strides) {
  if (Call::gives_values()) return make_value(std::move(chain), of);
  if (without_history && must_detach(node_of(root_of(of)))) chain = prim::detach(chain);
  if (chain == chain_of(of)) return of;
  if (is_long(chain) && is_numeric(chain)) chain = by_strides(chain, strides);
  auto* impl = new_impl();
  impl->dtype = of.dtype();
  impl->device = of.impl()->device;
  impl->base = root_of(of);
  impl->chain = std::move(chain);
  impl->strides = std::move(strides);
  return Tensor(impl);
}

Tensor strided_view(const Tensor& t, const std::vector<int64_t>& size,
                    const std::vector<int64_t>& strides, int64_t offset) {
  const Tensor& root = root_of(t);
  const TensorImpl& impl = *t.impl();
  const bool is_view = impl.base.defined();
  expect(!shape_of(root).symbolic && (!is_view || is_numeric(impl.chain)),
         "needs numeric sizes, got shape ", t);
  if (offset < 0) offset = is_view && t.numel() ? first_place(impl.chain) : 0;
  std::vector<Dim> dims(size.begin(), size.end());
  int64_t last = offset, count = 1;
  for (size_t i = 0; i < size.size(); ++i) {
    last = size_add(last, size_mul(strides[i], size[i] - 1));
    count = size_mul(count, size[i]);
  }
  expect(count == 0 || last < root.numel(), "reaches element ", last, " of a tensor of ",
         root.numel());
  const Dim all(root.numel());
  Ref flat = prim::reshape(chain_of(root), {&all, 1});
  for (UOp n = is_view ? UOp(impl.chain) : UOp(); n && !n->is(Op::Param); n = n->src(0))
    if (n->is(Op::Detach)) flat = prim::detach(flat);
  if (count == 0) {
    prim::Extent none = {0, 0};
    return make_view(root, prim::reshape(prim::shrink(flat, {&none, 1}), dims), strides);
  }
  return make_view(root, windows_by_strides(flat, dims, strides, offset, last), strides);
}

Tensor unchanged(const Tensor& t) {
  return Call::gives_values() ? make_value(node_of(t), t) : t;
}

void look_through(TensorImpl& view, const Tensor& base, const Ref& chain,
                  const std::vector<int64_t>& shown_strides) {
  Ref now = node_of(view);
  Dim count(chain->shape->count());
  Ref through = chain->shape->symbolic ? replay(view.chain, placeholder(view.base), chain)
                                       : replay(view.chain, param_under(view.chain),
                                                prim::reshape(chain, {&count, 1}));
  std::optional<std::vector<int64_t>> strides{std::in_place};
  if (is_numeric(through) && through->shape->count() > 0)
    strides = strides_through(axes_of(view.chain, view.strides), first_place(view.chain),
                              merged(axes_of(chain, shown_strides)));
  view.base = {}, view.chain = {}, view.strides = {};
  if (strides) {
    view.base = base, view.chain = through, view.strides = *strides;
  } else {
    view.value = prim::contiguous(now);
  }
}

void become_view(const Tensor& t, const Tensor& view) {
  mark_leaf(t, false);
  TensorImpl &to = *t.impl(), &from = *view.impl();
  to.base = from.base, to.chain = from.chain, to.strides = from.strides;
  set_own(to, false);
  to.value = {};
}

Ref chain_of(const Tensor& t) {
  expect_defined(t);
  if (Call::gives_values()) return node_of(t);
  return t.impl()->base.defined() ? t.impl()->chain : placeholder(t);
}

std::vector<int64_t> row_major_strides(std::span<const Dim> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride = size_mul(stride, std::max<int64_t>(dims[i].size, 1));
  }
  return strides;
}

std::vector<int64_t> strides_of(const Tensor& t) {
  return t.impl()->base.defined() ? t.impl()->strides : row_major_strides(dims_of(t));
}

void give_storage(const Tensor& t, bool keep) {
  TensorImpl& impl = *root_of(t).impl();
  if (impl.storage) return;
  Ref old = node_of(impl);
  if (UOp base = prim::base_of(old)) base->arg.storage->left.fetch_add(1);
  std::vector<Dim> dims = old->shape->dims;
  Ref memory = fit(prim::buffer(impl.device, impl.dtype, count_with_room(*old->shape)), dims);
  impl.value = keep && old->shape->count() ? fit(prim::assign(memory, old), dims) : memory;
  set_own(impl, true);
  note_pending(impl);
}

void write(const Tensor& t, const Ref& x) {
  if (handle_listener) handle_listener->writes(t);
  const Shape& shape = shape_of(t);
  const Tensor& root = root_of(t);
  TensorImpl& impl = *root.impl();
  bool view = t.impl()->base.defined();
  expect(!view || shape.symbolic || !overlaps(shape, t.impl()->strides),
         "cannot write through a view of shape ", shape,
         " in which several elements share one place; clone() it first");
  if (shape.count() == 0) return;
  bool whole = !view || (!shape.symbolic && shape.count() == shape_of(root).count());
  give_storage(root, !whole);
  Ref memory = node_of(impl);
  Ref target = view ? chain_over(root, t.impl()->chain, memory, true) : memory;
  const Ref value = must_detach(x) ? prim::detach(x) : x;
  impl.value = fit(prim::assign(target, expand_to(value, shape.dims)), memory->shape->dims);
  note_pending(impl);
}

}  // namespace mote
