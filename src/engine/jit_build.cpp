// From a recording to a list that replays it.
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "engine/jit_replay.h"
#include "ir/device_list.h"
#include "rewrite/rewrite.h"
#include "tensor/impl.h"

namespace mote {

// ---- what a call did

namespace {

uint64_t word(MemoryRole r) { return (uint64_t{r.kind} << 32) | static_cast<uint32_t>(r.index); }

// What an argument shows as a whole: the tensor, or the one that it is a view of in another shape.
// What is under a view of a part is unknown to a function that sees a copy.
const TensorImpl* shown_whole(const Tensor& t) {
  return t.defined() && is_whole_in_order(t) ? root_of(t).impl() : nullptr;
}

// By tensor, the first argument that it is or is under.
struct Given {
  int index;
  bool is_itself;
};
using GivenTensors = std::unordered_map<const TensorImpl*, Given>;

GivenTensors given_tensors(const Walked& arguments) {
  GivenTensors out;
  for (const NamedTensor& a : arguments.tensors) {
    const auto index = static_cast<int>(&a - arguments.tensors.data());
    if (a.tensor.defined()) out.try_emplace(a.tensor.impl(), Given{index, true});
    if (const TensorImpl* root = shown_whole(a.tensor)) out.try_emplace(root, Given{index, false});
  }
  return out;
}

}  // namespace

// A gradient that was dropped first can have been used only through another handle: it is a tensor
// like others.
static MemoryRoles given_roles(const Recorder& recorder, const PlacedArguments& placed) {
  MemoryRoles roles;
  for (size_t i = 0; i < placed.storages.size(); ++i)
    if (Storage* s = placed.storages[i])
      roles.try_emplace(s, MemoryRole{MemoryRole::Argument, static_cast<int>(i)});
  for (size_t i = 0; i < recorder.gradients.size(); ++i) {
    const RecordedGradient& g = recorder.gradients[i];
    Storage* s = g.before.defined() ? g.before.impl()->storage : nullptr;
    if (s && g.first != Recorder::Drop && !recorder.is_fresh(*s))
      roles.try_emplace(s, MemoryRole{MemoryRole::Gradient, static_cast<int>(i)});
  }
  return roles;
}

Recording recording_of(const Recorder& recorder, const Walked& arguments,
                       const PlacedArguments& placed, const Walked& results) {
  Recording out;
  const MemoryRoles roles = given_roles(recorder, placed);
  const GivenTensors given = given_tensors(arguments);
  auto add_memory = [&](const Storage& s) {
    if (auto known = roles.find(&s); known != roles.end())
      out.uses.push_back(word(known->second));
    else if (recorder.is_fresh(s))
      out.uses.push_back(word({MemoryRole::Output}));
    else
      out.uses.insert(out.uses.end(), {word({MemoryRole::State}), s.id});
  };
  auto add_tensor = [&](const Tensor& root) {
    if (auto argument = given.find(root.impl()); argument != given.end())
      out.uses.push_back(word({MemoryRole::Argument, argument->second.index}));
    else if (UOp base = prim::base_of(node_of(root)))
      add_memory(*base->arg.storage);
  };
  for (const RecordedRun& run : recorder.runs) {
    out.plans.push_back(run.plan);
    for (const Storage* s : run.buffers) add_memory(*s);
  }
  out.places = placed.places;
  for (const RecordedGradient& g : recorder.gradients) {
    out.uses.push_back(word({MemoryRole::Gradient, g.first}));
    add_tensor(g.leaf);
    out.places.push_back({g.place, {}});
  }
  // A result may be the very tensor that an argument is, and known to the function itself as well.
  for (const NamedTensor& r : results.tensors) {
    if (!r.tensor.defined()) continue;
    add_tensor(given.count(r.tensor.impl()) ? r.tensor : root_of(r.tensor));
  }
  return out;
}

class ReplayBuilder {
 public:
  ReplayBuilder(Replayable& to, const Recorder& recorder, const Walked& arguments,
                const PlacedArguments& placed)
      : to_(to),
        recorder_(recorder),
        arguments_(arguments),
        given_(given_tensors(arguments)),
        roles_(given_roles(recorder, placed)) {
    find_gradients();
  }

