// What kernels have in common: those of equal layers have the same expressions, and what is found
// out about one of them or made of it holds for all.
#pragma once
#include <vector>

#include "schedule/ranges.h"

namespace mote {

// What the expressions of a kernel say. Memory is named by the slot of the argument.
struct Content {
  struct Read {
    int slot;
    UOp position;
  };
  std::vector<Read> reads;
  // Inside reduces that reuse what they load, such as matrix products; what does not change
  // within the reduce is none.
  std::vector<Read> operands;
  std::vector<int> slots;      // of all Params
  std::vector<UOp> loops;
  int ops = 0;                 // of the values
  size_t staged = 0;           // values, each in memory of its own
};
class Contents {
 public:
  const Content& of(const DrawnKernel& kernel);

 private:
  ByWords<Content> known_;
  std::vector<uint64_t> words_;  // kept warm
};

// Kernels with their final numbers: loops of the outputs first, then canonically, and Params by
// first use, so that equal kernels are equal nodes.
class Bodies {
 public:
  Step step_of(Drawn& drawn, DrawnKernel& kernel);

 private:
  struct Body {
    UOp sink;
    std::vector<int> slots;  // of the drawn kernel's arguments that are read, by final slot
  };
  Body made_of(const Drawn& drawn, const DrawnKernel& kernel, std::span<const UOp> priors) const;

  ByWords<Body> known_;
  std::vector<uint64_t> words_;  // kept warm
};

}  // namespace mote
