#include "onnx/attend.h"

#include <cmath>

namespace mote::onnx {

Tensor to_heads(const Tensor& x, int64_t heads) {
  expect(heads > 0 && x.size(2) % heads == 0, "the last axis has ", x.size(2),
         " elements, not a multiple of ", heads, " heads");
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

Tensor from_heads(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Tensor repeat_heads(const Tensor& x, int64_t heads) {
  if (x.size(1) == heads) return x;
  expect(x.size(1) > 0 && heads % x.size(1) == 0, heads, " heads of queries are no multiple of ",
         x.size(1));
  return x.repeat_interleave(heads / x.size(1), 1);
}

Tensor masked_softmax(const Tensor& scores) {
  const Tensor most = scores.amax({-1}, true);
  const Tensor e = (scores - most.masked_fill(most.isneginf(), 0)).exp();
  const Tensor sum = e.sum({-1}, true);
  return e / sum.masked_fill(sum.eq(0), 1);
}

Tensor as_bias(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::boolean) return mask.cast(dtype);
  const Tensor zero = mask.zeros_like(dtype);
  return mote::where(mask, zero, zero - INFINITY);
}

Tensor window_bias(Tensor offset, int64_t queries, int64_t keys, int64_t left, int64_t right,
                   DType dtype) {
  const Options whole{DType::i64, offset.device()};
  const Tensor i = arange(queries, whole).reshape({1, 1, queries, 1});
  const Tensor j = arange(keys, whole).reshape({1, 1, 1, keys});
  const Tensor ahead = j - (i + offset);
  Tensor sees = ahead.ones_like(DType::boolean);
  if (right >= 0) sees = sees.logical_and(ahead <= right);
  if (left >= 0) sees = sees.logical_and(ahead >= -left);
  return as_bias(sees, dtype);
}

Tensor rotated(const Tensor& x, const Rotation& r) {
  const int64_t half = r.cos.size(-1), turned = 2 * half, size = x.size(3);
  expect(turned <= size, "the caches turn ", turned, " elements of heads with ", size);
  const Tensor cos = r.cos.unsqueeze(2), sin = r.sin.unsqueeze(2), head = x.narrow(3, 0, turned);
  Tensor a, b;
  if (r.interleaved) {
    const Tensor pairs = head.unflatten(3, {half, 2});
    a = pairs.select(4, 0), b = pairs.select(4, 1);
  } else {
    a = head.narrow(3, 0, half), b = head.narrow(3, half, half);
  }
  const Tensor real = cos * a - sin * b, imaginary = sin * a + cos * b;
  Tensor out =
      r.interleaved ? stack({real, imaginary}, 4).flatten(3, 4) : cat({real, imaginary}, 3);
  if (turned < size) out = cat({out, x.narrow(3, turned, size - turned)}, 3);
  return out;
}

}  // namespace mote::onnx