  void add_results(const Walked& results);
  void add_gradients();
  void add_states();
  void add_checks();
  void make_list(const VarValues& values);

 private:
  Replayable& to_;
  const Recorder& recorder_;
  const Walked& arguments_;
  GivenTensors given_;
  MemoryRoles roles_;
  std::unordered_map<const TensorImpl*, int> item_of_;
  std::vector<DeviceBuffer*> buffers_;                 // by param
  std::unordered_map<const Storage*, UOp> memory_of_;  // in the joined plan
  int temporaries_ = 0;
  Facts facts_;

  using Item = Replayable::Item;

  void find_gradients();
  int add_item(const Tensor& t);
  Item given_item(const TensorImpl* impl) const;
  Item value_item(const Tensor& t);
  MemoryRole role_of(const Storage* s) const {
    auto it = roles_.find(s);
    return it == roles_.end() ? MemoryRole() : it->second;
  }
  MemoryRole add_state(Storage& s);
  MemoryRole add_output(Storage& s);
  UOp temporary(UOp like) {
    return param(temporaries_++, like->dtype, count_of(like), Space::Local, like->device);
  }
  UOp memory_in_list(Storage& s, UOp like);
  void note_use(Storage& s, bool reads, bool writes, std::unordered_set<const Storage*>& whole);
  UOp joined(const RecordedRun& run);
  std::shared_ptr<const CompiledPlan> joined_plan();
  void note_uses(const RecordedRun& run, std::unordered_set<const Storage*>& whole);
  void check_values(const VarValues& values) const;
};

namespace {

[[noreturn]] void refuse_host_values(const Storage& s) {
  fail(ErrorKind::User,
       text("[jit] the function makes a tensor of ", s.count, " ", s.dtype,
            " from values of the host, and every replay would use the same ones; make it once "
            "outside the function, or pass it as an argument"));
}

bool has_variables(UOp form) {
  return std::ranges::any_of(toposort(form), [](UOp n) { return n->is(Op::Var); });
}

}  // namespace

// ---- what is made of what

ReplayBuilder::Item ReplayBuilder::given_item(const TensorImpl* impl) const {
  if (const MemoryRole r = role_of(impl->storage); r.kind == MemoryRole::Gradient)
    if (recorder_.gradients[static_cast<size_t>(r.index)].before.impl() == impl)
      return {Item::GivenGradient, r.index};
  const auto argument = given_.find(impl);
  if (argument == given_.end()) return {Item::Undefined};
  return {argument->second.is_itself ? Item::Given : Item::GivenRoot, argument->second.index};
}

MemoryRole ReplayBuilder::add_state(Storage& s) {
  auto [it, fresh] =
      roles_.try_emplace(&s, MemoryRole{MemoryRole::State, static_cast<int>(to_.states_.size())});
  if (fresh) {
    to_.state_of_.emplace(&s, it->second.index);
    to_.states_.push_back({StorageRef(s), owner_of(s), s.left.load(), s.requires_grad});
  }
  return it->second;
}

MemoryRole ReplayBuilder::add_output(Storage& s) {
  const RecordedStorage* known = recorder_.find(s);
  if (known ? known->from_host : device_buffer(s).allocated()) refuse_host_values(s);
  auto [it, fresh] =
      roles_.try_emplace(&s, MemoryRole{MemoryRole::Output, static_cast<int>(to_.outputs_.size())});
  if (fresh) {
    to_.outputs_.push_back({{}, s.from_graph});
    to_.outputs_.back().pool.emplace_back(s);
  }
  return it->second;
}

ReplayBuilder::Item ReplayBuilder::value_item(const Tensor& t) {
  Storage& s = *prim::base_of(node_of(t))->arg.storage;
  MemoryRole memory = role_of(&s);
  if (memory.kind != MemoryRole::Argument && memory.kind != MemoryRole::Gradient)
    memory = recorder_.is_fresh(s) ? add_output(s) : add_state(s);
  if (memory.kind == MemoryRole::State && s.owner == t.impl()) return {Item::Owned, memory.index};
  Item item{Item::Value, 0, memory, chain_of(t)};
  item.symbolic = has_variables(item.form);
  item.own = memory.kind == MemoryRole::Output && t.impl()->storage;
  return item;
}

int ReplayBuilder::add_item(const Tensor& t) {
  const int known = t.defined() && item_of_.count(t.impl()) ? item_of_[t.impl()] : -1;
  if (known >= 0) return known;
  Item item = t.defined() ? given_item(t.impl()) : Item{Item::Undefined};
  if (t.defined() && item.kind == Item::Undefined) {
    if (t.impl()->base.defined()) {
      item = {Item::View, add_item(t.impl()->base), {}, t.impl()->chain};
      item.symbolic = has_variables(item.form);
      item.strides = t.impl()->strides;
    } else {
      item = value_item(t);
    }
  }
  to_.items_.push_back(std::move(item));
  const int index = static_cast<int>(to_.items_.size()) - 1;
  if (t.defined()) item_of_[t.impl()] = index;
  return index;
}

void ReplayBuilder::add_results(const Walked& results) {
  for (const NamedTensor& r : results.tensors) to_.results_.push_back(add_item(r.tensor));
  for (const NamedSym& s : results.symbols) to_.symbols_.emplace_back(UOp(s.symbol.node()));
}

void ReplayBuilder::find_gradients() {
  for (const RecordedGradient& g : recorder_.gradients) {
    const auto k = static_cast<int>(to_.gradients_.size());
    Storage* s = g.before.defined() ? g.before.impl()->storage : nullptr;
    const MemoryRole role = role_of(s);
    const bool is_it = role == MemoryRole{MemoryRole::Gradient, k};
    const auto argument = given_.find(g.leaf.impl());
    const int from = argument == given_.end() ? -1 : argument->second.index;
    to_.gradients_.push_back({from < 0 ? KnownTensor(g.leaf) : KnownTensor(), from, g.first,
                              g.before.defined(),
                              is_it && g.leaf.impl()->grad.impl() == g.before.impl()});
    if (role.kind == MemoryRole::Argument) to_.gradients_.back().given = role.index;
  }
}

void ReplayBuilder::add_gradients() {
  for (size_t i = 0; i < to_.gradients_.size(); ++i)
    if (const Tensor& after = recorder_.gradients[i].leaf.impl()->grad;
        after.defined() && !to_.gradients_[i].stays)
      to_.gradients_[i].item = add_item(after);
}

// What a new tensor was made with from the host stays only if the tensor does.
void ReplayBuilder::add_states() {
  for (const RecordedStorage& r : recorder_.storages) {
    Storage& s = *r.storage;
    if (role_of(&s).kind != MemoryRole::Temporary || (r.fresh && !r.from_host)) continue;
    const MemoryRole state = add_state(s);
    const KnownTensor& owner = to_.states_[static_cast<size_t>(state.index)].owner;
    if (r.from_host && !(owner.defined() && owner.held_elsewhere())) refuse_host_values(s);
  }
}

// What a kernel finds is kept, as a result is, until it has been looked at.
void ReplayBuilder::add_checks() {
  to_.parts_ = recorder_.parts;
  for (const RecordedCheck& c : recorder_.device_checks)
    to_.computed_indices_.push_back({c.check, add_output(*c.storage).index});
  for (const HostCheck& c : recorder_.host_checks) {
    const MemoryRole memory = role_of(&c.storage());
    if (memory.kind == MemoryRole::Argument || memory.kind == MemoryRole::State)
      to_.known_indices_.push_back({c, memory});
  }
}

// ---- the list

void ReplayBuilder::note_use(Storage& s, bool reads, bool writes,
                             std::unordered_set<const Storage*>& whole) {
  const MemoryRole role = role_of(&s);
  const auto i = static_cast<size_t>(role.index);
  if (role.kind == MemoryRole::Argument && writes) to_.argument_written_[i] = true;
  if (role.kind == MemoryRole::Gradient) to_.gradients_[i].written |= writes;
  if (role.kind != MemoryRole::State) return;
  Replayable::State& state = to_.states_[i];
  state.written |= writes;
  const bool keeps = recorder_.find(s)->partly;
  state.read_first |= !whole.count(&s) && (reads || (writes && keeps));
  if (writes && !keeps) whole.insert(&s);
}

void ReplayBuilder::note_uses(const RecordedRun& run, std::unordered_set<const Storage*>& whole) {
  for (UOp s : run.plan->steps->src()) {
    if (!is_step(s)) continue;
    const std::span<Node* const> places = places_of(s);
    for (uint32_t i = 0; i < places.size(); ++i)
      if (UOp memory = memory_of(places[i]); !is_temporary(memory))
        note_use(*run.buffers[static_cast<size_t>(slot_of(memory))], facts_.reads(s, i),
                 i < written_by(s), whole);
  }
}

UOp ReplayBuilder::memory_in_list(Storage& s, UOp like) {
  auto [it, fresh] = memory_of_.try_emplace(&s);
  if (!fresh) return it->second;
  const MemoryRole role = role_of(&s);
  if (role.kind == MemoryRole::Temporary) return it->second = temporary(like);
  if (role.kind == MemoryRole::Gradient)
    to_.gradients_[static_cast<size_t>(role.index)].used = true;
  const auto slot = static_cast<int>(buffers_.size());
  to_.params_.push_back(role);
  buffers_.push_back(&device_buffer(s));
  return it->second = param(slot, like->dtype, count_of(like), Space::Global, like->device);
}

// The run's plan on the memories of the joined one, in the current arena.
UOp ReplayBuilder::joined(const RecordedRun& run) {
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp memory : memories_of(run.plan->steps)) {
    auto own = [&] { return run.buffers[static_cast<size_t>(slot_of(memory))]; };
    map.emplace_back(memory,
                     is_temporary(memory) ? temporary(memory) : memory_in_list(*own(), memory));
  }
  return import(run.plan->steps, map);
}

