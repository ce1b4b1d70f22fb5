#include "engine/jit_record.h"

#include <algorithm>

#include "base/error.h"
#include "engine/realize.h"
#include "grad/grad.h"
#include "ir/provenance.h"
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

Recorder::Recorder(bool captures, ShownViews& shown)
    : captures_(captures), shown_(shown), first_id_(next_storage_id()) {
  recorder = this;
  effect_listener = this;
  handle_listener = this;
}

Recorder::~Recorder() {
  recorder = nullptr;
  effect_listener = nullptr;
  handle_listener = nullptr;
}

Recorder* Recorder::current() { return recorder; }
Recorder* Recorder::recording() { return recorder && !recorder->paused_ ? recorder : nullptr; }
Recorder* Recorder::capturing() {
  Recorder* r = recording();
  return r && r->captures_ ? r : nullptr;
}

void Recorder::wrote(UOp version) {
  if (paused_) return;
  Storage* s = prim::base_of(version)->arg.storage;
  if (written_set_.insert(s).second) written_.emplace_back(*s);
}

void Recorder::gradient(const Tensor& leaf, Use use) {
  if (!gradients_known_.insert(leaf.impl()).second) return;
  Tensor before = leaf.impl()->grad;
  if (use != Drop && before.defined() && !before.impl()->storage) {
    give_storage(before);
    finish(before);
  }
  const Storage* s = before.defined() ? before.impl()->storage : nullptr;
  gradients.push_back({leaf, use == Drop ? Tensor() : before, use, s ? s->id : 0});
}

// VarValues of a graph with leaves stay a graph, so that gradients flow; a write is done for good.
void Recorder::read(const TensorImpl& t) {
  if (!listens() || made_.count(&t) || !read_.insert(&t).second) return;
  if (t.base.defined() || buffer_under(t)) return;
  UOp version = whole_version(t.value);
  auto& impl = const_cast<TensorImpl&>(t);
  impl.refs.fetch_add(1, std::memory_order_relaxed);
  Tensor handle(&impl);
  if (!(version && version->is(Op::After)) && depends_on_leaf(t.value))
    graphs.push_back(handle);
  else
    finish(handle);
}

// Runs what a tensor from outside has pending. Its memory is no work of the function.
void Recorder::finish(const Tensor& t) {
  Pause pause(*this);
  realize({t});
  if (UOp base = prim::base_of(node_of(t))) not_fresh_.insert(base->arg.storage->id);
}

void Recorder::read(SwitchCell& cell) {
  if (!listens() || std::ranges::count(switches, &cell, [](auto& s) { return &*s.cell; })) return;
  const std::string where = text(current_method(), " (", place(current_provenance()), ")");
  switches.push_back({Counted(cell), cell.on, where});
}

void Recorder::writes(const Tensor& t) {
  if (!listens()) return;
  views_were_written |= shown_.prepare_write(t, made_);
  const TensorImpl& root = *root_of(t).impl();
  moves |= !made_.count(&root) && !root.storage;
}

void Recorder::begin_realize(std::span<const Tensor> tensors) {
  if (listens())
    for (const Tensor& t : tensors)
      if (t.defined()) node_of(t);
}

// Its address may be another tensor's next.
void Recorder::gone(const TensorImpl& t) {
  made_.erase(&t);
  if (read_.erase(&t) && !replaced_) replaced_ = (t.value ? t.value : t.chain)->shape;
}

void Recorder::check_kept() const {
  if (replaced_) refuse_replaced(text("shape ", *replaced_));
}

RecordedStorage& Recorder::note(Storage& s) {
  auto [it, first] = index_.try_emplace(&s, storages.size());
  if (first) {
    const bool fresh = is_fresh(s);
    storages.push_back({StorageRef(s), fresh, fresh && device_buffer(s).allocated(), false});
  }
  return storages[it->second];
}

const RecordedStorage* Recorder::find(const Storage& s) const {
  auto it = index_.find(&s);
  return it == index_.end() ? nullptr : &storages[it->second];
}

void Recorder::record(std::shared_ptr<const CompiledPlan> plan, const FlatInputs& inputs,
                      std::span<const UOp> roots) {
  RecordedRun run{std::move(plan), {}, inputs.values, inputs.classes};
  for (UOp b : inputs.buffers) {
    note(*b->arg.storage);
    run.buffers.push_back(b->arg.storage);
  }
  runs.push_back(std::move(run));
  for (UOp n : pending_graph(roots))
    if (n->is(Op::Store) && !whole_version(n->src(0)))
      if (UOp base = prim::base_of(n->src(0))) note(*base->arg.storage).partly = true;
}

std::vector<Tensor> Recorder::left_behind() const {
  std::vector<Tensor> out;
  for (const StorageRef& s : written_)
    if (Tensor t = owner_of(*s); t.defined() && t.impl()->refs.load() > 1) out.push_back(t);
  for (const RecordedGradient& g : gradients)
    if (g.leaf.impl()->grad.defined()) out.push_back(g.leaf.impl()->grad);
  return out;
}

}  // namespace mote
