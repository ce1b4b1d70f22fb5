#include "engine/jit_replay.h"

#include <algorithm>

#include "base/error.h"
#include "engine/lease.h"
#include "engine/realize.h"
#include "ir/device_list.h"
#include "ir/provenance.h"
#include "runtime/device.h"
#include "tensor/impl.h"

namespace mote {

namespace {

constexpr size_t kPool = 2;  // one that is kept, one to write

// The same expression or movement with the variables' values of now.
Ref with_values(const Ref& root, const VarValues& values) {
  std::unordered_map<const Node*, Ref> made;
  for (UOp n : toposort(UOp(root))) {
    std::vector<Ref> src;
    for (Node* s : n->src()) src.push_back(made.at(s));
    Ref now = Ref(n);
    if (n->is(Op::Var)) {
      if (const int64_t* value = find_value(values, n->arg.object->str))
        now = prim::bind(now, *value);
    } else if (!src.empty()) {
      now = tensor_graph::make(n->op, n->dtype, src, n->arg);
    }
    made.emplace(n.get(), now);
  }
  return made.at(root.get());
}

Ref buffer_node(Storage& s) {
  retain(&s);
  return tensor_graph::buffer(&s);
}

std::string size_text(const Storage& s) {
  return text(s.count, " ", s.dtype, " on ", device_name(s.device));
}

}  // namespace

// ---- handles of lists

KnownTensor::KnownTensor(Tensor t) : tensor_(std::move(t)) {
  if (tensor_.defined()) ++tensor_.impl()->known;
}

KnownTensor::~KnownTensor() {
  if (tensor_.defined()) --tensor_.impl()->known;
}

bool KnownTensor::held_elsewhere() const {
  const TensorImpl& t = *tensor_.impl();
  return t.refs.load(std::memory_order_acquire) > t.known.load();
}

// ---- what must hold

void Replayable::check_held() const {
  for (const State& s : states_)
    if (s.read_first && s.owner.defined() && !s.owner.held_elsewhere())
      refuse_replaced(size_text(*s.storage));
}

// Indices and slices of variables, with the values of now.
void Replayable::check_parts(const VarValues& values) const {
  for (const SymbolicPart& p : parts_) {
    Ref begin = with_values(p.begin, values), length = with_values(p.length, values),
        size = with_values(p.size, values);
    const AxisPart part{Dim(UOp(begin)), Dim(UOp(length)), Dim(UOp(size)), p.is_reshape};
    if (!fits_now(part).value_or(true)) fail_of(p.provenance, said_misfit(part));
  }
}

// Before anything runs. Memory that is still being written is looked at when that is done.
void Replayable::check_known_indices(const PlacedArguments& placed) const {
  if (!flag(Flag::CHECK)) return;
  for (const KnownIndex& k : known_indices_) {
    Storage& s = storage_of(k.memory, placed);
    device_buffer(s).ensure_memory("tensor");
    device_buffer(s).memory->wait();
    const std::string wrong = k.check.complaint(s);
    if (!wrong.empty()) fail_of(k.check.provenance(), wrong);
  }
}

void Replayable::watch_computed_indices(const VarValues& values) const {
  for (const ComputedIndex& c : computed_indices_) {
    DeviceCheck now = c.check;
    if (!is_const(now.n)) now.n = with_values(now.n, values);
    if (flag(Flag::CHECK)) watch(*chosen_[static_cast<size_t>(c.output)], now);
  }
}

// ---- replaying

TensorImpl& Replayable::leaf_of(const Gradient& g, const Walked& arguments) const {
  if (g.argument < 0) return *g.leaf.impl();
  return *root_of(arguments.tensors[static_cast<size_t>(g.argument)].tensor).impl();
}

Storage& Replayable::storage_of(MemoryRole memory, const PlacedArguments& placed) const {
  const auto i = static_cast<size_t>(memory.index);
  switch (memory.kind) {
    case MemoryRole::Argument: return *placed.storages[i];
    case MemoryRole::Gradient: return *prim::base_of(node_of(gradients_now_[i]))->arg.storage;
    case MemoryRole::State: return *states_[i].storage;
    default: return *chosen_[i];
  }
}

bool Replayable::is_written(MemoryRole memory) const {
  const auto i = static_cast<size_t>(memory.index);
  if (memory.kind == MemoryRole::Argument) return argument_written_[i];
  return memory.kind == MemoryRole::Gradient ? gradients_[i].written : states_[i].written;
}

void Replayable::place_gradients(const Walked& arguments, std::vector<Tensor>& written) {
  gradients_now_.clear();
  for (const Gradient& g : gradients_) {
    Tensor& has = leaf_of(g, arguments).grad;
    if (g.first == EffectListener::Drop) has = {};
    Tensor now = has;
    if (g.used) {
      if (g.written) give_storage(now);
      if (!buffer_under(*now.impl())) realize({now});
      if (g.written) written.push_back(now);
    }
    gradients_now_.push_back(std::move(now));
  }
}

// Writes that other threads left pending; this one's are finished by now.
void Replayable::finish_state() {
  std::vector<Tensor> pending;
  for (const State& s : states_)
    if (s.owner.defined() && !buffer_under(*s.owner.impl())) pending.push_back(s.owner);
  realize_by_device(std::move(pending));
}

// Whoever else still reads what is about to change gets a copy.
void Replayable::prepare_writes(std::vector<Tensor> written) {
  for (const State& s : states_)
    if (s.written && s.owner.defined()) written.push_back(s.owner);
  std::erase_if(written, [](const Tensor& t) { return is_sole_reader(*t.impl()); });
  set_aside(written);
}

void Replayable::choose_outputs() {
  chosen_.clear();
  for (Output& o : outputs_) {
    auto free =
        std::ranges::find_if(o.pool, [](const StorageRef& s) { return !s.held_elsewhere(); });
    if (free == o.pool.end()) {
      const Storage& like = *o.pool[0];
      StorageRef made = StorageRef::adopt(make_storage(like.device, like.dtype, like.count));
      if (o.pool.size() == kPool) o.pool.erase(o.pool.begin());
      o.pool.push_back(std::move(made));
      free = o.pool.end() - 1;
    }
    Storage& s = **free;
    s.requires_grad = false;
    s.from_graph = o.from_graph;
    chosen_.push_back(&s);
  }
}

// What an earlier replay wrote, and nothing holds, is nobody else's.
void Replayable::run(const PlacedArguments& placed) {
  StorageLease lease;
  for (size_t i = 0; i < params_.size(); ++i) {
    Storage& s = storage_of(params_[i], placed);
    list_->set_buffer(static_cast<int>(i), device_buffer(s));
    if (params_[i].kind != MemoryRole::Output) lease.add(s, is_written(params_[i]));
  }
  lease.take();
  list_->run();
}

Tensor Replayable::make_item(const Item& item, const Walked& arguments,
                             const PlacedArguments& placed) const {
  const auto index = static_cast<size_t>(item.index);
  switch (item.kind) {
    case Item::Given: return arguments.tensors[index].tensor;
    case Item::GivenRoot: return root_of(arguments.tensors[index].tensor);
    case Item::GivenGradient: return gradients_now_[index];
    case Item::Owned: return states_[index].owner;
    case Item::Value: {
      Storage& s = storage_of(item.memory, placed);
      Tensor t = make_value(fit(buffer_node(s), item.form->shape->dims), s.device);
      if (item.own) set_own(*t.impl(), true);
      return t;
    }
    case Item::View: return make_view(made_[index], item.form, item.strides);
    case Item::Undefined: break;
  }
  return {};
}

void Replayable::take_values(const VarValues& values) {
  if (values == values_) return;
  for (const auto& [name, value] : values) list_->set_value(name, value);
  for (Item& item : items_)
    if (item.symbolic) item.form = with_values(item.form, values);
  for (Ref& s : symbols_) s = with_values(s, values);
  values_ = values;
}

Replayable::Results Replayable::make_results(const Walked& arguments,
                                             const PlacedArguments& placed) {
  Results out;
  for (const Item& item : items_) made_.push_back(make_item(item, arguments, placed));
  for (int i : results_) out.tensors.push_back(made_[static_cast<size_t>(i)]);
  for (const Ref& s : symbols_) {
    s->refs.fetch_add(1, std::memory_order_relaxed);
    out.symbols.push_back(Sym::adopt(s.get()));
  }
  for (const Gradient& g : gradients_)
    if (!g.stays)
      leaf_of(g, arguments).grad = g.item < 0 ? Tensor() : made_[static_cast<size_t>(g.item)];
  made_.clear();
  gradients_now_.clear();
  return out;
}

Replayable::Results Replayable::replay(const VarValues& values, const Walked& arguments,
                                       PlacedArguments& placed) {
  check_parts(values);
  finish_state();
  check_known_indices(placed);
  give_own_memory(arguments, argument_written_, placed);
  std::vector<Tensor> written;
  for (size_t i = 0; i < argument_written_.size(); ++i)
    if (argument_written_[i]) written.push_back(root_of(placed.pieces[i]));
  place_gradients(arguments, written);
  prepare_writes(std::move(written));
  choose_outputs();
  take_values(values);
  run(placed);
  watch_computed_indices(values);
  Results results = make_results(arguments, placed);
  raise_violations(false);
  return results;
}

std::vector<JitState> Replayable::state(const std::vector<NamedTensor>& names) const {
  std::vector<JitState> out;
  auto name_of = [&](const Tensor& t, const char* suffix) {
    for (const NamedTensor& n : names)
      if (n.tensor.defined() && t.defined() && root_of(n.tensor).impl() == t.impl())
        return n.name + suffix;
    return text("#", out.size());
  };
  auto shape_found = [](const Tensor& t, int64_t count) {
    return t.defined() && !shape_of(t).symbolic ? shape_of(t).sizes() : std::vector{count};
  };
  for (const State& s : states_)
    if (s.read_first)
      out.push_back({name_of(s.owner, ""), s.owner, shape_found(s.owner, s.storage->count),
                     s.storage->dtype, device_name(s.storage->device), s.written});
  for (const Gradient& g : gradients_) {
    if (!g.used || !g.leaf.defined()) continue;
    const Tensor& leaf = g.leaf;
    out.push_back({name_of(leaf, ".grad"), leaf.impl()->grad, shape_of(leaf).sizes(), leaf.dtype(),
                   leaf.device(), g.written});
  }
  return out;
}

}  // namespace mote
