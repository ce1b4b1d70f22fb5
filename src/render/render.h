// From a lowered program (lower/lower.h) to the text of one function:
//
//   void NAME(void** buffers, const int64_t* vars, int64_t begin, int64_t end)
//
// buffers by Param slot, vars in the order of program.vars. A Thread loop runs over [begin, end);
// without one they are ignored. Different slots never overlap; memory need not be aligned.
//
// All renderers share one expansion (expand.h) and compute the same values:
//  - Integers wrap; shifts, divisions, float-to-int conversions are plain: lower/ made them safe.
//  - Floats are IEEE, op by op. Where sums contract (ir/freedoms.h), the f32 or f64 sum of a Reduce
//    over registers may fuse with a Mul (in C any Add may). MulAdd always rounds once.
//  - Max and Min give NaN if either operand is; of two zeros, either (a freedom).
//  - Reduce over registers folds in ascending order of their positions, row-major by range slot,
//    and then the lanes as a tree: lane i with lane i + n/2 for n = lanes, lanes/2, ... 2.
//  - A gate that is false never touches memory.
// The text depends on the program, the target's vector width and the freedoms, on nothing else.
#pragma once
#include <string>

#include "ir/program.h"
#include "ir/target.h"

namespace mote {

// LLVM IR, version 19, for runtime/llvm.h. Of the narrow floats it knows f16 and bf16; what the CPU
// lacks of them LLVM replaces by calls of its own, so give it those the CPU converts.
std::string render_llvm(const Program& program, const Target& target);

// C11 with GNU vector types, for runtime/c_compiler.h. Knows no narrow floats: compilers disagree
// on whether and how they have them.
std::string render_c(const Program& program, const Target& target);

// PTX: an entry whose arguments are the buffers and then the variables, 64 bits each. Elements of
// memory lie at multiples of their size. If there is a second entry, the first is for buffers that
// all begin at multiples of kAligned bytes.
constexpr int64_t kAligned = 16;
std::string unaligned_entry(const std::string& kernel);
std::string render_ptx(const Program& program, const Target& target,
                       int architecture);  // 90: sm_90a

// How such a kernel is launched. The workers of a block are in one dimension.
struct GridLaunch {
  int64_t blocks[3] = {1, 1, 1}, workers = 1, shared_bytes = 0;
  bool flat = false;  // all blocks in the first dimension, because another would be too long
};
GridLaunch launch_of(const Program& program);

}  // namespace mote
