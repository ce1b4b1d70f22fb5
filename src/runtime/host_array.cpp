#include "runtime/host_array.h"

#include <new>

#include "ir/size_sum.h"

namespace mote {

HostArray::HostArray(DType d, std::vector<int64_t> s) : dtype(d), shape(std::move(s)) {
  int64_t wanted = size_bytes(count(), d);
  if (static_cast<size_t>(wanted) > bytes.max_size()) throw std::bad_alloc();
  bytes.resize(static_cast<size_t>(wanted));
}

int64_t HostArray::count() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

Scalar HostArray::at(int64_t i) const {
  return load_scalar(dtype, bytes.data() + i * size_of(dtype));
}
void HostArray::set(int64_t i, const Scalar& value) {
  store_scalar(bytes.data() + i * size_of(dtype), value);
}

Scalar load_scalar(DType dtype, const std::byte* p) {
  if (is_float(dtype)) return {dtype, 0, load_float(dtype, p)};
  return {dtype, load_int(dtype, p), 0};
}

void store_scalar(std::byte* p, const Scalar& value) {
  if (is_float(value.dtype))
    store_float(value.dtype, p, value.f);
  else
    store_int(value.dtype, p, value.i);
}

namespace {

// The shape of an elementwise result: that of any source that has axes.
std::vector<int64_t> common_shape(std::span<const HostArray* const> src) {
  const HostArray* widest = src[0];
  for (const HostArray* s : src)
    if (!s->shape.empty()) widest = s;
  for (const HostArray* s : src)
    ensure(s->shape.empty() || s->shape == widest->shape, "interp: shapes ", s->shape, " and ",
           widest->shape, " of one elementwise op");
  return widest->shape;
}

}  // namespace

HostArray map_elements(Op op, DType dtype, std::span<const HostArray* const> src) {
  HostArray out(dtype, common_shape(src));
  Scalar values[3];
  for (int64_t i = 0, n = out.count(); i < n; ++i) {
    for (size_t s = 0; s < src.size(); ++s) values[s] = src[s]->at(src[s]->shape.empty() ? 0 : i);
    out.set(i, eval(op, dtype, {values, src.size()}));
  }
  return out;
}

}  // namespace mote
