// What order, selection and counts share.
#pragma once
#include "tensor/impl.h"

namespace mote {

// A signed integer that orders as t does: NaN last, -0 equal to 0. i64 for 64-bit dtypes, else i32.
Tensor ordered_key(const Tensor& t);
// How many bits of it differ: those of the dtype.
int key_bits(DType dtype);
// The first k of the positions that sort the last axis, stably.
Tensor argsort_last(const Tensor& t, bool descending, const Dim& k);

// t, computed once.
inline Tensor stored(const Tensor& t) { return make_value(prim::contiguous(node_of(t)), t); }
// Positions 0, 1, ... along one of `rank` axes.
Tensor positions_along(const Tensor& like, int64_t axis, DType dtype);

}  // namespace mote
