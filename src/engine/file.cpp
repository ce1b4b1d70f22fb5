#include <mote/file.h>

#include "runtime/disk.h"
#include "tensor/impl.h"

namespace mote {

void start_engine();

Tensor from_file(const std::string& path, DType dtype, const Sizes& shape, int64_t offset,
                 Loc where) {
  OuterCall call("from_file", where);
  start_engine();
  expect(dtype != DType::none && dtype != DType::index, "no tensor has the dtype ", dtype);
  expect(offset >= 0, "the offset must not be negative, got ", offset);
  std::vector<Dim> dims = to_dims(shape);
  check_sizes(dims);
  MappedFile file = map_file(path, offset, size_bytes(numeric(product(dims)), dtype));
  return from_blob(const_cast<void*>(file.data), shape, dtype, file.unmap, file.context, kDisk);
}

}  // namespace mote
