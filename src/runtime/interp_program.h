// The reference interpreter of lowered kernels: runs the statements of a Linear node one by one,
// every tile element by element, with the meaning of ir/eval. Every access is checked against the
// size of its Param, so that it also is the guarded mode of the other devices.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/node.h"

namespace mote {

// A kernel made ready to run; it holds no nodes. run() may be called from several threads at once.
class InterpProgram {
 public:
  // `linear` as lower/ gives it; vars: the names of the kernel's scalar arguments, in order.
  InterpProgram(UOp linear, std::string name, std::span<const std::string> vars);
  ~InterpProgram();
  InterpProgram(InterpProgram&&) noexcept;

  // buffers by Param slot; vars in the order given above. A Global loop runs from begin to end,
  // without one they are ignored. Throws an Internal error on an access outside of a Param.
  void run(std::span<void* const> buffers, std::span<const int64_t> vars, int64_t begin,
           int64_t end) const;

 private:
  struct Code;
  std::unique_ptr<const Code> code_;
};

}  // namespace mote
