#include "engine/plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "base/flags.h"
#include "base/hash.h"
#include "engine/dated.h"
#include "ir/provenance.h"
#include "ir/spec.h"
#include "rewrite/rewrite.h"

namespace mote {

namespace {

struct PlanKey {
  Flat flat;
  uint64_t flags;
  bool operator==(const PlanKey& o) const { return flags == o.flags && flat == o.flat; }
};
struct PlanKeyHash {
  size_t operator()(const PlanKey& k) const { return mix(k.flat.hash, k.flags); }
};

constexpr size_t kMaxPlans = 1024;

struct PlanCache {
  std::mutex mutex;
  std::unordered_map<PlanKey, Dated<std::shared_ptr<const CompiledPlan>>, PlanKeyHash> plans;
};
PlanCache& cache() {
  static auto* c = new PlanCache;
  return *c;
}

void check_computes(const Device& d, std::span<const uint32_t> provenance) {
  if (d.computes()) return;
  const char* method = provenance.empty() ? "" : mote::provenance(provenance[0]).method;
  fail(ErrorKind::User, text("[", *method ? method : current_method(), "] the device ", d.name(),
                             " only holds data: move the tensor with .to(\"CPU\") before "
                             "computing with it or writing to it"));
}

Targets targets_of(UOp sink) {
  Targets targets;
  std::array<bool, 256> seen{};
  for (UOp n : toposort(sink))
    if (n->device && !std::exchange(seen[n->device], true))
      targets.add(n->device, device(n->device).target());
  return targets;
}

std::shared_ptr<const CompiledPlan> plan_of(const Flat& flat) {
  Arena arena;
  ArenaScope scope(arena);
  UOp sink = unflatten_graph(flat);
  if (flag(Flag::SPEC)) verify(sink, Stage::Tensor, "realize");
  const RewriteCounts before = rewrite_counts();
  const UOp plan = schedule(sink, targets_of(sink));
  counters().visits += rewrite_counts().visits - before.visits;
  counters().attempts += rewrite_counts().attempts - before.attempts;
  auto out = compile_plan(plan);
  counters().nodes += arena.made();
  return out;
}

}  // namespace

CompiledPlan::CompiledPlan(UOp plan) {
  ArenaScope scope(arena);
  steps = import(plan);
  placed = plan_memory(steps);
  if (flag(Flag::SPEC)) verify(placed, Stage::Plan, "plan memory");
}

std::shared_ptr<const CompiledPlan> compile_plan(UOp plan) {
  auto out = std::make_shared<CompiledPlan>(plan);
  std::map<uint8_t, std::vector<UOp>> by_device;  // Calls, one of each body
  for (UOp s : out->steps->src()) {
    if (!s->is(Op::Call) || !out->kernels.try_emplace(CompiledPlan::key(s)).second) continue;
    by_device[s->device].push_back(s);
  }
  for (const auto& [id, calls] : by_device) {
    Device& runs = device(id);
    check_computes(runs, provenance_of(calls[0]));
    std::vector<UOp> bodies;
    for (UOp call : calls) bodies.push_back(call->src(0));
    const auto start = std::chrono::steady_clock::now();
    auto kernels = kernels_for(bodies, runs);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    counters().lower_ms += took.count();
    for (size_t i = 0; i < calls.size(); ++i)
      out->kernels[CompiledPlan::key(calls[i])] = kernels[i];
  }
  return out;
}

EngineCounters& counters() {
  static EngineCounters c;
  return c;
}

std::shared_ptr<const CompiledPlan> plan_for(const Flat& flat) {
  PlanCache& c = cache();
  ++counters().schedules;
  PlanKey key{flat, code_flags_hash()};
  {
    std::lock_guard lock(c.mutex);
    if (auto it = c.plans.find(key); it != c.plans.end()) {
      ++counters().schedule_hits;
      return it->second.use();
    }
  }
  auto plan = plan_of(flat);
  if (flag(Flag::DEBUG) >= 1)
    std::fprintf(stderr, "scheduled %u steps, %zu kernels\n", plan->steps->nsrc,
                 plan->kernels.size());
  // Programs that never repeat must not pile up.
  std::lock_guard lock(c.mutex);
  if (c.plans.size() >= kMaxPlans) drop_older_half(c.plans);
  return c.plans.try_emplace(std::move(key), plan).first->second.use();
}

void clear_plans() {
  {
    std::lock_guard lock(cache().mutex);
    cache().plans.clear();
  }
  clear_kernel_cache();
}

}  // namespace mote
