#include "engine/lease.h"

#include <algorithm>
#include <utility>

namespace mote {

namespace {

// The users of a storage: a count of readers, or kWritten; kAwaited is added by whoever waits for
// them to end. Only then are threads woken, because a wake may be a system call.
constexpr uint32_t kWritten = 1u << 31, kAwaited = 1u << 30;

void take_one(std::atomic<uint32_t>& users, bool writes) {
  uint32_t now = users.load(std::memory_order_relaxed);
  for (;;) {
    const bool taken = writes ? now & ~kAwaited : now & kWritten;
    const uint32_t next = taken ? now | kAwaited : writes ? now | kWritten : now + 1;
    if (now != next && !users.compare_exchange_weak(now, next, std::memory_order_acquire)) continue;
    if (!taken) return;
    users.wait(next, std::memory_order_relaxed);
    now = users.load(std::memory_order_relaxed);
  }
}

void drop_one(std::atomic<uint32_t>& users, bool writes) {
  const uint32_t before = writes ? users.exchange(0, std::memory_order_release)
                                 : users.fetch_sub(1, std::memory_order_release);
  if (!(before & kAwaited) || (!writes && before != (kAwaited | 1))) return;
  if (!writes) users.fetch_and(~kAwaited, std::memory_order_release);
  users.notify_all();
}

}  // namespace

void StorageLease::take() {
  // Of one storage the use that writes stands first, and is the one that counts.
  std::ranges::sort(uses_, [](const Use& a, const Use& b) {
    return a.storage->id != b.storage->id ? a.storage->id < b.storage->id : a.writes > b.writes;
  });
  const auto again = std::ranges::unique(uses_, {}, &Use::storage);
  uses_.erase(again.begin(), again.end());
  for (const Use& use : uses_) {
    retain(use.storage);
    take_one(use.storage->users, use.writes);
  }
  taken_ = true;
}

void StorageLease::drop() {
  if (std::exchange(taken_, false))
    for (const Use& use : uses_) {
      drop_one(use.storage->users, use.writes);
      release(use.storage);
    }
  uses_.clear();
}

}  // namespace mote
