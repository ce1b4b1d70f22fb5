#include "engine/realize.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <new>
#include <unordered_map>

#include "base/error.h"
#include "base/flags.h"
#include "base/hash.h"
#include "engine/goals.h"
#include "engine/kernel_cache.h"
#include "ir/device_list.h"
#include "ir/provenance.h"
#include "ir/spec.h"
#include "runtime/device.h"
#include "runtime/interp_graph.h"
#include "tensor/impl.h"

namespace mote {

namespace {

// Reads what was realized from its buffer.
class Forward : public Flattener {
 public:
  UOp forward(UOp n) override {
    UOp held = tensor_graph::realized_in(n);
    if (!held) return n;
    auto [it, fresh] = made_.try_emplace(n.get());
    if (fresh) it->second = n->is(Op::After) ? Ref(held) : fit(Ref(held), n->shape->dims);
    return it->second;
  }

 private:
  std::unordered_map<const Node*, Ref> made_;
};

// ---- plans

struct CompiledStep {
  std::shared_ptr<const Kernel> kernel;  // null: a copy
  std::vector<int> buffers;
  int outputs = 0;
  uint8_t device = 0;
  std::vector<uint32_t> provenance;
};
struct CompiledPlan {
  std::vector<CompiledStep> steps;
  std::vector<PlannedBuffer> buffers;
  std::map<uint8_t, int64_t> arenas;
  int64_t unplanned_bytes = 0;
  int distinct = 0;
};

struct PlanKey {
  Flat flat;
  uint64_t flags;
  bool operator==(const PlanKey& o) const { return flags == o.flags && flat == o.flat; }
};
struct PlanKeyHash {
  size_t operator()(const PlanKey& k) const { return mix(k.flat.hash, k.flags); }
};

constexpr size_t kMaxPlans = 1024;

struct Engine {
  std::recursive_mutex mutex;  // one realization at a time
  std::unordered_map<PlanKey, std::shared_ptr<const CompiledPlan>, PlanKeyHash> plans;
  EngineCounts counts;
};
Engine& engine() {
  static auto* e = new Engine;
  return *e;
}

void check_computes(const Device& d, std::span<const uint32_t> provenance) {
  if (d.computes()) return;
  const char* method = provenance.empty() ? "" : mote::provenance(provenance[0]).method;
  fail(ErrorKind::User, text("[", *method ? method : current_method(), "] the device ", d.name(),
                             " only holds data: move the tensor with .to(\"CPU\") before "
                             "computing with it or writing to it"));
}

std::shared_ptr<const CompiledPlan> compile_plan(const Flat& flat, Device& device) {
  Arena arena;
  ArenaScope scope(arena);
  UOp sink = unflatten_graph(flat);
  if (flag(Flag::SPEC)) verify(sink, Stage::Tensor, "realize");
  Plan plan = schedule(sink, device.target());
  auto out = std::make_shared<CompiledPlan>();
  std::map<uint8_t, std::vector<size_t>> by_device;
  std::unordered_map<const Node*, bool> bodies_seen;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& s = plan.steps[i];
    out->steps.push_back({nullptr, s.buffers, s.outputs, s.device, s.provenance});
    if (!s.body) continue;
    by_device[s.device].push_back(i);
    bodies_seen[s.body.get()] = true;
  }
  for (auto& [id, steps] : by_device) {
    std::vector<UOp> bodies;
    for (size_t i : steps) bodies.push_back(plan.steps[i].body);
    Device& runs = id ? mote::device(id) : device;
    check_computes(runs, plan.steps[steps[0]].provenance);
    auto start = std::chrono::steady_clock::now();
    auto kernels = kernels_for(bodies, runs);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    engine().counts.lower_ms += took.count();
    for (size_t i = 0; i < steps.size(); ++i) out->steps[steps[i]].kernel = kernels[i];
  }
  out->distinct = static_cast<int>(bodies_seen.size());
  engine().counts.nodes += arena.made();
  out->buffers = std::move(plan.buffers);
  out->arenas = std::move(plan.arenas);
  out->unplanned_bytes = plan.unplanned_bytes;
  return out;
}

std::shared_ptr<const CompiledPlan> plan_for(const Flat& flat, Device& device) {
  Engine& e = engine();
  ++e.counts.schedules;
  PlanKey key{flat, mix(code_flags_hash(), hash_bytes(device.name().data(), device.name().size()))};
  if (auto it = e.plans.find(key); it != e.plans.end()) {
    ++e.counts.schedule_hits;
    return it->second;
  }
  auto plan = compile_plan(flat, device);
  if (flag(Flag::DEBUG) >= 1)
    std::fprintf(stderr, "scheduled %zu steps, %d kernels\n", plan->steps.size(), plan->distinct);
  if (e.plans.size() >= kMaxPlans) e.plans.clear();  // programs that never repeat must not pile up
  e.plans.emplace(std::move(key), plan);
  return plan;
}

void count(const CompiledPlan& plan) {
  EngineCounts& c = engine().counts;
  c.plan_kernels = static_cast<uint64_t>(
      std::ranges::count_if(plan.steps, [](const CompiledStep& s) { return s.kernel != nullptr; }));
  c.plan_distinct = static_cast<uint64_t>(plan.distinct);
}

// ---- running

class Runner {
 public:
  Runner(const CompiledPlan& plan, const FlatInputs& inputs, Device& device)
      : plan_(plan), inputs_(inputs), device_(device) {}

