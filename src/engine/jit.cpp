#include <mote/autocast.h>
#include <mote/jit.h>
#include <mote/no_grad.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/flags.h"
#include "engine/jit_replay.h"
#include "engine/realize.h"
#include "tensor/handles.h"
#include "tensor/impl.h"

namespace mote {

void start_engine();

namespace {

constexpr size_t kCaptures = 12;  // situations that are remembered: four, and classes of sizes

struct Captured {
  std::unique_ptr<Replayable> list;
  std::unique_ptr<JitForm> form;
};

}  // namespace

class JitCore {
 public:
  std::recursive_mutex mutex;  // of all below; held for the length of a call
  bool in_call = false;
  std::optional<InsideLibrary> inside;   // while in_call: nobody else can take the lock
  bool has_run = false;                  // call 1 is over
  bool ran_anew = false;                 // and it was called where no capture fitted
  JitTypes types;                        // of the result and the arguments, once it has run
  std::unique_ptr<ArgumentSpecs> specs;  // once captured; also where graphs are interpreted
  std::vector<Captured> captures;        // the one used last stands last
  std::optional<Recording> before;       // the last call of f, if it was not captured
  bool proving = false;                  // whether f follows its arguments, by this capture

  // Of the call in progress.
  Loc where;
  Walked arguments, results;
  bool inlined = false;
  ShownViews shown;
  std::optional<Recorder> recorder;
  JitCall::Mode mode = JitCall::Run;
  PlacedArguments placed;
  Replayable::Results made;
  size_t next_tensor = 0, next_symbol = 0;

  void reset() {
    has_run = ran_anew = false;
    specs = nullptr;
    captures.clear();
    before.reset();
  }
  void begin();
  void finish();
  void end_call();

 private:
  JitCall::Mode choose_mode(const VarValues& values);
  void realize_all_left();
  void capture(Recording recording);
};

// ---- a call

// The first capture that holds is replayed. Where none does the function is called, and captured if
// this is not the first time; at once if that is how to find out whether it follows its arguments.
JitCall::Mode JitCore::choose_mode(const VarValues& values) {
  if (!flag(Flag::JIT) || !has_run) return JitCall::Run;
  std::string why;
  proving = false;
  for (size_t i = captures.size(); i-- > 0;) {
    std::optional<Misfit> misfit = captures[i].list->misfit(values, arguments, placed);
    if (!misfit) {
      std::rotate(captures.begin() + static_cast<std::ptrdiff_t>(i),
                  captures.begin() + static_cast<std::ptrdiff_t>(i) + 1, captures.end());
      return JitCall::Replay;
    }
    proving |= misfit->unproven;
    if (why.empty()) why = misfit->why;
  }
  if (!why.empty() && flag(Flag::DEBUG) >= 1)
    std::fprintf(stderr, "jit: calls the function: %s\n", why.c_str());
  return captures.empty() || proving || ran_anew ? JitCall::Capture : JitCall::Run;
}

void JitCore::begin() {
  VarValues values;
  if (specs && flag(Flag::JIT)) values = specs->check(arguments);
  placed = place_arguments(arguments);
  mode = choose_mode(values);
  if (mode == JitCall::Replay) {
    captures.back().list->check_held();
    made = captures.back().list->replay(values, arguments, placed);
    next_tensor = next_symbol = 0;
    return;
  }
  give_own_memory(arguments, {}, placed);
  recorder.emplace(mode == JitCall::Capture, shown);
  Recorder::Pause pause(*recorder);
  shown.show(arguments, placed);
}

// Gradients that the next call adds to are then in memory of their own.
void JitCore::realize_all_left() {
  std::vector<Tensor> all = recorder->left_behind();
  for (const NamedTensor& r : results.tensors)
    if (r.tensor.defined()) all.push_back(r.tensor);
  realize(all);
  if (mode != JitCall::Run) return;
  Recorder::Pause pause(*recorder);
  std::vector<Tensor> shared;
  for (const RecordedGradient& g : recorder->gradients)
    if (const Tensor& grad = g.leaf.impl()->grad; grad.defined() && g.first != Recorder::Drop)
      if (!prim::base_of(node_of(grad))->arg.storage->owner) {
        give_storage(grad);
        shared.push_back(grad);
      }
  if (!shared.empty()) realize(shared);
}

void JitCore::finish() {
  if (mode == JitCall::Capture) recorder->check_kept();
  shown.restore(recorder->made());
  realize_all_left();
  Recording recording = recording_of(*recorder, arguments, placed, results);
  if (mode == JitCall::Capture && recorder->moves) mode = JitCall::Run;
  if (mode == JitCall::Capture) {
    capture(std::move(recording));
  } else {
    before = std::move(recording);
    ran_anew = !captures.empty();
  }
  has_run = true;
}

void JitCore::capture(Recording recording) {
  auto found = std::make_unique<ArgumentSpecs>(arguments);
  if (!recorder->interpreted) {
    bool pinned = recorder->views_were_written;
    for (size_t i = 0; i < placed.storages.size(); ++i)
      pinned |= placed.pieces[i].defined() && !placed.storages[i];
    Situation situation{std::move(recording),
                        std::move(recorder->switches),
                        {},
                        plain_switches(),
                        autocast_dtype(),
                        is_grad_enabled(),
                        pinned};
    for (const Tensor& t : recorder->graphs) situation.graphs.emplace_back(t);
    auto list = std::make_unique<Replayable>(*recorder, found->values(), arguments, placed, results,
                                             std::move(situation));
    recorder.reset();
    list->check_held();
    if (before) list->compare(*before);
    std::erase_if(captures,
                  [&](const Captured& c) { return list->compare(c.list->recording()) && proving; });
    if (captures.size() == kCaptures) captures.erase(captures.begin());
    captures.push_back({std::move(list), nullptr});
  }
  specs = std::move(found);
  before.reset();
  ran_anew = false;
}

void JitCore::end_call() {
  shown.restore(recorder ? recorder->made() : TensorSet());
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
  InsideLibrary inside;
  JitCore& c = core(where);
  std::lock_guard lock(c.mutex);
  c.reset();
}

bool JitBase::captured(Loc where) const {
  InsideLibrary inside;
  JitCore& c = core(where);
  std::lock_guard lock(c.mutex);
  return !c.captures.empty();
}

std::vector<JitState> JitBase::state(const std::vector<NamedTensor>& names, Loc where) const {
  InsideLibrary inside;
  JitCore& c = core(where);
  std::lock_guard lock(c.mutex);
  return c.captures.empty() ? std::vector<JitState>() : c.captures.back().list->state(names);
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
  expect(false, other, "; reset() starts over");
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

void JitCall::note_switch(const std::string& path, bool on) {
  if (!core_.recorder) core_.arguments.switches.emplace_back(path, on);
}

JitCall::Mode JitCall::start() {
  if (core_.inlined) return Run;
  start_engine();
  OuterCall call("jit", core_.where);
  core_.begin();
  return core_.mode;
}

bool JitCall::finish() {
  if (core_.inlined) return false;
  OuterCall call("jit", core_.where);
  core_.finish();
  return core_.mode == Capture && !core_.captures.empty() && !core_.captures.back().form;
}

void JitCall::keep(JitForm* form) { core_.captures.back().form.reset(form); }
const JitForm& JitCall::form() const { return *core_.captures.back().form; }
Tensor JitCall::next_tensor() { return std::move(core_.made.tensors[core_.next_tensor++]); }
Sym JitCall::next_symbol() { return std::move(core_.made.symbols[core_.next_symbol++]); }

}  // namespace mote
