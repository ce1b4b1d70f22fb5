// The members of Tensor that run things and give values to the host.
#include <cstring>
#include <new>

#include "base/error.h"
#include "engine/jit_record.h"
#include "engine/realize.h"
#include "ir/eval.h"
#include "runtime/device.h"
#include "tensor/impl.h"

namespace mote {

void start_engine();

Tensor& Tensor::realize(Loc where) {
  Call call("realize", where);
  expect_defined(*this);
  start_engine();
  mote::realize({*this});
  return *this;
}

void realize(const std::vector<Tensor>& tensors, Loc where) {
  Call call("realize", where);
  start_engine();
  for (const Tensor& t : tensors) expect_defined(t);
  realize(std::span<const Tensor>(tensors));
}

static std::vector<std::byte> host_memory(int64_t bytes) try {
  return std::vector<std::byte>(static_cast<size_t>(bytes));
} catch (const std::bad_alloc&) {
  fail(ErrorKind::Device, text("[", current_method(), "] out of memory: the host has no ", bytes,
                               " bytes left for the values"));
}

// The elements in row-major order; views are gathered into a buffer of their own first.
static std::vector<std::byte> read_bytes(const Tensor& t) {
  start_engine();
  expect(!Recorder::capturing(), "a value is read while jit captures the function, and a replay "
         "would not read it again; return the tensor and read it outside, or keep it a tensor");
  const TensorImpl& impl = *t.impl();
  Tensor plain = impl.base.defined() ? make_value(node_of(t), impl.device) : t;
  expect(!shape_of(t).symbolic, "a tensor of symbolic shape ", shape_of(t),
         " has no fixed number of values");
  if (t.nbytes() == 0) return {};
  if (impl.base.defined()) plain = make_value(prim::contiguous(node_of(t)), impl.device);
  mote::realize({plain});
  UOp leaf = node_of(plain);
  while (!leaf->is(Op::Buffer)) leaf = leaf->src(0);
  auto& buffer = device_buffer(*leaf->arg.storage);
  Device& device = buffer.device_ref();
  if (!device.holds_data())
    fail(ErrorKind::User, text("[", current_method(), "] the device ", device.name(),
                               " holds no data to read back"));
  buffer.ensure_memory("tensor");
  std::vector<std::byte> out = host_memory(t.nbytes());
  device
      .copy_out(out.data(), buffer.memory->data(), buffer.bytes(), buffer.memory->tokens(false))
      .wait();
  return out;
}

void Tensor::copy_out(void* data, int64_t bytes, Loc where) const {
  Call call("copy_out", where);
  expect_defined(*this);
  expect(bytes == nbytes(), "room for ", bytes, " bytes, but the tensor of shape ", shape_of(*this),
         " has ", nbytes());
  std::vector<std::byte> all = read_bytes(*this);
  if (bytes) std::memcpy(data, all.data(), all.size());
}

namespace {

template <class T>
T convert(DType d, const std::byte* p) {
  if constexpr (std::is_same_v<T, Half>) return mote::to_half(load_float(d, p));
  else if constexpr (std::is_same_v<T, BFloat16>) return mote::to_bfloat16(load_float(d, p));
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(is_float(d) ? load_float(d, p)
                          : d == DType::u64
                              ? static_cast<double>(static_cast<uint64_t>(load_int(d, p)))
                              : static_cast<double>(load_int(d, p)));
  else if constexpr (std::is_same_v<T, bool>)
    return is_float(d) ? load_float(d, p) != 0 : load_int(d, p) != 0;
  else return is_float(d) ? static_cast<T>(load_float(d, p)) : static_cast<T>(load_int(d, p));
}

}  // namespace

template <class T>
std::vector<T> Tensor::to_vector(Loc where) const {
  Call call("to_vector", where);
  expect_defined(*this);
  std::vector<std::byte> bytes = read_bytes(*this);
  std::vector<T> out;
  const auto size = static_cast<size_t>(size_of(dtype()));
  out.reserve(bytes.size() / size);
  for (size_t at = 0; at < bytes.size(); at += size)
    out.push_back(convert<T>(dtype(), bytes.data() + at));
  return out;
}

template <class T>
T Tensor::item(Loc where) const {
  Call call("item", where);
  expect_defined(*this);
  expect(numel() == 1, "wants a tensor with one element, got shape ", shape_of(*this));
  return to_vector<T>(where)[0];
}

#define INSTANTIATE(T)                                    \
  template std::vector<T> Tensor::to_vector<T>(Loc) const; \
  template T Tensor::item<T>(Loc) const;
INSTANTIATE(bool)
INSTANTIATE(uint8_t)
INSTANTIATE(uint16_t)
INSTANTIATE(uint32_t)
INSTANTIATE(uint64_t)
INSTANTIATE(int8_t)
INSTANTIATE(int16_t)
INSTANTIATE(int32_t)
INSTANTIATE(int64_t)
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(Half)
INSTANTIATE(BFloat16)
#undef INSTANTIATE

}  // namespace mote
