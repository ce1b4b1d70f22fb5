#include <mote/file.h>

#include "runtime/disk.h"
#include "tensor/impl.h"

namespace mote {

void start_engine();

Tensor from_file(const std::string& path, DType dtype, const Sizes& shape, int64_t offset,
                 Loc where) {
  Call call("from_file", where);
  start_engine();
  expect(dtype != DType::none && dtype != DType::index, "no tensor has the dtype ", dtype);
  expect(offset >= 0, "the offset must not be negative, got ", offset);
  int64_t count = 1;
  for (const Dim& d : to_dims(shape)) {
    int64_t size = numeric(d);
    expect(size >= 0, "sizes must not be negative, got ", size);
    expect(!__builtin_mul_overflow(count, size, &count) && count <= INT64_MAX / size_of(dtype),
           "the shape ", to_dims(shape), " holds more elements than there can be");
  }
  MappedFile file = map_file(path, offset, count * size_of(dtype));
  return from_blob(const_cast<void*>(file.data), shape, dtype, file.unmap, file.context, "DISK");
}

}  // namespace mote
