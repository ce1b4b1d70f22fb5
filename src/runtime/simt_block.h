// A model of devices with blocks of workers: runs the statements of a lowered kernel for every
// worker of every block, as far as its next meeting with others, in the order of their numbers.
//
// Errors, each with the kernel and the statement:
//   * an access outside of a memory;
//   * two workers that access one place of memory, one of them writing, with no barrier between
//     them (of the block's memory), or at all (of the kernel's arguments);
//   * a read of the block's memory where nobody has written, or a copy is still on its way;
//   * a barrier that not all workers of a block reach, a shuffle or a product of tiles that not all
//     of its lanes reach;
//   * a read of the result of a product that is pending, a write to what such a product reads;
//   * a copy that nobody waits for; a box that is too large; a read of what a box brings by who has
//     not awaited it; a counted barrier that nobody completes.
#pragma once
#include "ir/target.h"
#include "runtime/machine.h"

namespace mote {

struct SimtKernel {
  Instructions code;
  std::vector<int64_t> grid, block;  // as Program has them
  int warp = 1;
  std::vector<Fragment> fragments;
  int box = 0;  // as Target has it
};

void run_blocks(const SimtKernel& kernel, std::span<void* const> buffers,
                std::span<const int64_t> vars);

}  // namespace mote
