#include <mote/autocast.h>
#include <mote/jit.h>

#include <memory>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/flags.h"
#include "engine/jit_replay.h"
#include "engine/realize.h"
#include "tensor/impl.h"

namespace mote {

void start_engine();

class JitCore {
 public:
  std::recursive_mutex mutex;  // of all below; held for the length of a call
  bool in_call = false;
  std::optional<InsideLibrary> inside;     // while in_call: nobody else can take the lock
  bool has_run = false;                    // call 1 is over
  JitTypes types;                          // of the result and the arguments, once it has run
  std::unique_ptr<ArgumentSpecs> specs;    // once captured; also where graphs are interpreted
  std::unique_ptr<Replayable> replayable;  // once captured
  std::unique_ptr<JitForm> form;
  DType scope = DType::none;  // autocast's, once captured

  // Of the call in progress.
  Loc where;
  Walked arguments, results;
  bool inlined = false;
  std::optional<Recorder> recorder;
  JitCall::Mode mode = JitCall::Run;
  PlacedArguments placed;
  Replayable::Results made;
  size_t next_tensor = 0, next_symbol = 0;

  // A view that f sees as a tensor of its own for the length of a capture.
  struct Shown {
    size_t argument;
    Tensor view, base;
    Ref chain;
    std::vector<int64_t> strides;
  };
  std::vector<Shown> shown;

  void reset() {
    has_run = false;
    specs = nullptr;
    replayable = nullptr;
    form = nullptr;
  }
  void place_for_capture();
  void check_views_unwritten() const;
  void detach_results_from_views();
  void restore_views();
  void realize_all_left();
  void finish_capture();
  void end_call();
};

// ---- capturing

// Written or not will be known later: all have memory of their own.
void JitCore::place_for_capture() {
  std::vector<bool> give_own;
  for (const NamedTensor& a : arguments.tensors)
    give_own.push_back(a.tensor.defined() && is_whole_in_order(a.tensor));
  if (specs) specs->check(arguments);
  placed = place_arguments(arguments, give_own);
  if (specs) specs->check_aliases(arguments, placed.storages);
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Tensor &t = arguments.tensors[i].tensor, &piece = placed.pieces[i];
    if (piece.impl() == t.impl() || !t.impl()->base.defined()) continue;
    TensorImpl& impl = *t.impl();
    shown.push_back({i, t, impl.base, impl.chain, impl.strides});
    impl.value = node_of(piece);
    impl.base = {}, impl.chain = {}, impl.strides = {};
  }
}

void JitCore::check_views_unwritten() const {
  for (const Shown& s : shown)
    if (s.view.impl()->storage) refuse_written_view(arguments.tensors[s.argument].name);
}

// What f returned of a view that will be a view again has the values of now.
void JitCore::detach_results_from_views() {
  for (const NamedTensor& r : results.tensors) {
    if (!r.tensor.defined() || !r.tensor.impl()->base.defined()) continue;
    TensorImpl& impl = *r.tensor.impl();
    for (const Shown& s : shown) {
      if (impl.base.impl() != s.view.impl()) continue;
      impl.value = prim::contiguous(node_of(impl));
      impl.base = {}, impl.chain = {}, impl.strides = {};
      break;
    }
  }
}

void JitCore::restore_views() {
  for (Shown& s : shown) {
    TensorImpl& impl = *s.view.impl();
    set_own(impl, false);
    impl.value = {};
    impl.base = s.base, impl.chain = s.chain, impl.strides = s.strides;
  }
  shown.clear();
}

// Gradients that the next call adds to are then in memory of their own.
void JitCore::realize_all_left() {
  std::vector<Tensor> all = recorder->left_behind();
  for (const NamedTensor& r : results.tensors)
    if (r.tensor.defined()) all.push_back(r.tensor);
  realize(all);
  if (mode != JitCall::Run) return;
  std::vector<Tensor> shared;
  for (const RecordedGradient& g : recorder->gradients())
    if (const Tensor& grad = g.leaf.impl()->grad; grad.defined() && g.first != Recorder::Drop)
      if (!prim::base_of(node_of(grad))->arg.storage->owner) {
        give_storage(grad);
        shared.push_back(grad);
      }
  if (!shared.empty()) realize(shared);
}

void JitCore::finish_capture() {
  recorder->check_kept();
  check_views_unwritten();
  detach_results_from_views();
  realize_all_left();
  restore_views();
  auto found = std::make_unique<ArgumentSpecs>(arguments);
  found->set_aliases(placed.storages);
  if (!recorder->interpreted()) {
    auto captured =
        std::make_unique<Replayable>(*recorder, found->values(), arguments, placed, results);
    recorder.reset();
    captured->check_held();
    replayable = std::move(captured);
  }
  specs = std::move(found);
}

