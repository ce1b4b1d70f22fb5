// Tensors of other libraries, and for them, without a copy: DLPack's struct, which NumPy, PyTorch,
// JAX and others exchange. NumPy: np.from_dlpack(capsule) and array.__dlpack__().
//
// A DLManagedTensor of dlpack.h, or of another library's own declaration, is passed as the pointer
// it is; its memory is described by the version 0 layout, which all of them read.
#pragma once
#include <mote/tensor.h>

struct DLManagedTensor;

namespace mote {

// A tensor that looks at the other's memory, row-major or not, and calls its deleter when the last
// user is gone; writes are seen on both sides. On CPU only. An error leaves `managed` with the
// caller.
Tensor from_dlpack(DLManagedTensor* managed, Loc = MOTE_HERE);

// The tensor's elements, realized, for another library, which calls the deleter when it is done. It
// shares memory where the tensor is contiguous in memory of its own on CPU; else it is a copy.
DLManagedTensor* to_dlpack(const Tensor& tensor, Loc = MOTE_HERE);

}  // namespace mote
