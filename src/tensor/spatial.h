// What convolutions, pools and interpolation share.
#pragma once
#include "tensor/impl.h"

namespace mote {

// One number per spatial axis from what the user wrote; none below `least`.
std::vector<int64_t> per_axis(const Ints& list, int64_t spatial, const char* what, int64_t least);
// (N, C, spatial...), a missing N added.
Tensor batched(const Tensor& t, int64_t spatial);

}  // namespace mote
