// From lazy tensors to memory.
//
// realize(tensors) gives every tensor a buffer that holds its elements:
//   * A tensor that was written (assign, setitem, random counters) has its pending writes run, in
//     place, in its own buffer. Any other gets a new buffer; views realize what they look at.
//   * Afterwards the node of each realized value points to its buffer (Node::realized), so that
//     every graph that contains it reads memory from then on; no tensor is searched for. Nothing
//     that was stored is computed again. A buffer is freed when the last tensor or pending graph
//     that names it is gone. Intermediates live in one arena per device during the run.
//   * Writing in place would change what unrealized graphs elsewhere still mean to read. Any value
//     of the graph at hand that depends on a version about to be overwritten and is still referred
//     to from outside is stored as well, before the write (goals.h).
//   * All memory is taken before anything runs: an error leaves every tensor as it was.
// The graph, with buffers numbered and variable values taken out, is the key of the schedule cache
// (with the flags that change code and the devices): a second step of a loop costs one look-up.
// Threads may realize at the same time: each takes a lease on the storages it touches (lease.h).
#pragma once
#include <mote/tensor.h>

#include <span>
#include <string>
#include <vector>

#include "ir/flat.h"
#include "schedule/schedule.h"

namespace mote {

void realize(std::span<const Tensor> tensors);
inline void realize(std::initializer_list<Tensor> tensors) {
  realize(std::span<const Tensor>(tensors.begin(), tensors.size()));
}

// Tensors in memory that is their own, about to be written by something that is no graph: whoever
// else reads what they hold now reads a copy from here on.
void set_aside(std::span<const Tensor> tensors);

// What realizing would run: for tests, benches and the curious. Kernels are lowered and rendered.
struct KernelReport {
  std::string name, text;  // loops, generated text
  Estimate estimate;
  std::vector<std::string> places;  // user lines that went into it, a bounded set
};
struct ScheduleReport {
  std::vector<KernelReport> kernels;  // in order; a kernel used twice appears twice
  int distinct = 0, copies = 0;
  int64_t arena_bytes = 0, unplanned_bytes = 0;
  int64_t new_bytes = 0;  // of buffers that get their memory: results and what others still need
  Estimate total;
};
ScheduleReport explain(std::span<const Tensor> tensors);

struct EngineCounts {
  uint64_t schedules = 0, schedule_hits = 0;  // realizations that had work; found in the cache
  uint64_t kernels_compiled = 0, kernels_run = 0;
  uint64_t nodes = 0;                            // constructions asked for, in all graphs
  uint64_t visits = 0, attempts = 0;             // nodes that rewrites looked at, rules they tried
  uint64_t waits = 0, queue_waits = 0;  // for a device; of them, because too much was under way
  double lower_ms = 0;                           // wall time from kernel bodies to code
  uint64_t plan_kernels = 0, plan_distinct = 0;  // of the last realization
};
EngineCounts engine_counts();
void clear_caches();

}  // namespace mote
