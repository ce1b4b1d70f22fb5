// The members of Tensor that run things and give values to the host.
#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.h"
#include "engine/checks.h"
#include "engine/goals.h"
#include "engine/jit_record.h"
#include "engine/realize.h"
#include "ir/eval.h"
#include "ir/flat.h"
#include "ir/provenance.h"
#include "runtime/device.h"
#include "runtime/host_array.h"
#include "tensor/impl.h"

namespace mote {

void start_engine();

Tensor& Tensor::realize(Loc where) {
  OuterCall call("realize", where);
  expect_defined(*this);
  start_engine();
  mote::realize({*this});
  return *this;
}

void realize(const std::vector<Tensor>& tensors, Loc where) {
  OuterCall call("realize", where);
  start_engine();
  for (const Tensor& t : tensors) expect_defined(t);
  realize(std::span<const Tensor>(tensors));
}

[[noreturn]] static void no_memory(size_t bytes) {
  fail(ErrorKind::Device, text("[", current_method(), "] out of memory: the host has no ", bytes,
                               " bytes left for the values"));
}

static std::vector<std::byte> host_memory(int64_t bytes) try {
  return std::vector<std::byte>(static_cast<size_t>(bytes));
} catch (const std::bad_alloc&) { no_memory(static_cast<size_t>(bytes)); }

static int64_t count_of(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (int64_t n : sizes) count *= n;
  return count;
}

static std::vector<std::byte> front_of(const std::vector<std::byte>& memory, const Tensor& t,
                                       const std::vector<int64_t>& sizes) {
  const int64_t element = size_of(t.dtype());
  Grid places(room_for(shape_of(t).dims));
  for (size_t i = 0; i < sizes.size(); ++i) places.axes[i].size = sizes[i];
  std::vector<std::byte> out = host_memory(count_of(sizes) * element);
  std::byte* to = out.data();
  places.for_rows([&](int64_t place, StridedAxis row) {
    to = std::copy_n(memory.data() + place * element, row.size * element, to);
  });
  return out;
}

// The elements in row-major order; views are gathered into a buffer of their own first.
static std::vector<std::byte> read_bytes(const Tensor& t) {
  start_engine();
  if (Recorder::capturing()) {
    const std::string made = place(node_of(t)->provenance);
    expect(false, "a captured function reads a value, and a replay would not read it "
           "again; return the tensor and read it outside, or compute with the tensor",
           made.empty() ? "" : "; it was made at ", made);
  }
  const TensorImpl& impl = *t.impl();
  std::vector<int64_t> sizes = value_shape(t);
  if (count_of(sizes) == 0) return {};
  bool gather = impl.base.defined() || shape_of(t).symbolic;
  uint8_t there = gather && !mote::device(impl.device).computes() ? kDefaultDevice : impl.device;
  Tensor plain = gather ? make_value(prim::contiguous(copied_to(t, there)), there) : t;
  mote::realize({plain});
  auto& buffer = device_buffer(*storage_under(node_of(plain)));
  Device& device = buffer.device_ref();
  if (!device.holds_data())
    fail(ErrorKind::User, text("[", current_method(), "] the device ", device.name(),
                               " holds no data to read back"));
  buffer.ensure_memory("tensor");
  std::vector<std::byte> out = host_memory(buffer.bytes());
  device
      .copy_out(out.data(), buffer.memory->address(), buffer.bytes(), buffer.memory->tokens(false))
      .wait();
  raise_violations(true);
  return shape_of(t).symbolic ? front_of(out, t, sizes) : out;
}

void Tensor::copy_out(void* data, int64_t bytes, Loc where) const {
  OuterCall call("copy_out", where);
  expect_defined(*this);
  int64_t needed = count_of(value_shape(*this)) * size_of(dtype());
  expect(bytes == needed, "room for ", bytes, " bytes, but the tensor of shape ", shape_of(*this),
         " has ", needed);
  std::vector<std::byte> all = read_bytes(*this);
  if (bytes) std::memcpy(data, all.data(), all.size());
}

namespace {

template <class T>
T convert(DType d, const std::byte* p) {
  constexpr DType to = dtype_of<T>();
  Scalar from = load_scalar(d, p), s = eval(Op::Cast, to, {&from, 1});
  if constexpr (std::is_same_v<T, Half>) return mote::to_half(s.f);
  else if constexpr (std::is_same_v<T, BFloat16>) return mote::to_bfloat16(s.f);
  else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(s.f);
  else return static_cast<T>(s.i);
}

}  // namespace

template <class T>
std::vector<T> Tensor::to_vector(Loc where) const {
  OuterCall call("to_vector", where);
  expect_defined(*this);
  std::vector<std::byte> bytes = read_bytes(*this);
  std::vector<T> out;
  const auto size = static_cast<size_t>(size_of(dtype())), count = bytes.size() / size;
  try {
    out.reserve(count);
  } catch (const std::bad_alloc&) { no_memory(count * sizeof(T)); }
  for (size_t at = 0; at < bytes.size(); at += size)
    out.push_back(convert<T>(dtype(), bytes.data() + at));
  return out;
}

template <class T>
T Tensor::item(Loc where) const {
  OuterCall call("item", where);
  expect_defined(*this);
  expect(count_of(value_shape(*this)) == 1, "needs a tensor with one element, got shape ",
         shape_of(*this));
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
