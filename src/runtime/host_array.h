// Values in host memory, for the interpreters: packed elements in row-major order.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "ir/eval.h"

namespace mote {

struct HostArray {
  DType dtype = DType::none;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  HostArray() = default;
  HostArray(DType d, std::vector<int64_t> s);  // zeros
  int64_t count() const;
  Scalar at(int64_t i) const;
  void set(int64_t i, const Scalar& value);
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
  template <class T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
};

Scalar load_scalar(DType dtype, const std::byte* p);
void store_scalar(std::byte* p, const Scalar& value);

// Elementwise op with the meaning of ir/eval; rank-0 sources repeat.
HostArray map_elements(Op op, DType dtype, std::span<const HostArray* const> src);

}  // namespace mote