  // All memory is taken before anything runs: an error leaves every tensor as it was.
  void run() {
    for (auto [id, bytes] : plan_.arenas)
      if (bytes) arenas_[id] = MemoryBlock::allocate(on(id), bytes, "temporaries");
    for (size_t i = 0; i < plan_.buffers.size(); ++i) memory_of(static_cast<int>(i));
    for (const CompiledStep& step : plan_.steps) step.kernel ? launch(step) : copy(step);
  }

 private:
  const CompiledPlan& plan_;
  const FlatInputs& inputs_;
  Device& device_;  // of the graph: where values live that name none (constants, positions)
  std::map<uint8_t, std::shared_ptr<MemoryBlock>> arenas_;

  Device& on(uint8_t id) { return id ? mote::device(id) : device_; }

  std::shared_ptr<MemoryBlock> memory_of(int id) {
    const PlannedBuffer& b = plan_.buffers[static_cast<size_t>(id)];
    if (b.param < 0) return arenas_[b.device];
    Storage& s = *inputs_.buffers[static_cast<size_t>(b.param)]->arg.storage;
    device_buffer(s).ensure_memory("tensor");
    return device_buffer(s).memory;
  }

  void* address(int id) {
    const PlannedBuffer& b = plan_.buffers[static_cast<size_t>(id)];
    auto* base = static_cast<char*>(memory_of(id)->data());
    return b.param < 0 ? base + b.offset : base;
  }

  static bool is_output(const CompiledStep& step, size_t i) {
    return static_cast<int>(i) < step.outputs;
  }

  std::vector<Token> tokens_of(const CompiledStep& step) {
    std::vector<Token> all;
    for (size_t i = 0; i < step.buffers.size(); ++i)
      for (const Token& t : memory_of(step.buffers[i])->tokens(is_output(step, i))) all.push_back(t);
    return all;
  }

  void add_token(const CompiledStep& step, const Token& t) {
    for (size_t i = 0; i < step.buffers.size(); ++i)
      memory_of(step.buffers[i])->add_token(t, is_output(step, i));
  }

  int64_t value_of(const std::string& name) {
    for (const auto& [known, value] : inputs_.values)
      if (known == name) return value;
    fail(ErrorKind::User, text("[realize] the variable ", name, " has no value; bind it first"));
  }

  void launch(const CompiledStep& step) {
    Launch l;
    l.code = step.kernel->code.get();
    l.name = step.kernel->name.c_str();
    l.extent = step.kernel->extent;
    l.threaded = step.kernel->threaded;
    l.provenance = step.provenance.empty() ? 0 : step.provenance[0];
    for (int id : step.buffers) l.buffers.push_back(address(id));
    for (const std::string& name : step.kernel->vars) l.vars.push_back(value_of(name));
    const bool timed = flag(Flag::DEBUG) >= 2 || flag(Flag::PROFILE);
    auto start = std::chrono::steady_clock::now();
    Token done = on(step.device).submit({l}, tokens_of(step));
    if (timed) report(step, done, start);
    add_token(step, done);
    ++engine().counts.kernels_run;
  }

  void report(const CompiledStep& step, const Token& done,
              std::chrono::steady_clock::time_point start) {
    done.wait();
    double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const Kernel& k = *step.kernel;
    std::fprintf(stderr, "*** %-5s %-36s %9.3f ms %8.1f GFLOPS %7.1f GB/s  %s\n",
                 device_name(step.device).c_str(), k.name.c_str(), s * 1e3,
                 k.estimate.ops / s / 1e9, k.estimate.bytes / s / 1e9,
                 step.provenance.empty() ? "" : place(step.provenance[0]).c_str());
  }

