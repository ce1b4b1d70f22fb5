// Tensors in files beside the model. A path in a file is not trusted: it is opened below the
// model's folder without following links, and must be a regular file with one name.
#pragma once
#include "onnx/values.h"

namespace mote::onnx {

// `size` bytes of the tensor's external data, mapped.
Bytes external_bytes(const TensorData& data, uint64_t size, const File& file, const Folder& folder);

}  // namespace mote::onnx
