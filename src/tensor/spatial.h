// What convolutions, pools and interpolation share.
#pragma once
#include "tensor/impl.h"

namespace mote {

// One number per spatial axis from what the user wrote; none below `least`.
std::vector<int64_t> per_axis(const Ints& list, int64_t spatial, const char* what, int64_t least);
// (N, C, spatial...), a missing N added.
Tensor batched(const Tensor& t, int64_t spatial);
// What the input or the weight of a correlation (Given::Correlate, with its numbers) gets.
Tensor correlate_gradient(const Tensor& g, const Tensor& x, const Tensor& weight,
                          std::span<const int64_t> numbers, bool for_weight);

}  // namespace mote
