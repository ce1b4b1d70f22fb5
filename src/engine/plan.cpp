#include "engine/plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/flags.h"
#include "engine/code_cache.h"
#include "engine/plan_disk.h"
#include "ir/provenance.h"
#include "ir/spec.h"

namespace mote {

namespace {

// Programs that never repeat must not pile up.
CodeCache<CompiledPlan>& cache() {
  static auto* c = new CodeCache<CompiledPlan>(1024);
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
  UOp plan;
  {
    CountedWork counted(arena);
    UOp sink = unflatten_graph(flat);
    if (flag(Flag::SPEC)) verify(sink, Stage::Tensor, "realize");
    plan = schedule(sink, targets_of(sink));
  }
  return compile_plan(plan);
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

std::shared_ptr<const CompiledPlan> plan_for(const Flat& flat) {
  ++counters().schedules;
  CodeKey key{flat};
  if (auto known = cache().find(key)) {
    ++counters().schedule_hits;
    return known;
  }
  const std::string stored = plan_key(flat);
  std::shared_ptr<const CompiledPlan> plan;
  if (!stored.empty()) plan = stored_plan(stored, flat);
  if (!plan) {
    plan = plan_of(flat);
    if (!stored.empty()) store_plan(stored, flat, *plan);
  }
  if (flag(Flag::DEBUG) >= 1)
    std::fprintf(stderr, "scheduled %u steps, %zu kernels\n", plan->steps->nsrc,
                 plan->kernels.size());
  return cache().add(std::move(key), std::move(plan));
}

void clear_caches() {
  cache().clear();
  clear_kernel_cache();
}

}  // namespace mote
