// What the processor this program runs on can do, read once.
#pragma once
#include <cstdint>
#include <string>

namespace mote {

struct CpuInfo {
  std::string model;      // as the kernel names it, for people
  int cores = 1;          // usable by this process (affinity and control group), see base/threads.h
  std::string features;   // the kernel's list of flags; part of any key for -march=native code
  int64_t l1d_bytes = 0;  // as one core sees it; if unknown, a guess
  int64_t l2_bytes = 0;   // likewise
  int64_t l3_bytes = 0;   // 0: there is none
  int l3_cores = 1;       // that share it, as far as this machine shows them
  int line_bytes = 64;
  int64_t ahead_bytes = 0;  // how far ahead streams of memory should be asked for; 0: not at all
  int vector_bytes = 16;  // widest usable vector register: SSE2 and NEON 16, AVX2 32, AVX-512 64
  int step_bytes = 64;    // of such a register that are worked on at a time
  int vector_registers = 16;  // how many of them
  bool fma = false;
  bool f16c = false;         // converts float16 <-> float32
  bool avx512bf16 = false;   // multiplies pairs of bfloat16, in registers of all widths
  bool vnni = false;         // multiplies words of small integers, likewise
  int64_t memory_bytes = 0;  // physical memory, or the control group's limit if less
};

// Threads: any. Never throws once the first call has returned.
const CpuInfo& cpu_info();

// What so many threads may count on of the last cache.
int64_t cache_share(const CpuInfo& info, int threads);
// How many numbers "0-3,8" lists.
int count_listed(const std::string& text);

}  // namespace mote