void JitCore::end_call() {
  restore_views();
  recorder.reset();
  arguments.clear();
  results.clear();
  placed = {};
  made = {};
  in_call = inlined = false;
}

// ---- the public parts

JitBase::JitBase() : core_(new JitCore) {}
JitBase::~JitBase() {
  InsideLibrary inside;
  if (!forked_amid_call()) delete core_;
}

JitCore& JitBase::core(const Loc& where) const {
  OuterCall call("jit", where);
  expect(core_, "the function was moved from");
  return *core_;
}

void JitBase::reset(Loc where) {
  JitCore& c = core(where);
  std::lock_guard lock(c.mutex);
  c.reset();
}

bool JitBase::captured(Loc where) const {
  JitCore& c = core(where);
  std::lock_guard lock(c.mutex);
  return c.replayable != nullptr;
}

std::vector<JitState> JitBase::state(const std::vector<NamedTensor>& names, Loc where) const {
  JitCore& c = core(where);
  std::lock_guard lock(c.mutex);
  return c.replayable ? c.replayable->state(names) : std::vector<JitState>();
}

static std::string scope_text(DType scope) {
  return scope == DType::none ? "no autocast scope" : text("an autocast scope of ", scope);
}

// What is new about the types of a call; empty: nothing.
static std::string difference(const JitTypes& now, const JitTypes& then) {
  if (now.list == then.list) return {};
  if (now.count != then.count)
    return text("called with ", now.count - 1, " arguments, there were ", then.count - 1);
  for (size_t i = 1; i < now.count; ++i)
    if (now.list[i] != then.list[i])
      return text("argument ", i - 1, ": its type is another than before");
  return now.list[0] == then.list[0] ? "" : "the result's type is another than before";
}

JitCall::JitCall(JitCore& core, const JitTypes& types, const Loc& where) : core_(core) {
  check_not_forked_amid_call();
  InsideLibrary inside;
  core.mutex.lock();
  const bool calls_itself = core.in_call;
  const std::string other = core.has_run ? difference(types, core.types) : "";
  if (!calls_itself && other.empty()) {
    core.in_call = true;
    core.inside.emplace();
    core.where = where;
    core.inlined = Recorder::current() != nullptr;
    core.mode = Run;
    core.types = types;
    return;
  }
  core.mutex.unlock();
  OuterCall call("jit", where);
  expect(!calls_itself, "the function calls itself");
  expect(false, other, "; reset() captures anew");
}

JitCall::~JitCall() {
  core_.end_call();
  core_.inside.reset();
  core_.mutex.unlock();
}

void JitCall::operator()(const std::string& path, const Tensor& t) {
  (core_.recorder ? core_.results : core_.arguments).tensors.push_back({path, t});
}
void JitCall::operator()(const std::string& path, const Sym& s) {
  (core_.recorder ? core_.results : core_.arguments).symbols.push_back({path, s});
}

JitCall::Mode JitCall::start() {
  if (core_.inlined) return Run;
  start_engine();
  OuterCall call("jit", core_.where);
  if (!flag(Flag::JIT) || !core_.has_run) {
    core_.recorder.emplace(false);
  } else if (core_.replayable) {
    expect(core_.scope == autocast_dtype(), "captured in ", scope_text(core_.scope),
           " and called in ", scope_text(autocast_dtype()), "; reset() captures anew");
    core_.made = core_.replayable->replay(*core_.specs, core_.arguments);
    core_.next_tensor = core_.next_symbol = 0;
    core_.mode = Replay;
  } else {
    core_.place_for_capture();
    core_.scope = autocast_dtype();
    core_.recorder.emplace(true);
    core_.mode = Capture;
  }
  return core_.mode;
}

bool JitCall::finish() {
  if (core_.inlined) return false;
  OuterCall call("jit", core_.where);
  if (core_.mode == Capture)
    core_.finish_capture();
  else
    core_.realize_all_left();
  core_.has_run = true;
  return core_.mode == Capture && core_.replayable;
}

void JitCall::keep(JitForm* form) { core_.form.reset(form); }
const JitForm& JitCall::form() const { return *core_.form; }
Tensor JitCall::next_tensor() { return std::move(core_.made.tensors[core_.next_tensor++]); }
Sym JitCall::next_symbol() { return std::move(core_.made.symbols[core_.next_symbol++]); }

}  // namespace mote
