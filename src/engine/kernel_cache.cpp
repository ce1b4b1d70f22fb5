#include "engine/kernel_cache.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/flags.h"
#include "base/hash.h"
#include "base/lifetime.h"
#include "base/threads.h"
#include "engine/dated.h"
#include "engine/search.h"
#include "engine/searched.h"
#include "ir/print.h"
#include "ir/spec.h"
#include "lower/lower.h"
#include "optimize/optimize.h"

namespace mote {

namespace {

struct Key {
  Flat body;
  std::string kind;
  uint64_t flags;
  bool operator==(const Key& o) const {
    return flags == o.flags && kind == o.kind && body == o.body;
  }
};
constexpr size_t kMaxKernels = 8192;

struct KeyHash {
  size_t operator()(const Key& k) const { return mix(k.body.hash, k.flags); }
};
struct Cache {
  std::mutex mutex;
  std::unordered_map<Key, Dated<std::shared_ptr<const Kernel>>, KeyHash> kernels;
  std::atomic<uint64_t> compiled{0}, nodes{0}, visits{0}, attempts{0};
};
Cache& cache() {
  static auto* c = new Cache;
  return *c;
}

UOp checked(UOp graph, Stage stage, const char* pass) {
  if (!flag(Flag::SPEC)) return graph;
  verify(graph, stage, pass);
  verify_text(graph, pass);
  return graph;
}

// Counts what is done on this thread in its arena while it lives.
class CountedArena {
 public:
  CountedArena() : scope_(fresh()), made_(worker().made()), before_(rewrite_counts()) {}
  ~CountedArena() {
    cache().nodes.fetch_add(worker().made() - made_);
    cache().visits.fetch_add(rewrite_counts().visits - before_.visits);
    cache().attempts.fetch_add(rewrite_counts().attempts - before_.attempts);
  }

 private:
  struct Worker {
    Arena arena;
  };
  static Arena& worker() { return PerThread<Worker>::get().arena; }
  static Arena& fresh() {
    worker().reset();
    return worker();
  }
  ArenaScope scope_;
  uint64_t made_;
  RewriteCounts before_;
};

std::shared_ptr<const Kernel> compiled(UOp body, const Tuned& tuned, Device& device) {
  auto kernel = std::make_shared<Kernel>();
  kernel->estimate = estimate(body);
  kernel->actions = to_string(tuned.actions);
  if (flag(Flag::DEBUG) >= 3) std::fprintf(stderr, "actions: %s\n", kernel->actions.c_str());
  if (!tuned.body) return {};
  checked(tuned.body, Stage::Kernel, "optimize");
  Program program = lower(tuned.body, device.target());
  if (flag(Flag::DEBUG) >= 6) std::fprintf(stderr, "%s\n", print(program.linear).c_str());
  checked(program.linear, Stage::Program, "lower");
  if (flag(Flag::SPEC)) verify_target(program.linear, device.target(), "lower");
  kernel->name = program.name;
  kernel->extent = program.global_extent;
  kernel->threaded = program.has_global;
  for (UOp v : program.vars) kernel->vars.push_back(v->arg.object->str);
  kernel->text = device.render(program);
  if (flag(Flag::DEBUG) >= 4) std::fprintf(stderr, "%s\n", kernel->text.c_str());
  kernel->code = device.compile(kernel->text, program);
  cache().compiled.fetch_add(1);
  return kernel;
}

std::shared_ptr<const Kernel> build(const Flat& flat, Device& device) {
  CountedArena arena;
  UOp body = checked(unflatten_graph(flat), Stage::Kernel, "schedule");
  if (flag(Flag::DEBUG) >= 5) std::fprintf(stderr, "%s\n", print(body).c_str());
  std::optional<Tuned> searched = searched_actions(body, device);
  return compiled(body, searched ? *searched : default_actions(body, device.target()), device);
}

}  // namespace

std::vector<std::shared_ptr<const Kernel>> kernels_for(std::span<const UOp> bodies,
                                                       Device& device) {
  std::vector<std::shared_ptr<const Kernel>> out(bodies.size());
  // Devices of one kind (CPU, CPU:1) share code; NULL and CPU share a target, but not code.
  const std::string kind = device.name().substr(0, device.name().find(':'));
  std::vector<Key> missing;
  std::vector<size_t> made_as(bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    Key key{flatten_graph(bodies[i]), kind, code_flags_hash()};
    std::lock_guard lock(cache().mutex);
    auto hit = cache().kernels.find(key);
    if (hit != cache().kernels.end()) {
      out[i] = hit->second.use();
      continue;
    }
    made_as[i] = missing.size();
    missing.push_back(std::move(key));
  }
  if (flag(Flag::BEAM) && !missing.empty()) {
    std::vector<const Flat*> unknown;
    for (const Key& key : missing) unknown.push_back(&key.body);
    search_kernels(unknown, device, {.width = static_cast<int>(flag(Flag::BEAM))});
  }
  std::vector<std::shared_ptr<const Kernel>> made(missing.size());
  const FlagScopes flags;
  parallel_for(static_cast<int64_t>(missing.size()), [&](int64_t i) {
    FlagScopes::Inherited caller(flags);
    made[static_cast<size_t>(i)] = build(missing[static_cast<size_t>(i)].body, device);
  });
  std::lock_guard lock(cache().mutex);
  // Memory for code is bounded. Plans in use keep their kernels.
  if (cache().kernels.size() + missing.size() > kMaxKernels) drop_older_half(cache().kernels);
  for (size_t m = 0; m < missing.size(); ++m)
    cache().kernels.try_emplace(std::move(missing[m]), made[m]);
  for (size_t i = 0; i < bodies.size(); ++i)
    if (!out[i]) out[i] = made[made_as[i]];
  return out;
}

std::shared_ptr<const Kernel> compile_kernel(const Flat& body, std::span<const Action> actions,
                                             Device& device) {
  CountedArena arena;
  const UOp kernel = unflatten_graph(body);
  return compiled(kernel, {apply_all(kernel, actions), {actions.begin(), actions.end()}}, device);
}

std::vector<KnownKernel> known_kernels() {
  std::vector<KnownKernel> out;
  const uint64_t flags = code_flags_hash();
  std::lock_guard lock(cache().mutex);
  for (const auto& [key, kernel] : cache().kernels)
    if (key.flags == flags) out.push_back({key.body, key.kind, kernel.value});
  return out;
}

uint64_t kernels_compiled() { return cache().compiled; }
LoweringWork lowering_work() {
  return {cache().nodes, {cache().visits, cache().attempts}};
}
void clear_kernel_cache() {
  std::lock_guard lock(cache().mutex);
  cache().kernels.clear();
}

}  // namespace mote
