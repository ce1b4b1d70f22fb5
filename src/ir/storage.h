// Memory behind a Buffer node: an opaque counted handle, declared here and made in runtime/.
#pragma once
#include <atomic>
#include <cstdint>

#include "ir/node.h"

namespace mote {

struct TensorImpl;

// What the tensor side needs of a buffer. Created with one count; freed at the last release.
struct Storage {
  uint64_t id = 0;               // unique in the process; orders and prints buffers
  DType dtype = DType::none;
  uint8_t device = 0;            // device list id
  int64_t count = 0;             // elements
  std::atomic<uint32_t> refs{1};
  uint64_t version = 0;          // how often it was written in place; readers name the version
  // Gradient leaf: set by requires_grad_, read by backward. The gradient is kept by the tensor, not
  // here: its graph reads this memory, and the two would keep each other alive.
  bool requires_grad = false;
  bool from_graph = false;       // realized from a value that depended on a marked leaf
  TensorImpl* owner = nullptr;   // whose alone it is, while that lives (tensor/impl.h)
  // Work under way: how many read it, or that one writes it (engine/lease.cpp).
  std::atomic<uint32_t> users{0};
  std::atomic<uint32_t> left{0};  // how many tensors shared it and got storage of their own
  virtual ~Storage() = default;
};
void retain(Storage* s);
void release(Storage* s);
uint64_t next_storage_id();

// Set by runtime/: makes a storage without allocating memory for it.
extern Storage* (*make_storage)(uint8_t device, DType dtype, int64_t count);

}  // namespace mote
