// Tensors that are files.
#pragma once
#include <mote/tensor.h>

namespace mote {

// The values stored in a file from byte `offset` on, row-major, in the machine's byte order. The
// file is mapped, not read: the tensor is on the device DISK, read-only, and takes no memory until
// it is moved (`.to("CPU")`), which copies it once. Computing on DISK is an error. The file stays
// mapped as long as the tensor is in use. If the file was truncated before it is read, that is an
// error; if it is truncated while it is read, the program ends (SIGBUS).
Tensor from_file(const std::string& path, DType dtype, const Sizes& shape, int64_t offset = 0,
                 Loc = MOTE_HERE);

}  // namespace mote
