#include "engine/realize.h"

#include <algorithm>
#include <list>
#include <new>
#include <unordered_map>

#include "base/error.h"
#include "engine/call_list.h"
#include "engine/checks.h"
#include "engine/goals.h"
#include "engine/jit_record.h"
#include "engine/lease.h"
#include "engine/plan.h"
#include "ir/device_list.h"
#include "ir/provenance.h"
#include "runtime/device.h"
#include "runtime/interp_graph.h"
#include "tensor/impl.h"

namespace mote {

namespace {

// Reads what was realized from its buffer, and runs checks beside what they guard.
class Forward : public Flattener {
 public:
  explicit Forward(StorageSet scratch) : scratch_(std::move(scratch)) {}
  bool is_scratch(const Storage& s) override { return scratch_.count(&s) != 0; }
  std::vector<UOp> further_roots() override { return checks_.further_effects(); }
  bool by_size_class() override { return true; }
  const GraphChecks& checks() const { return checks_; }
  UOp forward(UOp n) override {
    UOp held = tensor_graph::realized_in(n);
    if (!held) return checks_.stand_in(n);
    auto [it, fresh] = made_.try_emplace(n.get());
    if (fresh) it->second = n->is(Op::After) ? Ref(held) : fit(Ref(held), n->shape->dims);
    return it->second;
  }

