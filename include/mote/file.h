// Tensors that are files.
#pragma once
#include <mote/tensor.h>

namespace mote {

// The values stored in a file from byte `offset` on, row-major, in the machine's byte order. The
// file is mapped, not read: the tensor lives on the device DISK, is read-only, and costs memory
// only once it is moved (`.to("CPU")`), which copies it once. Computing on DISK is an error. The
// mapping goes when the last user of the tensor is gone. A file that was cut short before it is
// read is an error; one that is cut short while it is read ends the program (SIGBUS).
Tensor from_file(const std::string& path, DType dtype, const Sizes& shape, int64_t offset = 0,
                 Loc = MOTE_HERE);

}  // namespace mote
