// Descriptions of GPUs, by what their drivers say of them.
#pragma once
#include "ir/target.h"

namespace mote {

struct GpuNumbers {
  int architecture = 90;  // 10 * major + minor
  int processors = 132;
  int workers = 1024;             // of a block
  int64_t shared_bytes = 232448;  // of a block
  int64_t l2_bytes = 60 << 20;
};
// Of what the architecture has only what is rendered: no boxes, no products of staged tiles.
Target gpu_target(const GpuNumbers& numbers);

}  // namespace mote