 private:
  StorageSet scratch_;
  GraphChecks checks_;
  std::unordered_map<const Node*, Ref> made_;
};

void count(const CompiledPlan& plan) {
  counters().plan_kernels = static_cast<uint64_t>(
      std::ranges::count_if(plan.steps->src(), [](UOp s) { return s->is(Op::Call); }));
  counters().plan_distinct = plan.kernels.size();
}

// Whether the storages still hold what these Buffer nodes name, and no other thread has made a
// write that these goals are to make.
bool is_current(std::span<const Goal> goals, std::span<const UOp> buffers) {
  auto is_held = [](UOp b) {
    const auto named = b->nsrc ? static_cast<uint64_t>(b->src(0)->arg.i) : 0;
    return b->arg.storage->version == named;
  };
  auto is_open = [](const Goal& g) { return g.buffer || !g.node->realized.load(); };
  return std::ranges::all_of(buffers, is_held) && std::ranges::all_of(goals, is_open);
}

std::vector<bool> written_params(const CompiledPlan& plan, size_t params) {
  std::vector<bool> written(params);
  for (UOp s : plan.steps->src())
    for (uint32_t i = 0; is_step(s) && i < written_by(s); ++i)
      if (UOp memory = memory_of(places_of(s)[i]); !is_temporary(memory))
        written[static_cast<size_t>(slot_of(memory))] = true;
  return written;
}

// False, having done nothing: another thread has written some of it meanwhile.
bool run_goals(std::span<const Goal> goals, StorageSet scratch, StorageLease& lease) {
  Forward forward(std::move(scratch));
  FlatInputs inputs;
  const std::vector<UOp> roots = effects_of(goals);
  Flat flat = forward.run(roots, &inputs);
  if (inputs.torn) return false;
  auto plan = plan_for(flat);
  count(*plan);
  std::vector<DeviceBuffer*> buffers;
  const std::vector<bool> written = written_params(*plan, inputs.buffers.size());
  for (size_t i = 0; i < inputs.buffers.size(); ++i) {
    Storage& s = *inputs.buffers[i]->arg.storage;
    buffers.push_back(&device_buffer(s));
    lease.add(s, written[i]);
  }
  lease.take();
  if (!is_current(goals, inputs.buffers)) return false;
  Recorder* r = Recorder::recording();
  if (r) r->record(plan, inputs, roots);
  CallList(plan, buffers, inputs.values).run();
  for (const GraphChecks::Made& m : forward.checks().made()) {
    Storage& found = *m.buffer->arg.storage;
    watch(found, m.check);
    if (r) r->device_checks.push_back({&found, m.check});
  }
  return true;
}

uint8_t device_of(std::span<const Goal> goals) {
  const uint8_t id = goals[0].effect->device;
  return id ? id : kDefaultDevice;
}

// ---- interpreting devices

// `copies` holds what is elsewhere than on the host.
std::span<const std::byte> bytes_of(const Storage& s, std::list<std::vector<std::byte>>& copies) {
  if (s.count == 0) return {};  // a rule of Given::Custom is one, and no buffer
  auto& b = device_buffer(const_cast<Storage&>(s));
  if (!b.memory) return {};
  const auto bytes = static_cast<size_t>(b.bytes());
  Device& d = b.device_ref();
  if (!d.on_host()) {
    std::vector<std::byte>& copy = copies.emplace_back(bytes);
    d.copy_out(copy.data(), b.memory->address(), b.bytes(), b.memory->tokens(false)).wait();
    return copy;
  }
  b.memory->wait();
  d.check_readable(b.memory->address(), b.bytes());
  return {host_address(b.memory->address()), bytes};
}

std::vector<HostArray> interpret_in_memory(std::span<const UOp> roots) try {
  std::list<std::vector<std::byte>> copies;
  return interpret(roots, {[&](const Storage& s) { return bytes_of(s, copies); }, false});
} catch (const std::bad_alloc&) {
  fail(ErrorKind::Device, text("[", current_method(), "] out of memory: the host has none left to ",
                               "interpret this graph"));
}

// Nothing is written before all checks are known to hold. False: as run_goals.
bool interpret_goals(std::vector<Goal>& goals, StorageLease& lease) {
  std::vector<UOp> roots = effects_of(goals), buffers;
  GraphChecks checks;
  for (UOp n : toposort(roots, [](UOp x) { return !x->realized.load(); })) {
    UOp held = tensor_graph::realized_in(n);
    if (!held) checks.stand_in(n);
    if (UOp at = held ? held : n; at->is(Op::Buffer) && at->arg.storage->count > 0)
      buffers.push_back(at);
  }
  for (UOp b : buffers) lease.add(*b->arg.storage, false);
  for (UOp root : roots) lease.add(*storage_under(root), true);
  lease.take();
  if (!is_current(goals, buffers)) return false;
  const std::vector<UOp> guards = checks.further_effects();
  const size_t asked = roots.size();
  roots.insert(roots.end(), guards.begin(), guards.end());
  std::vector<HostArray> arrays = interpret_in_memory(roots);
  for (size_t i = 0; i < guards.size(); ++i)
    raise_violation(checks.made()[i].check, arrays[asked + i].at(0).i);
  roots.resize(asked);
  std::vector<DeviceBuffer*> written;
  for (UOp leaf : roots) {
    written.push_back(&device_buffer(*storage_under(leaf)));
    written.back()->ensure_memory("tensor");
  }
  for (size_t i = 0; i < goals.size(); ++i) {
    DeviceBuffer& b = *written[i];
    mote::device(b.device)
        .copy_in(b.memory->address(), arrays[i].bytes.data(), b.bytes(), b.memory->tokens(true))
        .wait();
  }
  return true;
}

// Values on an interpreting device that others copy from: they must be in memory first.
std::vector<Tensor> interpreted_sources(std::span<const Goal> goals) {
  std::vector<Tensor> sources;
  if (!interpreter_is_open() || goals.empty()) return sources;
  if (device(device_of(goals)).interprets_graphs()) return sources;
  for (UOp n : toposort(effects_of(goals), [](UOp x) { return !x->realized.load(); }))
    if (n->is(Op::Copy) && !n->realized.load() && n->src(0)->device &&
        mote::device(n->src(0)->device).interprets_graphs())
      sources.push_back(make_value(Ref(n->src(0)), n->src(0)->device));
  return sources;
}

}  // namespace

void realize(std::span<const Tensor> tensors) try {
  if (Recorder* r = Recorder::recording()) r->begin_realize(tensors);
  Recorder::Engine engine(Recorder::current());
  std::vector<Goal> goals = goals_of(tensors);
  StorageSet scratch = complete(goals);
  // What is run first may give memory to what was without: all is looked at anew.
  auto run_first = [&](std::vector<Tensor> before) {
    if (before.empty()) return;
    goals.clear();
    realize(before);
    before.clear();
    scratch = complete(goals = goals_of(tensors));
  };
  StorageLease lease;
  for (bool ran = false; !ran;) {
    run_first(interpreted_sources(goals));
    if (goals.empty()) return;
    if (device(device_of(goals)).interprets_graphs()) {
      if (Recorder* r = Recorder::recording()) r->interpreted = true;
      ran = interpret_goals(goals, lease);
    } else {
      ran = run_goals(goals, std::move(scratch), lease);
    }
    if (ran) break;
    lease.drop();
    goals.clear();
    scratch = complete(goals = goals_of(tensors));
  }
  // Values that a failed check spoils are not kept where nothing was written: who asks again runs
  // it again, and gets the error again.
  const bool writes = std::ranges::any_of(goals, [](const Goal& g) { return !g.buffer; });
  if (!writes) raise_violations(false);
  settle(goals);
  if (writes) raise_violations(false);
} catch (const std::bad_alloc&) {
  fail(ErrorKind::Device, text("[", current_method(), "] out of memory: the host has none left to ",
                               "schedule and compile this graph"));
}

void set_aside(std::span<const Tensor> tensors) {
  if (tensors.empty()) return;
  std::vector<Goal> goals;
  StorageLease lease;
  for (;; lease.drop()) {
    goals = copies_for_others(tensors);
    for (const Goal& g : goals) lease.add(*g.node->arg.storage, true);
    if (run_goals(goals, {}, lease)) break;
  }
  begin_versions(tensors);
  settle(goals);
}

EngineCounts engine_counts() {
  EngineCounts c;
  const EngineCounters& now = counters();
  c.schedules = now.schedules, c.schedule_hits = now.schedule_hits;
  c.kernels_compiled = now.kernels_compiled, c.kernels_run = now.kernels_run;
  c.nodes = now.nodes + tensor_graph::made();
  c.visits = now.visits, c.attempts = now.attempts;
  c.waits = Token::waits(), c.queue_waits = Device::queue_waits();
  c.lower_ms = now.lower_ms;
  c.plan_kernels = now.plan_kernels, c.plan_distinct = now.plan_distinct;
  return c;
}

ScheduleReport explain(std::span<const Tensor> tensors) {
  std::vector<Goal> goals = goals_of(tensors);
  ScheduleReport report;
  if (goals.empty()) return report;
  Forward forward(complete(goals));
  FlatInputs inputs;
  auto plan = plan_for(forward.run(effects_of(goals), &inputs));
  for (UOp s : plan->steps->src()) {
    report.copies += s->is(Op::Copy);
    if (!s->is(Op::Call)) continue;
    const Kernel& kernel = *plan->kernel(s);
    KernelReport k{
        kernel.name, kernel_text(kernel, s->src(0), device(s->device)), kernel.estimate, {}};
    for (uint32_t p : provenance_of(s)) k.places.push_back(place(p));
    report.total.ops += k.estimate.ops;
    report.total.bytes += k.estimate.bytes;
    report.kernels.push_back(std::move(k));
  }
  for (UOp memory : memories_of(plan->steps)) {
    if (is_temporary(memory)) continue;
    UOp given = inputs.buffers[static_cast<size_t>(slot_of(memory))];
    if (!device_buffer(*given->arg.storage).allocated()) report.new_bytes += bytes_of(memory);
  }
  report.distinct = static_cast<int>(plan->kernels.size());
  report.arena_bytes = temporary_bytes(plan->placed);
  report.unplanned_bytes = temporary_bytes(plan->steps);
  return report;
}

}  // namespace mote
