// What the attention operators share.
#pragma once
#include "onnx/ops.h"

namespace mote::onnx {

// (batch, length, heads * size) to (batch, heads, length, size) and back.
Tensor to_heads(const Tensor& x, int64_t heads);
Tensor from_heads(const Tensor& x);
// Each head of keys and values stands for as many queries' heads in a row.
Tensor repeat_heads(const Tensor& x, int64_t heads);
// Of rows that are -inf throughout: 0.
Tensor masked_softmax(const Tensor& scores);
// bool: true takes part; numbers are added.
Tensor as_bias(const Tensor& mask, DType dtype);
// 0 where query i, at position i + offset, may see key j, -inf elsewhere. A window below 0 is open.
// The offset is a number, or a tensor (batch, 1, 1, 1).
Tensor window_bias(Tensor offset, int64_t queries, int64_t keys, int64_t left, int64_t right,
                   DType dtype);

struct Rotation {
  Tensor cos, sin;  // (batch or 1, length, size / 2)
  bool interleaved = false;
};
// x (batch, length, heads, size): the first 2 * size of the rotation's of each head are turned.
Tensor rotated(const Tensor& x, const Rotation& r);

}  // namespace mote::onnx
