#include "engine/jit_place.h"

#include <algorithm>

#include "engine/realize.h"
#include "grad/grad.h"
#include "runtime/device.h"
#include "tensor/handles.h"
#include "tensor/impl.h"

namespace mote {

namespace {

bool computes(const Tensor& t) { return device(t.impl()->device).computes(); }

// The same view twice is one piece.
class Pieces {
 public:
  Tensor of(const Tensor& t) {
    if (!t.defined() || is_whole_in_order(t) || !computes(t)) return t;
    auto [known, fresh] = known_.try_emplace(t.impl(), t);
    if (!fresh) return known->second;
    if (Ref node = node_of(t); !depends_on_leaf(node))
      known->second = make_value(prim::contiguous(node), t.impl()->device);
    return known->second;
  }

 private:
  std::unordered_map<const TensorImpl*, Tensor> known_;
};

}  // namespace

void realize_by_device(std::vector<Tensor> tensors) {
  while (!tensors.empty()) {
    const uint8_t first = tensors[0].impl()->device;
    auto rest = std::stable_partition(tensors.begin(), tensors.end(),
                                      [&](const Tensor& t) { return t.impl()->device == first; });
    realize(std::vector<Tensor>(tensors.begin(), rest));
    tensors.erase(tensors.begin(), rest);
  }
}

namespace {

Storage* memory_of(const Tensor& t) {
  UOp base = prim::base_of(node_of(root_of(t)));
  return base ? base->arg.storage : nullptr;
}

void find_storages(const Walked& arguments, PlacedArguments& placed) {
  placed.storages.clear(), placed.roots.clear(), placed.places.clear(), placed.first_in.clear();
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Tensor &t = arguments.tensors[i].tensor, &piece = placed.pieces[i];
    const bool defined = t.defined(), whole = defined && is_whole_in_order(t);
    const bool used = defined && (whole || piece.impl() != t.impl());
    Storage* root = defined ? memory_of(t) : nullptr;
    placed.roots.push_back(root);
    placed.storages.push_back(used ? memory_of(piece) : nullptr);
    placed.first_in.try_emplace(placed.storages.back(), i);
    placed.places.push_back({root ? root->id : 0, defined && !whole ? t.impl()->chain : Ref()});
  }
}

}  // namespace

std::optional<size_t> PlacedArguments::first_with(const Storage* s) const {
  auto it = first_in.find(s);
  return it == first_in.end() ? std::nullopt : std::optional(it->second);
}

PlacedArguments place_arguments(const Walked& arguments) {
  PlacedArguments out;
  std::vector<Tensor> pending = take_pending();
  std::erase_if(
      pending, [](const Tensor& t) { return t.impl()->base.defined() || buffer_under(*t.impl()); });
  realize_by_device(pending);
  auto add = [&](const Tensor& t) {
    if (t.defined() && computes(t) && !buffer_under(*root_of(t).impl())) pending.push_back(t);
  };
  pending.clear();
  for (const NamedTensor& a : arguments.tensors) add(a.tensor);
  realize_by_device(pending);
  pending.clear();
  Pieces pieces;
  for (const NamedTensor& a : arguments.tensors) {
    out.pieces.push_back(pieces.of(a.tensor));
    add(out.pieces.back());
  }
  realize_by_device(pending);
  find_storages(arguments, out);
  return out;
}

void give_own_memory(const Walked& arguments, const std::vector<bool>& wanted,
                     PlacedArguments& placed) {
  std::vector<Tensor> pending;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Tensor& t = arguments.tensors[i].tensor;
    if (!t.defined() || !is_whole_in_order(t) || !computes(t)) continue;
    if ((!wanted.empty() && !wanted[i]) || root_of(t).impl()->storage) continue;
    give_storage(t);
    pending.push_back(t);
  }
  if (pending.empty()) return;
  realize(pending);
  find_storages(arguments, placed);
}

// ---- views as tensors of their own

void ShownViews::show(const Walked& arguments, const PlacedArguments& placed) {
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Tensor &t = arguments.tensors[i].tensor, &piece = placed.pieces[i];
    if (!t.defined() || piece.impl() == t.impl() || !t.impl()->base.defined()) continue;
    TensorImpl& impl = *t.impl();
    shown_.push_back({t, impl.base, impl.chain, impl.strides});
    impl.value = node_of(piece);
    impl.base = {}, impl.chain = {}, impl.strides = {};
  }
}

void ShownViews::hide(Shown& s) {
  TensorImpl& impl = *s.view.impl();
  if (impl.marked) return;  // the function made it a leaf: a tensor of its own
  set_own(impl, false);
  impl.value = {};
  impl.base = s.base, impl.chain = s.chain, impl.strides = s.strides;
}

bool ShownViews::prepare_write(const Tensor& t, const TensorSet& made) {
  if (shown_.empty()) return false;
  const TensorImpl* root = root_of(t).impl();
  for (const Shown& s : shown_)
    if (s.view.impl() == root) root = s.base.impl();
  auto is_of_it = [&](const Shown& s) { return s.base.impl() == root; };
  bool found = false;
  for (Shown& s : shown_) {
    if (!is_of_it(s)) continue;
    found = true;
    for (const TensorImpl* m : made)
      if (m->base.impl() == s.view.impl())
        look_through(const_cast<TensorImpl&>(*m), s.base, s.chain, s.strides);
    hide(s);
  }
  std::erase_if(shown_, is_of_it);
  return found;
}

void ShownViews::restore(const TensorSet& made) {
  for (Shown& s : shown_) {
    for (const TensorImpl* m : made) {
      if (m->base.impl() != s.view.impl()) continue;
      auto& impl = const_cast<TensorImpl&>(*m);
      impl.value = prim::contiguous(node_of(impl));
      impl.base = {}, impl.chain = {}, impl.strides = {};
    }
    hide(s);
  }
  shown_.clear();
}

}  // namespace mote
