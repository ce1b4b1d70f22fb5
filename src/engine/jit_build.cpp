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

enum Word : uint64_t { Argument = 1, Gradient, Fresh, Known };  // in the upper half

uint64_t word(Word kind, size_t index) { return (uint64_t{kind} << 32) | index; }

// What an argument shows as a whole: the tensor, or the one that it is a view of in another shape.
// What is under a view of a part is unknown to a function that sees a copy.
const TensorImpl* shown_whole(const Tensor& t) {
  return t.defined() && is_whole_in_order(t) ? root_of(t).impl() : nullptr;
}

// The first argument that a tensor is, or is under.
class GivenTensors {
 public:
  struct Given {
    int index;
    bool is_itself;
  };
  explicit GivenTensors(const Walked& arguments) {
    for (const NamedTensor& a : arguments.tensors) {
      const auto index = static_cast<int>(&a - arguments.tensors.data());
      if (a.tensor.defined()) known_.try_emplace(a.tensor.impl(), Given{index, true});
      if (const TensorImpl* root = shown_whole(a.tensor))
        known_.try_emplace(root, Given{index, false});
    }
  }
  const Given* find(const TensorImpl* t) const {
    auto it = known_.find(t);
    return it == known_.end() ? nullptr : &it->second;
  }

 private:
  std::unordered_map<const TensorImpl*, Given> known_;
};

}  // namespace

// A gradient that was dropped first can have been used only through another handle: it is a tensor
// like others.
Roles::Roles(const Recorder& recorder, const PlacedArguments& placed) {
  for (size_t i = 0; i < placed.storages.size(); ++i)
    if (placed.storages[i]) argument_of.try_emplace(placed.storages[i], static_cast<int>(i));
  for (size_t i = 0; i < recorder.gradients().size(); ++i) {
    const RecordedGradient& g = recorder.gradients()[i];
    Storage* s = g.before.defined() ? g.before.impl()->storage : nullptr;
    if (s && g.first != Recorder::Drop && !recorder.is_fresh(*s) && !argument_of.count(s))
      gradient_of.try_emplace(s, static_cast<int>(i));
  }
}