// The runs, one after the other; a value that only the next run reads is a temporary.
std::shared_ptr<const CompiledPlan> ReplayBuilder::joined_plan() {
  Arena arena;
  ArenaScope scope(arena);
  std::unordered_set<const Storage*> whole;
  std::vector<UOp> statements;
  for (const RecordedRun& run : recorder_.runs) {
    note_uses(run, whole);
    for (UOp s : joined(run)->src()) statements.push_back(s);
  }
  auto plan = std::make_shared<CompiledPlan>(linear(statements));
  ArenaScope kept(plan->arena);
  for (const RecordedRun& run : recorder_.runs)
    for (const auto& [body, kernel] : run.plan->kernels)
      plan->kernels[{import(UOp(body.first)).get(), body.second}] = kernel;
  return plan;
}

void ReplayBuilder::check_values(const VarValues& values) const {
  for (const RecordedRun& run : recorder_.runs)
    for (const auto& [name, value] : run.values) {
      const int64_t* given = find_value(values, name);
      check(given && *given == value, "[jit] the function binds the variable ", name, " to ", value,
            " itself, and every replay would use that; pass the bound variable "
            "as an argument");
    }
}

void ReplayBuilder::make_list(const VarValues& values) {
  check_values(values);
  to_.argument_written_.assign(arguments_.tensors.size(), false);
  auto plan = joined_plan();
  to_.list_ = std::make_unique<CallList>(plan, buffers_, values);
}

Replayable::Replayable(const Recorder& recorder, const VarValues& values, const Walked& arguments,
                       const PlacedArguments& placed, const Walked& results, Situation situation)
    : situation_(std::move(situation)), argument_switches_(arguments.switches) {
  for (const RecordedRun& run : recorder.runs)
    classes_.insert(classes_.end(), run.classes.begin(), run.classes.end());
  for (const NamedTensor& a : arguments.tensors) was_.emplace_back(a.tensor);
  for (const RecordedGradient& g : recorder.gradients)
    was_.emplace_back(g.before);
  for (const Storage* s : placed.storages) same_as_.push_back(*placed.first_with(s));
  ReplayBuilder builder(*this, recorder, arguments, placed);
  builder.add_results(results);
  builder.add_gradients();
  builder.add_states();
  builder.add_checks();
  builder.make_list(values);
}

}  // namespace mote
