// Kernels ready to run, one per distinct body, device kind and code-changing configuration.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ir/flat.h"
#include "optimize/optimize.h"
#include "rewrite/rewrite.h"
#include "runtime/device.h"
#include "schedule/schedule.h"

namespace mote {

struct Kernel {
  std::unique_ptr<Code> code;
  std::string name, text;          // no text: it came from the disk
  std::string actions;             // that its loops were chosen by
  std::vector<std::string> vars;   // names, in the order of the arguments
  Flat extent;                     // of the Global range, in variables
  bool threaded = false;
  Estimate estimate;
  double compile_ms = 0;  // from the body to code
};

// Distinct bodies of one arena; results in the same order. Those not yet known are lowered and
// compiled on all cores. A hit compares the whole body, not only its hash.
std::vector<std::shared_ptr<const Kernel>> kernels_for(std::span<const UOp> bodies, Device& device);
// Keeps a kernel that was made of this body elsewhere; gives the one that is kept.
std::shared_ptr<const Kernel> add_kernel(UOp body, Device& device,
                                         std::shared_ptr<const Kernel> kernel);
// Its text, made again where it came without.
std::string kernel_text(const Kernel& kernel, UOp body, Device& device);
// Code for the kernel with its loops chosen so; empty where an action is refused.
std::shared_ptr<const Kernel> compile_kernel(const Flat& body, std::span<const Action> actions,
                                             Device& device);
// What the cache has now for these flags, in no order.
struct KnownKernel {
  Flat body;
  std::string device;  // its kind
  std::shared_ptr<const Kernel> kernel;
};
std::vector<KnownKernel> known_kernels();
void clear_kernel_cache();

// EngineCounts, as threads add to them.
struct EngineCounters {
  std::atomic<uint64_t> schedules{0}, schedule_hits{0}, kernels_compiled{0}, kernels_run{0},
      nodes{0}, visits{0}, attempts{0}, plan_kernels{0}, plan_distinct{0};
  std::atomic<double> lower_ms{0};
};
EngineCounters& counters();
// Adds what this thread makes in the arena, and its rewrites, while it lives.
class CountedWork {
 public:
  explicit CountedWork(const Arena& a) : arena_(a), made_(a.made()), before_(rewrite_counts()) {}
  ~CountedWork();

 private:
  const Arena& arena_;
  uint64_t made_;
  RewriteCounts before_;
};

}  // namespace mote