Recording recording_of(const Recorder& recorder, const Walked& arguments,
                       const PlacedArguments& placed, const Walked& results) {
  Recording out;
  Roles roles(recorder, placed);
  GivenTensors given(arguments);
  auto add_memory = [&](const Storage& s) {
    if (auto i = roles.argument_of.find(&s); i != roles.argument_of.end())
      out.uses.push_back(word(Argument, static_cast<size_t>(i->second)));
    else if (auto k = roles.gradient_of.find(&s); k != roles.gradient_of.end())
      out.uses.push_back(word(Gradient, static_cast<size_t>(k->second)));
    else if (recorder.is_fresh(s))
      out.uses.push_back(word(Fresh, 0));
    else
      out.uses.insert(out.uses.end(), {word(Known, 0), s.id});
  };
  auto add_tensor = [&](const Tensor& root) {
    if (const auto* argument = given.find(root.impl()))
      out.uses.push_back(word(Argument, static_cast<size_t>(argument->index)));
    else if (UOp base = prim::base_of(node_of(root)))
      add_memory(*base->arg.storage);
  };
  for (const RecordedRun& run : recorder.runs()) {
    out.plans.push_back(run.plan);
    for (const Storage* s : run.buffers) add_memory(*s);
  }
  out.places = placed.places;
  for (const RecordedGradient& g : recorder.gradients()) {
    out.uses.push_back(word(Gradient, g.first));
    add_tensor(g.leaf);
    const Storage* s = g.before.defined() ? g.before.impl()->storage : nullptr;
    out.places.push_back({s ? s->id : 0, {}});
  }
  // A result may be the very tensor that an argument is, and known to the function itself as well.
  for (const NamedTensor& r : results.tensors) {
    if (!r.tensor.defined()) continue;
    add_tensor(given.find(r.tensor.impl()) ? r.tensor : root_of(r.tensor));
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
        given_(arguments),
        roles_(recorder, placed),
        argument_of_(roles_.argument_of),
        gradient_of_(roles_.gradient_of) {
    find_gradients();
  }

  void add_results(const Walked& results);
  void add_gradients();
  void add_states();
  void add_checks();
  void make_list(const Values& values);

 private:
  Replayable& to_;
  const Recorder& recorder_;
  const Walked& arguments_;
  GivenTensors given_;
  Roles roles_;
  const std::unordered_map<const Storage*, int>&argument_of_, &gradient_of_;
  std::unordered_map<const Storage*, int> output_of_;
  std::unordered_map<const TensorImpl*, int> item_of_;
  std::unordered_map<const Storage*, int> param_of_;
  std::vector<DeviceBuffer*> params_;
  std::unordered_map<const Storage*, UOp> memory_of_;  // in the joined plan
  int temporaries_ = 0;
  Facts facts_;

  using Item = Replayable::Item;

  void find_gradients();
  int add_item(const Tensor& t);
  Item given_item(const TensorImpl* impl) const;
  Item value_item(const Tensor& t);
  int state_index(Storage& s);
  int output_index(Storage& s);
  bool is_temporary(const Storage& s) const {
    return !argument_of_.count(&s) && !gradient_of_.count(&s) && !output_of_.count(&s) &&
           !to_.state_of_.count(&s);
  }
  int param(Storage& s);
  void note_use(Storage& s, bool reads, bool writes, std::unordered_set<const Storage*>& whole);
  UOp joined(const RecordedRun& run);
  std::shared_ptr<const CompiledPlan> joined_plan();
  void note_uses(const RecordedRun& run, std::unordered_set<const Storage*>& whole);
  void check_values(const Values& values) const;
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
  if (auto g = gradient_of_.find(impl->storage); g != gradient_of_.end())
    if (recorder_.gradients()[static_cast<size_t>(g->second)].before.impl() == impl)
      return {Item::GivenGradient, g->second};
  const auto* argument = given_.find(impl);
  if (!argument) return {Item::Undefined};
  return {argument->is_itself ? Item::Given : Item::GivenRoot, argument->index};
}

int ReplayBuilder::state_index(Storage& s) {
  auto [it, fresh] = to_.state_of_.try_emplace(&s, static_cast<int>(to_.states_.size()));
  if (fresh) to_.states_.push_back({StorageRef(s), owner_of(s), s.left.load(), s.requires_grad});
  return it->second;
}

int ReplayBuilder::output_index(Storage& s) {
  const RecordedStorage* known = recorder_.find(s);
  if (known ? known->from_host : device_buffer(s).allocated()) refuse_host_values(s);
  auto [it, fresh] = output_of_.try_emplace(&s, static_cast<int>(to_.outputs_.size()));
  if (fresh) {
    to_.outputs_.push_back({{}, -1, s.from_graph});
    to_.outputs_.back().pool.emplace_back(s);
  }
  return it->second;
}

ReplayBuilder::Item ReplayBuilder::value_item(const Tensor& t) {
  Storage& s = *prim::base_of(node_of(t))->arg.storage;
  Item item{Item::OfOutput, 0, chain_of(t)};
  item.symbolic = has_variables(item.form);
  if (auto given = argument_of_.find(&s); given != argument_of_.end()) {
    item.kind = Item::OfArgument;
    item.index = given->second;
  } else if (auto had = gradient_of_.find(&s); had != gradient_of_.end()) {
    item.kind = Item::OfGradient;
    item.index = had->second;
  } else if (!recorder_.is_fresh(s)) {
    item.index = state_index(s);
    item.kind = s.owner == t.impl() ? Item::Owned : Item::OfState;
  } else {
    item.index = output_index(s);
    item.own = t.impl()->storage != nullptr;
  }
  return item;
}

int ReplayBuilder::add_item(const Tensor& t) {
  const int known = t.defined() && item_of_.count(t.impl()) ? item_of_[t.impl()] : -1;
  if (known >= 0) return known;
  Item item = t.defined() ? given_item(t.impl()) : Item{Item::Undefined};
  if (t.defined() && item.kind == Item::Undefined) {
    if (t.impl()->base.defined()) {
      item = {Item::View, add_item(t.impl()->base), t.impl()->chain};
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
  for (const RecordedGradient& g : recorder_.gradients()) {
    const auto k = static_cast<int>(to_.gradients_.size());
    Storage* s = g.before.defined() ? g.before.impl()->storage : nullptr;
    auto role = gradient_of_.find(s);
    const bool is_it = role != gradient_of_.end() && role->second == k;
    const auto* argument = given_.find(g.leaf.impl());
    const int from = argument ? argument->index : -1;
    to_.gradients_.push_back({from < 0 ? KnownTensor(g.leaf) : KnownTensor(), from, g.first,
                              g.before.defined(),
                              is_it && g.leaf.impl()->grad.impl() == g.before.impl()});
    if (auto given = argument_of_.find(s); given != argument_of_.end())
      to_.gradients_.back().given = given->second;
  }
}

void ReplayBuilder::add_gradients() {
  for (size_t i = 0; i < to_.gradients_.size(); ++i)
    if (const Tensor& after = recorder_.gradients()[i].leaf.impl()->grad;
        after.defined() && !to_.gradients_[i].stays)
      to_.gradients_[i].item = add_item(after);
}

// What a new tensor was made with from the host stays only if the tensor does.
void ReplayBuilder::add_states() {
  for (const RecordedStorage& r : recorder_.storages()) {
    Storage& s = *r.storage;
    if (!is_temporary(s)) continue;
    if (r.fresh && !r.from_host) continue;
    const int at = state_index(s);
    const KnownTensor& owner = to_.states_[static_cast<size_t>(at)].owner;
    if (r.from_host && !(owner.defined() && owner.held_elsewhere())) refuse_host_values(s);
  }
}

// What a kernel finds is kept, as a result is, until it has been looked at.
void ReplayBuilder::add_checks() {
  to_.parts_ = recorder_.parts();
  for (const RecordedCheck& c : recorder_.device_checks())
    to_.computed_indices_.push_back({c.check, output_index(*c.storage)});
  for (const HostCheck& c : recorder_.host_checks()) {
    auto given = argument_of_.find(&c.storage());
    if (given != argument_of_.end())
      to_.known_indices_.push_back({c, given->second});
    else if (to_.state_of_.count(&c.storage()))
      to_.known_indices_.push_back({c, -1});
  }
}

// ---- the list

int ReplayBuilder::param(Storage& s) {
  auto [it, fresh] = param_of_.try_emplace(&s, static_cast<int>(params_.size()));
  if (fresh) params_.push_back(&device_buffer(s));
  return it->second;
}

void ReplayBuilder::note_use(Storage& s, bool reads, bool writes,
                             std::unordered_set<const Storage*>& whole) {
  if (auto it = argument_of_.find(&s); it != argument_of_.end() && writes)
    to_.argument_written_[static_cast<size_t>(it->second)] = true;
  if (auto it = gradient_of_.find(&s); it != gradient_of_.end())
    to_.gradients_[static_cast<size_t>(it->second)].written |= writes;
  auto it = to_.state_of_.find(&s);
  if (it == to_.state_of_.end()) return;
  Replayable::State& state = to_.states_[static_cast<size_t>(it->second)];
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
      if (UOp memory = memory_of(places[i]); !mote::is_temporary(memory))
        note_use(*run.buffers[static_cast<size_t>(slot_of(memory))], facts_.reads(s, i),
                 i < written_by(s), whole);
  }
}

// The run's plan on the memories of the joined one, in the current arena.
UOp ReplayBuilder::joined(const RecordedRun& run) {
  auto temporary = [&](UOp like) {
    return mote::param(temporaries_++, like->dtype, count_of(like), Space::Local, like->device);
  };
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp memory : memories_of(run.plan->steps)) {
    if (mote::is_temporary(memory)) {
      map.emplace_back(memory, temporary(memory));
      continue;
    }
    Storage& s = *run.buffers[static_cast<size_t>(slot_of(memory))];
    auto [it, fresh] = memory_of_.try_emplace(&s);
    if (fresh)
      it->second = is_temporary(s) ? temporary(memory)
                                   : mote::param(param(s), memory->dtype, count_of(memory),
                                                 Space::Global, memory->device);
    map.emplace_back(memory, it->second);
  }
  return import(run.plan->steps, map);
}

// The runs, one after the other; a value that only the next run reads is a temporary.
std::shared_ptr<const CompiledPlan> ReplayBuilder::joined_plan() {
  Arena arena;
  ArenaScope scope(arena);
  std::unordered_set<const Storage*> whole;
  std::vector<UOp> statements;
  for (const RecordedRun& run : recorder_.runs()) {
    note_uses(run, whole);
    for (UOp s : joined(run)->src()) statements.push_back(s);
  }
  auto plan = std::make_shared<CompiledPlan>(linear(statements));
  ArenaScope kept(plan->arena);
  for (const RecordedRun& run : recorder_.runs())
    for (const auto& [body, kernel] : run.plan->kernels)
      plan->kernels[{import(UOp(body.first)).get(), body.second}] = kernel;
  return plan;
}

void ReplayBuilder::check_values(const Values& values) const {
  for (const RecordedRun& run : recorder_.runs())
    for (const auto& [name, value] : run.values) {
      auto given = std::ranges::find(values, name, [](const auto& v) { return v.first; });
      check(given != values.end() && given->second == value,
            "[jit] the function binds the variable ", name, " to ", value,
            " itself, and every replay would use that; pass the bound variable "
            "as an argument");
    }
}

void ReplayBuilder::make_list(const Values& values) {
  check_values(values);
  to_.argument_params_.assign(arguments_.tensors.size(), -1);
  to_.argument_written_.assign(arguments_.tensors.size(), false);
  auto plan = joined_plan();
  for (const auto& [s, i] : argument_of_)
    if (auto p = param_of_.find(s); p != param_of_.end())
      to_.argument_params_[static_cast<size_t>(i)] = p->second;
  for (const auto& [s, i] : gradient_of_)
    if (auto p = param_of_.find(s); p != param_of_.end())
      to_.gradients_[static_cast<size_t>(i)].param = p->second;
  for (const auto& [s, i] : output_of_)
    if (auto p = param_of_.find(s); p != param_of_.end())
      to_.outputs_[static_cast<size_t>(i)].param = p->second;
  to_.list_ = std::make_unique<CallList>(plan, params_, values);
}

Replayable::Replayable(const Recorder& recorder, const Values& values, const Walked& arguments,
                       const PlacedArguments& placed, const Walked& results, Situation situation)
    : situation_(std::move(situation)), argument_switches_(arguments.switches) {
  for (const NamedTensor& a : arguments.tensors) was_.emplace_back(a.tensor);
  for (const RecordedGradient& g : recorder.gradients())
    was_.emplace_back(g.first == Recorder::Drop ? Tensor() : g.before);
  for (const Storage* s : placed.storages) same_as_.push_back(*placed.first_with(s));
  ReplayBuilder builder(*this, recorder, arguments, placed);
  builder.add_results(results);
  builder.add_gradients();
  builder.add_states();
  builder.add_checks();
  builder.make_list(values);
}

}  // namespace mote
