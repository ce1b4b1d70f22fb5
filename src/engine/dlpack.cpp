// DLPack's structs, declared anew, version 0.
#include <mote/dlpack.h>

#include <algorithm>
#include <numeric>

#include "engine/realize.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "tensor/impl.h"

struct DLDevice {
  int32_t device_type, device_id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

namespace mote {

namespace {

constexpr int32_t on_cpu = 1;
struct TypeRow {
  DType dtype;
  uint8_t code, bits;
};
constexpr TypeRow types[] = {
    {DType::i8,      0, 8 },
    {DType::i16,     0, 16},
    {DType::i32,     0, 32},
    {DType::i64,     0, 64},
    {DType::u8,      1, 8 },
    {DType::u16,     1, 16},
    {DType::u32,     1, 32},
    {DType::u64,     1, 64},
    {DType::f16,     2, 16},
    {DType::f32,     2, 32},
    {DType::f64,     2, 64},
    {DType::bf16,    4, 16},
    {DType::boolean, 6, 8 },
};

DType dtype_from(const DLDataType& d) {
  for (const TypeRow& t : types)
    if (d.code == t.code && d.bits == t.bits && d.lanes == 1) return t.dtype;
  fail_call("no dtype matches DLPack's code ", static_cast<int>(d.code), " with ",
            static_cast<int>(d.bits), " bits and ", static_cast<int>(d.lanes), " lanes");
}

// The axes from the largest stride to the smallest, if the elements lie densely in that order.
std::optional<std::vector<int64_t>> dense_order(const DLTensor& t) {
  std::vector<int64_t> axes(static_cast<size_t>(t.ndim));
  std::iota(axes.begin(), axes.end(), 0);
  if (!t.strides) return axes;
  std::ranges::stable_sort(axes, [&](int64_t a, int64_t b) {
    return (t.shape[a] > 1 ? t.strides[a] : INT64_MAX) >
           (t.shape[b] > 1 ? t.strides[b] : INT64_MAX);
  });
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t size = t.shape[axes[i]];
    if (size > 1 && t.strides[axes[i]] != stride) return {};
    stride *= size;
  }
  return axes;
}

// What another library holds while it uses a tensor.
struct Lent {
  DLManagedTensor managed;
  Tensor tensor;
  std::vector<int64_t> shape, strides;
};

}  // namespace

Tensor from_dlpack(DLManagedTensor* managed, Loc where) {
  OuterCall call("from_dlpack", where);
  expect(managed != nullptr, "the tensor is null");
  const DLTensor& t = managed->dl_tensor;
  expect(t.device.device_type == on_cpu, "needs memory of the CPU, got DLPack's device type ",
         t.device.device_type);
  const DType dtype = dtype_from(t.dtype);
  expect(t.ndim >= 0 && t.ndim <= 64, "it has ", t.ndim, " axes");
  const auto order = dense_order(t);
  expect(order.has_value(), "its elements have gaps between them; make it contiguous first");
  std::vector<int64_t> shape;
  std::vector<int64_t> back(order->size());
  for (size_t i = 0; i < order->size(); ++i) {
    expect(t.shape[(*order)[i]] >= 0, "a size is negative");
    shape.push_back(t.shape[(*order)[i]]);
    back[static_cast<size_t>((*order)[i])] = static_cast<int64_t>(i);
  }
  auto done = [](void* held) {
    auto* m = static_cast<DLManagedTensor*>(held);
    if (m->deleter) m->deleter(m);
  };
  auto* data = static_cast<char*>(t.data) + t.byte_offset;
  Tensor flat = from_blob(data, shape, dtype, done, managed, "CPU");
  return std::ranges::is_sorted(back) ? flat : flat.permute(back);
}

DLManagedTensor* to_dlpack(const Tensor& tensor, Loc where) {
  OuterCall call("to_dlpack", where);
  expect_defined(tensor);
  const TypeRow* type = std::ranges::find(types, tensor.dtype(), &TypeRow::dtype);
  expect(type != std::end(types), "DLPack has no ", tensor.dtype());
  auto* lent = new Lent{{}, tensor.to("CPU"), tensor.shape(), {}};
  // All of another tensor in its order, in another shape, lies where that does.
  const Tensor base = lent->tensor.impl()->base;
  if (base.defined())
    lent->tensor = tensor.is_contiguous() && tensor.numel() == base.numel() &&
                           tensor.dtype() == base.dtype() && tensor.device() == "CPU"
                       ? base
                       : lent->tensor.clone();
  give_storage(lent->tensor);
  realize({lent->tensor});
  DeviceBuffer& buffer = device_buffer(*lent->tensor.impl()->storage);
  buffer.ensure_memory("tensor");
  buffer.memory->wait();
  lent->strides = row_major_strides(dims_of(tensor));
  lent->managed.dl_tensor = {
      host_address(buffer.memory->address()),
      {on_cpu,      0},
      static_cast<int32_t>(lent->shape.size()),
      { type->code, type->bits, 1},
      lent->shape.data(),
      lent->strides.data(),
      0
  };
  lent->managed.manager_ctx = lent;
  lent->managed.deleter = [](DLManagedTensor* m) { delete static_cast<Lent*>(m->manager_ctx); };
  return &lent->managed;
}

}  // namespace mote
