// Whether a captured list holds for a call.
#include <mote/autocast.h>
#include <mote/no_grad.h>

#include <algorithm>

#include "base/error.h"
#include "engine/jit_replay.h"
#include "tensor/impl.h"

namespace mote {

namespace {

const char* on_or_off(bool on) { return on ? "on" : "off"; }

Storage* own_storage(const Tensor& t) { return t.defined() ? t.impl()->storage : nullptr; }

}  // namespace

std::string Replayable::changed_class(const VarValues& values) const {
  for (const auto& [name, made_for] : classes_)
    if (const int64_t* value = find_value(values, name); value && !made_for.has(*value))
      return text("the variable ", name, " is ", *value, ", it was one of ", made_for.lo, " to ",
                  made_for.hi);
  return "";
}

std::string Replayable::changed_switch(const Walked& arguments) const {
  for (const SeenSwitch& s : situation_.switches)
    if (s.cell->on != s.on)
      return text("training of ", s.where, " is ", on_or_off(s.cell->on), ", it was ",
                  on_or_off(s.on));
  for (size_t i = 0; i < argument_switches_.size(); ++i)
    if (arguments.switches[i] != argument_switches_[i])
      return text("argument ", arguments.switches[i].first, ": training is ",
                  on_or_off(arguments.switches[i].second));
  if (plain_switches() != situation_.plain_switches)
    return "train() or eval() has changed a module";
  if (autocast_dtype() != situation_.autocast)
    return text("the autocast scope is another one: ", autocast_dtype(), ", it was ",
                situation_.autocast);
  if (is_grad_enabled() != situation_.grad_enabled)
    return is_grad_enabled() ? "the no_grad scope is gone" : "it is called in a no_grad scope";
  return "";
}

std::string Replayable::changed_aliases(const Walked& arguments,
                                        const PlacedArguments& placed) const {
  auto name = [&](size_t i) { return text("argument ", arguments.tensors[i].name); };
  for (size_t i = 0; i < same_as_.size(); ++i) {
    const bool is_view = static_cast<bool>(placed.places[i].chain);
    if (is_view != static_cast<bool>(situation_.recording.places[i].chain))
      return text(name(i), is_view ? " is a view of a part of a tensor" : " is a whole tensor");
    Storage* s = placed.storages[i];
    const size_t first = *placed.first_with(s), then = same_as_[i];
    if (first < then) return text(name(i), " has the memory of ", name(first));
    if (first > then) return text(name(i), " no longer has the memory of ", name(then));
    if (is_state(s))
      return text(name(i), " has the memory of a tensor that the function uses itself (", s->count,
                  " ", s->dtype, ")");
  }
  return "";
}

std::string Replayable::changed_gradient(const Walked& arguments,
                                         const PlacedArguments& placed) const {
  for (const Gradient& g : gradients_) {
    TensorImpl& leaf = leaf_of(g, arguments);
    if (!leaf.marked) return "a tensor no longer requires a gradient";
    if (g.first == EffectListener::Drop) continue;
    if (leaf.grad.defined() != g.was_there)
      return text("a parameter of shape ", *leaf.value->shape,
                  g.was_there ? " has no gradient, it had one" : " has a gradient, it had none");
    const Storage* s = own_storage(leaf.grad);
    if (!s) continue;
    if (is_state(s)) return "a gradient is a tensor that the function uses itself";
    const std::optional<size_t> at = placed.first_with(s);
    const int given = at ? static_cast<int>(*at) : -1;
    if (given != g.given)
      return text("argument ",
                  arguments.tensors[static_cast<size_t>(std::max(given, g.given))].name,
                  " is the gradient of a parameter, or was it");
  }
  return "";
}

std::string Replayable::changed_state() const {
  for (const Tensor& t : situation_.graphs) {
    node_of(t);  // finds what others have realized
    if (t.impl()->base.defined() || buffer_under(*t.impl()))
      return "a tensor that was pending is in memory";
  }
  for (const State& s : states_) {
    const bool same = s.owner.defined() ? s.owner.impl()->storage == &*s.storage
                                        : !s.read_first || (s.storage.held_elsewhere() &&
                                                            s.storage->left.load() == s.left);
    if (!same) return "a tensor that the function uses is in other memory";
    if (s.storage->requires_grad != s.marked)
      return text("requires_grad_() of a tensor that the function uses (", s.storage->count, " ",
                  s.storage->dtype, ") has changed");
  }
  return "";
}

// A view of a part is read from a copy of before the call. Arguments share memory as they did.
std::string Replayable::written_view(const Walked& arguments, const PlacedArguments& placed) const {
  std::unordered_set<const Storage*> gradients;
  for (const Gradient& g : gradients_)
    if (g.written) gradients.insert(own_storage(leaf_of(g, arguments).grad));
  for (size_t i = 0; i < placed.places.size(); ++i) {
    if (!placed.places[i].chain) continue;
    const Storage* root = placed.roots[i];
    bool written = argument_written_[i] || gradients.contains(root);
    if (std::optional<size_t> first = placed.first_with(root)) written |= argument_written_[*first];
    if (auto s = state_of_.find(root); s != state_of_.end())
      written |= states_[static_cast<size_t>(s->second)].written;
    if (written)
      return text("argument ", arguments.tensors[i].name,
                  " is a view of memory that the function writes");
  }
  return "";
}

// Is it known that the function follows what stands in this position?
bool Replayable::follows(size_t position) {
  KnownTensor& was = was_[position];
  if (!was.defined()) return true;
  // A view in another shape holds what it is a view of once.
  const Tensor& root = root_of(was);
  const bool is_other_shape = root.impl() != was.impl() && is_whole_in_order(was);
  const bool held =
      was.held_elsewhere() || (root.impl() == was.impl() && !is_sole_reader(*root.impl())) ||
      (is_other_shape && (root.impl()->refs.load() > 1 || !is_sole_reader(*root.impl())));
  if (!held) was = {};
  return !held;
}

std::optional<Misfit> Replayable::misfit(const VarValues& values, const Walked& arguments,
                                         const PlacedArguments& placed) {
  const std::vector<ArgumentPlace>& then = situation_.recording.places;
  const size_t count = placed.places.size();
  if (std::string why = changed_class(values); !why.empty()) return Misfit{why};
  if (std::string why = changed_switch(arguments); !why.empty()) return Misfit{why};
  if (situation_.pinned && !std::equal(placed.places.begin(), placed.places.end(), then.begin()))
    return Misfit{"an argument shares memory with what the function writes, and is another one"};
  for (const auto& why :
       {changed_aliases(arguments, placed), changed_gradient(arguments, placed), changed_state()})
    if (!why.empty()) return Misfit{why};
  if (!situation_.pinned)
    if (std::string why = written_view(arguments, placed); !why.empty()) return Misfit{why};
  for (size_t i = 0; i < count; ++i)
    if (!(placed.places[i] == then[i]) && !follows(i))
      return Misfit{text("argument ", arguments.tensors[i].name,
                         " is another tensor, and the one it was is still in use"),
                    true};
  for (size_t k = 0; k < gradients_.size(); ++k) {
    const Storage* s = own_storage(leaf_of(gradients_[k], arguments).grad);
    if ((s ? s->id : 0) != then[count + k].root && !follows(count + k))
      return Misfit{"a gradient is another tensor, and the one it was is still in use", true};
  }
  return {};
}

bool Replayable::compare(const Recording& other) {
  const Recording& own = situation_.recording;
  if (situation_.pinned || !own.does_the_same(other)) return false;
  for (size_t i = 0; i < was_.size(); ++i)
    if (!(own.places[i] == other.places[i])) was_[i] = {};
  return true;
}

}  // namespace mote
