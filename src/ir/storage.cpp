#include "ir/storage.h"

namespace mote {

Storage* (*make_storage)(uint8_t device, DType dtype, int64_t count) = nullptr;

void retain(Storage* s) { s->refs.fetch_add(1, std::memory_order_relaxed); }

void release(Storage* s) {
  if (s->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete s;
}

uint64_t next_storage_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace mote
