// Rounding to ONNX's element types: small integers and floats that are held in wider dtypes.
#pragma once
#include "onnx/ops.h"

namespace mote::onnx {

enum class RoundScale : uint8_t { up, down, nearest };  // to a power of two (f8e8m0)

// x, of any dtype, as elements of this type. saturate: what is too large becomes the largest value,
// otherwise an infinity or no number, as the type has it.
Tensor to_element(const Tensor& x, const Element& to, bool saturate = true,
                  RoundScale scale = RoundScale::up);

}  // namespace mote::onnx
