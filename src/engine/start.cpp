// Hooks the front end to the runtime when the library is loaded.
#include <cstddef>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/lifetime.h"
#include "engine/checks.h"
#include "engine/kernel_cache.h"
#include "runtime/device.h"
#include "tensor/impl.h"

namespace mote {

namespace {

Storage* make_empty(uint8_t device, DType dtype, int64_t count) {
  return new DeviceBuffer(device, dtype, count);
}

// The caller's bytes are its own again afterwards: a device with a queue reads a copy.
void upload(MemoryBlock& m, const void* bytes) {
  Device& d = m.device();
  if (!d.has_queue()) return d.copy_in(m.address(), bytes, m.bytes(), m.tokens(true)).wait();
  auto* first = static_cast<const std::byte*>(bytes);
  auto copy = std::make_shared<std::vector<std::byte>>(first, first + m.bytes());
  const Token t = d.copy_in(m.address(), copy->data(), m.bytes(), m.tokens(true));
  m.add_token(t, true);
  d.limit_queue(t, copy);
}

Storage* make_from_bytes(uint8_t device_id, DType dtype, int64_t count, const void* bytes) {
  auto b = std::make_unique<DeviceBuffer>(device_id, dtype, count);
  Device& d = device(device_id);
  b->ensure_memory("tensor");
  if (d.holds_data()) upload(*b->memory, bytes);
  return b.release();
}

Storage* make_from_blob(uint8_t device_id, DType dtype, int64_t count, void* data,
                        void (*deleter)(void*), void* context) {
  Device& d = device(device_id);
  check(d.on_host(), "[from_blob] the device ", d.name(), " cannot use memory of the host");
  auto* b = new DeviceBuffer(device_id, dtype, count);
  b->memory = MemoryBlock::borrow(d, host_place(data), b->bytes(), deleter, context);
  return b;
}

Storage* make_part(Storage& whole, int64_t first, int64_t count) {
  auto& from = device_buffer(whole);
  Device& d = from.device_ref();
  if (d.computes() || !from.memory) return nullptr;
  auto* b = new DeviceBuffer(whole.device, whole.dtype, count);
  retain(&whole);
  auto let_go = [](void* held) { release(static_cast<Storage*>(held)); };
  const DeviceAddress start = from.memory->address() + first * size_of(whole.dtype);
  b->memory = MemoryBlock::borrow(d, start, b->bytes(), let_go, &whole);
  return b;
}

}  // namespace

// Called by every translation unit that runs things, so that a static link keeps this file.
void start_engine() {
  [[maybe_unused]] static const bool once = [] {
    make_storage = make_empty;
    storage_from_bytes = make_from_bytes;
    storage_from_blob = make_from_blob;
    storage_part = make_part;
    look_at_values = look_in_host_memory;
    note_extent = record_part;
    open_device = [](uint8_t id) { device(id); };
    compile_source = [](uint8_t id, UOp source) { kernels_for({&source, 1}, device(id)); };
    return true;
  }();
}

MOTE_RUN_FIRST static void at_load() { start_engine(); }

}  // namespace mote
