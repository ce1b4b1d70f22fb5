#include "engine/jit_record.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/device.h"
#include "tensor/impl.h"

namespace mote {

namespace {

thread_local Recorder* recorder = nullptr;

bool is_pending(UOp n) { return !n->realized.load(std::memory_order_acquire); }

std::vector<UOp> pending_graph(std::span<const UOp> roots) { return toposort(roots, is_pending); }

}  // namespace

void refuse_replaced(const std::string& what) {
  fail(ErrorKind::User,
       text("[jit] nothing else holds a tensor that the function reads (", what,
            "): was another put in its place (x = ...)? Change it with assign() instead, or "
            "reset() the function"));
}

Recorder::Recorder(bool captures) : captures_(captures), first_id_(next_storage_id()) {
  recorder = this;
  effect_listener = this;
  if (captures) handle_listener = this;
}

Recorder::~Recorder() {
  recorder = nullptr;
  effect_listener = nullptr;
  handle_listener = nullptr;
}

Recorder* Recorder::current() { return recorder; }
Recorder* Recorder::capturing() {
  return recorder && recorder->captures_ && !recorder->paused_ ? recorder : nullptr;
}

void Recorder::wrote(UOp version) {
  if (paused_) return;
  versions_.insert(version.get());
  Storage* s = prim::base_of(version)->arg.storage;
  if (written_set_.insert(s).second) written_.emplace_back(*s);
}

void Recorder::gradient(const Tensor& leaf, Use use) {
  if (!gradients_known_.insert(leaf.impl()).second) return;
  gradients_.push_back({leaf, leaf.impl()->grad, use});
}

void Recorder::read(const TensorImpl& t) {
  if (!made_.count(&t)) read_.insert(&t);
}

// Its address may be another tensor's next.
void Recorder::gone(const TensorImpl& t) {
  made_.erase(&t);
  if (read_.erase(&t) && !replaced_) replaced_ = (t.value ? t.value : t.chain)->shape;
}

void Recorder::check_kept() const {
  if (replaced_) refuse_replaced(text("shape ", *replaced_));
}

// A node made before is alive since then: none made meanwhile can have its address.
std::vector<Tensor> Recorder::pending_before(std::span<const Goal> goals) const {
  std::vector<UOp> before;
  std::unordered_set<const Node*> overwritten;
  for (UOp n : pending_graph(effects_of(goals))) {
    if (!n->is(Op::After) || !is_pending(n) || versions_.count(n.get())) continue;
    before.push_back(n);
    overwritten.insert(n->src(0).get());
  }
  std::vector<Tensor> out;
  for (UOp n : before)
    if (!overwritten.count(n.get())) out.push_back(make_value(Ref(n), n->device));
  return out;
}

RecordedStorage& Recorder::note(Storage& s) {
  auto [it, first] = index_.try_emplace(&s, storages_.size());
  if (first) {
    const bool fresh = is_fresh(s);
    storages_.push_back({StorageRef(s), fresh, fresh && device_buffer(s).allocated(), false});
  }
  return storages_[it->second];
}

const RecordedStorage* Recorder::find(const Storage& s) const {
  auto it = index_.find(&s);
  return it == index_.end() ? nullptr : &storages_[it->second];
}

void Recorder::record(std::shared_ptr<const CompiledPlan> plan, uint8_t device,
                      const FlatInputs& inputs, std::span<const UOp> roots) {
  RecordedRun run{std::move(plan), device, {}, inputs.values};
  for (UOp b : inputs.buffers) {
    note(*b->arg.storage);
    run.buffers.push_back(b->arg.storage);
  }
  runs_.push_back(std::move(run));
  for (UOp n : pending_graph(roots))
    if (n->is(Op::Store) && !whole_version(n->src(0)))
      if (UOp base = prim::base_of(n->src(0))) note(*base->arg.storage).partly = true;
}

std::vector<Tensor> Recorder::left_behind() const {
  std::vector<Tensor> out;
  for (const StorageRef& s : written_)
    if (Tensor t = owner_of(*s); t.defined() && t.impl()->refs.load() > 1) out.push_back(t);
  for (const RecordedGradient& g : gradients_)
    if (g.leaf.impl()->grad.defined()) out.push_back(g.leaf.impl()->grad);
  return out;
}

}  // namespace mote
