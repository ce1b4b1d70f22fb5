// Tensors from and for other libraries in the same process, without a copy, by DLPack, which NumPy,
// PyTorch, JAX and others share. NumPy: np.from_dlpack(capsule) and array.__dlpack__().
//
// Pass a pointer to a DLManagedTensor as dlpack.h or another library declares it. Its layout is
// that of version 0, which all of them read.
#pragma once
#include <mote/tensor.h>

struct DLManagedTensor;

namespace mote {

// A tensor on the other library's memory, whatever its strides. The deleter is called when the
// memory is no longer used; both sides see each other's writes. CPU only. After an error `managed`
// still belongs to the caller.
Tensor from_dlpack(DLManagedTensor* managed, Loc = MOTE_HERE);

// Realizes the tensor for another library, which calls the deleter when it is done. The memory is
// shared if the tensor is contiguous and on the CPU; otherwise it is a copy.
DLManagedTensor* to_dlpack(const Tensor& tensor, Loc = MOTE_HERE);

}  // namespace mote
