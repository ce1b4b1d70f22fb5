// Windows that move over the spatial axes: convolutions and pools, with ONNX's padding.
#pragma once
#include "onnx/ops.h"

namespace mote::onnx {

// One entry per spatial axis.
struct Windows {
  std::vector<int64_t> kernel, stride, dilation, before, after;
  std::vector<int64_t> out;    // how many windows there are
  std::vector<int64_t> extra;  // beyond the padding, where sizes are rounded up
  size_t rank() const { return kernel.size(); }
};

// From the attributes of a node whose input has this shape (N, C, spatial...).
Windows windows_of(Call& c, const std::vector<int64_t>& shape, std::vector<int64_t> kernel);
// Pads around the spatial axes with a value.
Tensor padded(const Tensor& x, const std::vector<int64_t>& before,
              const std::vector<int64_t>& after, Number value);
// (N, C, out..., kernel...) of a padded input.
Tensor unfolded(const Tensor& x, const Windows& w);
// `outside` is the value of the padding.
Tensor convolve(Call& c, const Tensor& x, const Tensor& weight, const Tensor& bias,
                int64_t outside = 0);

}  // namespace mote::onnx
