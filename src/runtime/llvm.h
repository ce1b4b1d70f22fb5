// LLVM 19 in this process, found with dlopen: IR text in, a relocatable object (runtime/elf.h) out.
//
// What the IR text should carry:
//   define void @kernel(ptr noalias %a, ...) #0 { ... }
//   attributes #0 = { nounwind "prefer-vector-width"="512" "no-trapping-math"="true" }
// nounwind saves the unwind tables. prefer-vector-width is the device's vector width in bits.
// Vectors spelt out in the text use registers as wide as they are without it; it matters for what
// LLVM forms itself (a loop vectoriser in `passes`), where Intel CPUs otherwise get 256 bits. Never
// write "min-legal-vector-width"="0": it splits 512-bit vectors (8x3 GEMM tile: 94 spills).
// Products fuse with sums only where both say `contract`, or in llvm.fmuladd / llvm.fma. A splat is
// insertelement + shufflevector. Triple and data layout are set here; target-cpu and
// target-features are not needed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mote {

// For whom, and how hard, to compile. All of it belongs in a cache key: see describe().
struct CpuTarget {
  std::string triple;
  std::string cpu;        // LLVM's names: "icelake-server", "znver4", ...
  std::string features;   // "+avx2,-avx512f,..."; empty: what the cpu implies
  std::string passes;     // LLVMRunPasses syntax, run before code generation; empty: none
  int codegen_level = 2;  // 0 ... 3, of instruction selection, scheduling and register allocation
};

// Promotes allocas, shares equal subexpressions, folds constants: 0.2 ms of a 4.5 ms compilation of
// a 300-line kernel. Text that is straight-line SSA gains nothing from more: default<O2> costs 5 ms
// and gives the same speed.
constexpr const char* default_passes = "sroa,early-cse";

// True if LLVM was found and can compile for this machine; else why_not (if given) says what was
// tried and what to install. Loads the library on the first call of any function here.
bool llvm_available(std::string* why_not = nullptr);

// The program is ending and LLVM has destroyed what it needs to compile. Kernels that were compiled
// before still run.
bool llvm_has_ended();

// "19.1.7", or empty if not available.
std::string llvm_version();

// This machine, default_passes. Throws Error(Device) if LLVM is not available.
CpuTarget host_cpu_target();

// One line that holds every field.
std::string describe(const CpuTarget& target);

// What code by this LLVM for this machine depends on, as one text each. An earlier process's answer
// is on disk, and holds while the library's file has not changed: a process whose kernels are all
// in the cache needs no library, which would cost it 10 ms and 45 MB. Null: not available.
struct LlvmSummary {
  std::string version, host;  // llvm_version(), describe(host_cpu_target())
};
const LlvmSummary* llvm_summary();

// Compiles a module. The object is position-independent, small code model; its functions may call
// those that c_library_symbol() knows. Throws Error(Device) if LLVM is not available, has ended or
// does not know the target, and Error(Internal) with LLVM's message and the offending line if the
// text does not parse, verify or compile. Threads: any number may compile at once, however small
// their stacks.
std::vector<uint8_t> llvm_compile(std::string_view ir_text, const CpuTarget& target);

// The same, as assembler text, for people and for tests that look for spills.
std::string llvm_assembly(std::string_view ir_text, const CpuTarget& target);

}  // namespace mote
