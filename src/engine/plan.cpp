#include "engine/plan.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/flags.h"
#include "base/hash.h"
#include "engine/dated.h"
#include "ir/provenance.h"
#include "ir/spec.h"

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

// Which buffers the step reads: those that something but a Store's place looks at.
std::vector<bool> buffers_read(const Step& s) {
  std::vector<bool> reads(s.buffers.size(), !s.body);
  if (!s.body) {
    reads[0] = false;
    return reads;
  }
  for (UOp n : toposort(s.body))
    for (uint32_t i = n->is(Op::Store) ? 1 : 0; i < n->nsrc; ++i)
      if (UOp place = n->src(i); place->is(Op::Index) && place->src(0)->is(Op::Param))
        reads[static_cast<size_t>(place->src(0)->ints(0))] = true;
  return reads;
}

void compile_kernels(const Plan& plan, Device& device, CompiledPlan& out) {
  std::map<uint8_t, std::vector<size_t>> by_device;
  std::unordered_set<const Node*> bodies_seen;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (!plan.steps[i].body) continue;
    by_device[plan.steps[i].device].push_back(i);
    bodies_seen.insert(plan.steps[i].body.get());
  }
  for (auto& [id, steps] : by_device) {
    std::vector<UOp> bodies;
    for (size_t i : steps) bodies.push_back(plan.steps[i].body);
    Device& runs = id ? mote::device(id) : device;
    check_computes(runs, plan.steps[steps[0]].provenance);
    auto start = std::chrono::steady_clock::now();
    auto kernels = kernels_for(bodies, runs);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    counters().lower_ms += took.count();
    for (size_t i = 0; i < steps.size(); ++i) out.steps[steps[i]].kernel = kernels[i];
  }
  out.distinct = static_cast<int>(bodies_seen.size());
}

std::shared_ptr<const CompiledPlan> compile_plan(const Flat& flat, Device& device) {
  Arena arena;
  ArenaScope scope(arena);
  UOp sink = unflatten_graph(flat);
  if (flag(Flag::SPEC)) verify(sink, Stage::Tensor, "realize");
  const RewriteCounts before = rewrite_counts();
  Plan plan = schedule(sink, device.target());
  counters().visits += rewrite_counts().visits - before.visits;
  counters().attempts += rewrite_counts().attempts - before.attempts;
  auto out = std::make_shared<CompiledPlan>();
  std::unordered_map<const Node*, std::vector<bool>> reads;  // equal bodies read alike
  out->steps.reserve(plan.steps.size());
  for (const Step& s : plan.steps) {
    auto [known, fresh] = reads.try_emplace(s.body.get());
    if (fresh) known->second = buffers_read(s);
    out->steps.push_back({nullptr, s.buffers, s.outputs, s.written, known->second, s.device,
                          s.provenance});
  }
  compile_kernels(plan, device, *out);
  counters().nodes += arena.made();
  out->buffers = std::move(plan.buffers);
  out->arenas = std::move(plan.arenas);
  out->unplanned_bytes = plan.unplanned_bytes;
  return out;
}

}  // namespace

EngineCounters& counters() {
  static EngineCounters c;
  return c;
}

std::shared_ptr<const CompiledPlan> plan_for(const Flat& flat, Device& device) {
  PlanCache& c = cache();
  ++counters().schedules;
  PlanKey key{flat, mix(code_flags_hash(), hash_bytes(device.name().data(), device.name().size()))};
  {
    std::lock_guard lock(c.mutex);
    if (auto it = c.plans.find(key); it != c.plans.end()) {
      ++counters().schedule_hits;
      return it->second.use();
    }
  }
  auto plan = compile_plan(flat, device);
  if (flag(Flag::DEBUG) >= 1)
    std::fprintf(stderr, "scheduled %zu steps, %d kernels\n", plan->steps.size(), plan->distinct);
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
