// Memory to try a kernel on: of the sizes its buffers have, but no tensor's. All pages are there
// and hold plausible values before anything is timed.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/kernel_cache.h"
#include "runtime/host_array.h"

namespace mote {

class Workbench {
 public:
  // Why the kernel cannot be tried, or "".
  static std::string cannot_try(UOp body, const Device& device);

  // Device error where there is not enough memory. `body` as schedule/ gives it.
  Workbench(UOp body, Device& device);

  // Seconds that one run takes, the mean of `times` in a row.
  double time(const std::shared_ptr<const Kernel>& kernel, int times);
  // What a run leaves in the buffers that are written; all runs start from the same contents.
  std::vector<HostArray> outputs(const std::shared_ptr<const Kernel>& kernel);
  // Negative numbers make nonsense of some functions: from now on there are none.
  void use_positive_values();
  // What is wrong with `got`, or "". Sums may be made in any order, nothing else may differ.
  std::string difference(const std::vector<HostArray>& got,
                         const std::vector<HostArray>& wanted) const;

 private:
  struct Buffer {
    DType dtype = DType::none;
    int64_t count = 0;
    bool written = false, read = false;
    std::shared_ptr<MemoryBlock> memory;
    HostArray start = {};  // of a written one
  };
  void fill(bool positive);
  void restore(bool all);
  LaunchList launches(const std::shared_ptr<const Kernel>& kernel, int times) const;

  Device& device_;
  std::vector<Buffer> buffers_;  // by Param slot
  VarValues variables_;          // the largest of each
  bool in_place_ = false;        // some buffer is read and written
  double epsilon_ = 0, terms_ = 1;
};

}  // namespace mote