  void copy(const CompiledStep& step) {
    const PlannedBuffer& to = plan_.buffers[static_cast<size_t>(step.buffers[0])];
    const PlannedBuffer& from = plan_.buffers[static_cast<size_t>(step.buffers[1])];
    Device &target = on(to.device), &source = on(from.device);
    if (!source.holds_data() || !target.holds_data()) return;
    void *there = address(step.buffers[0]), *here = address(step.buffers[1]);
    if (source.on_host())
      return add_token(step, target.copy_in(there, here, to.bytes(), tokens_of(step)));
    if (target.on_host())
      return add_token(step, source.copy_out(there, here, to.bytes(), tokens_of(step)));
    std::vector<char> host(static_cast<size_t>(from.bytes()));
    source.copy_out(host.data(), here, from.bytes(), tokens_of(step)).wait();
    target.copy_in(there, host.data(), to.bytes(), {}).wait();
  }
};

// ---- interpreting devices

std::span<const std::byte> bytes_of(const Storage& s) {
  auto& b = device_buffer(const_cast<Storage&>(s));
  if (!b.memory) return {};
  b.memory->wait();
  return {static_cast<const std::byte*>(b.memory->data()), static_cast<size_t>(b.bytes())};
}

std::vector<HostArray> interpret_in_memory(std::span<const UOp> roots) try {
  return interpret(roots, {bytes_of, false});
} catch (const std::bad_alloc&) {
  fail(ErrorKind::Device, text("[", current_method(), "] out of memory: the host has none left to ",
                               "interpret this graph"));
}

void interpret_goals(std::vector<Goal>& goals) {
  std::vector<UOp> roots;
  for (const Goal& g : goals) roots.push_back(g.effect);
  std::vector<HostArray> arrays = interpret_in_memory(roots);
  std::vector<DeviceBuffer*> written;
  for (UOp leaf : roots) {
    while (!leaf->is(Op::Buffer)) leaf = leaf->src(0);
    written.push_back(&device_buffer(*leaf->arg.storage));
    written.back()->ensure_memory("tensor");
  }
  for (size_t i = 0; i < goals.size(); ++i) {
    DeviceBuffer& b = *written[i];
    mote::device(b.device)
        .copy_in(b.memory->data(), arrays[i].bytes.data(), b.bytes(), b.memory->tokens(true))
        .wait();
  }
}

// Values on an interpreting device that others copy from must be in memory first.
void realize_interpreted_sources(std::span<const Goal> goals) {
  std::vector<UOp> roots;
  for (const Goal& g : goals) roots.push_back(g.effect);
  std::vector<Tensor> sources;
  for (UOp n : toposort(roots, [](UOp x) { return !x->realized.load(); }))
    if (n->is(Op::Copy) && !n->realized.load() && n->src(0)->device &&
        mote::device(n->src(0)->device).interprets_graphs())
      sources.push_back(make_value(Ref(n->src(0)), n->src(0)->device));
  if (!sources.empty()) realize(sources);
}

}  // namespace

void realize(std::span<const Tensor> tensors) {
  std::lock_guard lock(engine().mutex);
  std::vector<Goal> goals = goals_of(tensors);
  if (goals.empty()) return;
  complete(goals);
  uint8_t id = goals[0].effect->device;
  Device& device = mote::device(id ? id : kDefaultDevice);
  if (device.interprets_graphs()) {
    interpret_goals(goals);
  } else {
    realize_interpreted_sources(goals);
    Forward forward;
    FlatInputs inputs;
    std::vector<UOp> roots;
    for (const Goal& g : goals) roots.push_back(g.effect);
    Flat flat = forward.run(roots, &inputs);
    auto plan = plan_for(flat, device);
    count(*plan);
    Runner(*plan, inputs, device).run();
  }
  settle(goals);
}

EngineCounts engine_counts() {
  std::lock_guard lock(engine().mutex);
  EngineCounts c = engine().counts;
  c.kernels_compiled = kernels_compiled();
  c.nodes += nodes_lowered() + tensor_graph::made();
  return c;
}

void clear_caches() {
  std::lock_guard lock(engine().mutex);
  engine().plans.clear();
  clear_kernel_cache();
}

ScheduleReport explain(std::span<const Tensor> tensors, const std::string& device_name) {
  std::lock_guard lock(engine().mutex);
  std::vector<Goal> goals = goals_of(tensors);
  ScheduleReport report;
  if (goals.empty()) return report;
  Forward forward;
  FlatInputs inputs;
  std::vector<UOp> roots;
  for (const Goal& g : goals) roots.push_back(g.effect);
  uint8_t id = roots[0]->device;
  Device& d = device_name.empty() ? mote::device(id ? id : kDefaultDevice) : mote::device(device_name);
  auto plan = plan_for(forward.run(roots, &inputs), d);
  for (const CompiledStep& s : plan->steps) {
    if (!s.kernel) {
      ++report.copies;
      continue;
    }
    KernelReport k{s.kernel->name, "", s.kernel->text, s.kernel->estimate, {}};
    for (uint32_t p : s.provenance) k.places.push_back(place(p));
    report.total.ops += k.estimate.ops;
    report.total.bytes += k.estimate.bytes;
    report.kernels.push_back(std::move(k));
  }
  report.distinct = plan->distinct;
  for (auto [dev, bytes] : plan->arenas) report.arena_bytes += bytes;
  report.unplanned_bytes = plan->unplanned_bytes;
  return report;
}

}  // namespace mote
