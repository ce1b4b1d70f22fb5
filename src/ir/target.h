// What a device is, in numbers: the only thing the compiler knows about it.
#pragma once
#include <cstdint>
#include <string>

#include "ir/dtype.h"
#include "ir/ops.h"

namespace mote {

struct Target {
  std::string name;            // for messages and cache keys
  int threads = 1;             // workers that share a kernel
  // Independent results that a kernel should have. Not the number of threads, for no sum may be
  // made in another order because there are more of them.
  int parallel_results = 8;
  int vector_bytes = 16;       // of one vector register
  int vector_registers = 16;
  bool fma = false;
  bool fuses_itself = false;   // the compiler behind fuses products and sums as it likes
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20;
  int streams = 4;             // places that main memory is best read from at once
  int64_t ahead_bytes = 0;     // how far ahead a stream is asked for; 0: it comes by itself
  int64_t cache_bytes = 8 << 20;  // what these threads may count on of the last cache
  int max_buffers = 64;        // arguments of one kernel
  int max_ops = 1000;          // size of one kernel's expression
  uint32_t dtypes = ~0u;       // bit per DType that the target computes with
  OpSet native;                // curves (Exp, Sin, ...) that need no decomposition
  // Costs in units of one vectorised flop on one element.
  double byte_cost = 4;        // moving one byte from or to main memory
  double load_cost = 1;        // reading one element that is near
  double curve_cost = 15;      // a transcendental
  double launch_cost = 40000;  // starting one kernel

  bool has(DType d) const { return dtypes >> static_cast<int>(d) & 1; }
};

}  // namespace mote
