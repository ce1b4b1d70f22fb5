#include "engine/kernel_cache.h"

#include <chrono>
#include <cstdio>
#include <optional>

#include "base/flags.h"
#include "base/lifetime.h"
#include "base/threads.h"
#include "engine/code_cache.h"
#include "engine/search.h"
#include "engine/searched.h"
#include "ir/print.h"
#include "ir/spec.h"
#include "lower/lower.h"
#include "optimize/optimize.h"

namespace mote {

namespace {

// Memory for code is bounded. Plans in use keep their kernels.
CodeCache<Kernel>& cache() {
  static auto* c = new CodeCache<Kernel>(8192);
  return *c;
}

UOp checked(UOp graph, Stage stage, const char* pass) {
  if (!flag(Flag::SPEC)) return graph;
  verify(graph, stage, pass);
  verify_text(graph, pass);
  return graph;
}

// The arena that this thread compiles in, empty.
class WorkArena {
 private:
  struct Worker {
    Arena arena;
  };
  static Arena& fresh() {
    Arena& arena = PerThread<Worker>::get().arena;
    arena.reset();
    return arena;
  }
  Arena& arena_ = fresh();
  ArenaScope scope_{arena_};
  CountedWork counted_{arena_};
};

// Of the loops that workers share out, together.
UOp global_extent(UOp body) {
  UOp all = index(1);
  for (UOp n : toposort(body))
    if (n->is(Op::Range) && range_role(n) == Role::Global) all = all * n->src(0);
  return all;
}

std::shared_ptr<const Kernel> compiled(UOp body, const Tuned& tuned, Device& device) {
  const auto start = std::chrono::steady_clock::now();
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
  kernel->threaded = program.has_global;
  kernel->vars = program.var_names();
  kernel->extent = flatten_graph(global_extent(tuned.body));
  kernel->text = device.render(program);
  if (flag(Flag::DEBUG) >= 4) std::fprintf(stderr, "%s\n", kernel->text.c_str());
  kernel->code = device.compile(kernel->text, program);
  ++counters().kernels_compiled;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  kernel->compile_ms = took.count();
  return kernel;
}

// Of a program in the device's language: as it is.
std::shared_ptr<const Kernel> compiled_source(UOp body, Device& device) {
  const auto start = std::chrono::steady_clock::now();
  auto kernel = std::make_shared<Kernel>();
  kernel->text = body->arg.object->str;
  kernel->name = kernel->text.substr(3, kernel->text.find('\n') - 3);  // the first line: // name
  kernel->extent = flatten_graph(index(1));
  if (flag(Flag::DEBUG) >= 4) std::fprintf(stderr, "%s\n", kernel->text.c_str());
  kernel->code = device.compile_source(kernel->text);
  ++counters().kernels_compiled;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  kernel->compile_ms = took.count();
  return kernel;
}

std::shared_ptr<const Kernel> build(const Flat& flat, Device& device) {
  WorkArena arena;
  UOp body = unflatten_graph(flat);
  if (body->is(Op::Source)) return compiled_source(body, device);
  checked(body, Stage::Kernel, "schedule");
  if (flag(Flag::DEBUG) >= 5) std::fprintf(stderr, "%s\n", print(body).c_str());
  std::optional<Tuned> searched = searched_actions(body, device);
  return compiled(body, searched ? *searched : default_actions(body, device.target()), device);
}

}  // namespace

std::vector<std::shared_ptr<const Kernel>> kernels_for(std::span<const UOp> bodies,
                                                       Device& device) {
  // Devices of one kind (CPU, CPU:1) share code; NULL and CPU share a target, but not code.
  std::vector<std::shared_ptr<const Kernel>> out;
  std::vector<CodeKey> keys;
  std::vector<size_t> missing;
  for (UOp body : bodies) {
    keys.push_back({flatten_graph(body), device.kind()});
    out.push_back(cache().find(keys.back()));
    if (!out.back()) missing.push_back(keys.size() - 1);
  }
  if (flag(Flag::BEAM) && !missing.empty()) {
    std::vector<const Flat*> unknown;
    for (size_t i : missing)
      if (!bodies[i]->is(Op::Source)) unknown.push_back(&keys[i].flat);
    search_kernels(unknown, device, {.width = static_cast<int>(flag(Flag::BEAM))});
  }
  const FlagScopes flags;
  parallel_for(static_cast<int64_t>(missing.size()), [&](int64_t i) {
    FlagScope caller(flags);
    const size_t k = missing[static_cast<size_t>(i)];
    out[k] = build(keys[k].flat, device);
  });
  for (size_t i : missing) out[i] = cache().add(std::move(keys[i]), out[i]);
  return out;
}

std::shared_ptr<const Kernel> add_kernel(UOp body, Device& device,
                                         std::shared_ptr<const Kernel> kernel) {
  ++counters().kernels_compiled;
  return cache().add({flatten_graph(body), device.kind()}, std::move(kernel));
}

std::string kernel_text(const Kernel& kernel, UOp body, Device& device) {
  return kernel.text.empty() ? build(flatten_graph(body), device)->text : kernel.text;
}

std::shared_ptr<const Kernel> compile_kernel(const Flat& body, std::span<const Action> actions,
                                             Device& device) {
  WorkArena arena;
  const UOp kernel = unflatten_graph(body);
  return compiled(kernel, {apply_all(kernel, actions), {actions.begin(), actions.end()}}, device);
}

std::vector<KnownKernel> known_kernels() {
  std::vector<KnownKernel> out;
  const uint64_t flags = code_flags_hash();
  cache().for_each([&](const CodeKey& key, const std::shared_ptr<const Kernel>& kernel) {
    if (key.flags == flags) out.push_back({key.flat, key.kind, kernel});
  });
  return out;
}

void clear_kernel_cache() { cache().clear(); }

EngineCounters& counters() {
  static EngineCounters c;
  return c;
}

CountedWork::~CountedWork() {
  counters().nodes += arena_.made() - made_;
  counters().visits += rewrite_counts().visits - before_.visits;
  counters().attempts += rewrite_counts().attempts - before_.attempts;
}

}  // namespace mote
