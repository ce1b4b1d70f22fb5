#include "engine/lease.h"

#include <algorithm>
#include <utility>

namespace mote {

namespace {

constexpr int32_t kWritten = -1;

void take_one(std::atomic<int32_t>& users, bool writes) {
  int32_t now = users.load(std::memory_order_relaxed);
  for (;;) {
    if (writes ? now != 0 : now == kWritten) {
      users.wait(now, std::memory_order_relaxed);
      now = users.load(std::memory_order_relaxed);
    } else if (users.compare_exchange_weak(now, writes ? kWritten : now + 1,
                                           std::memory_order_acquire)) {
      return;
    }
  }
}

void drop_one(std::atomic<int32_t>& users, bool writes) {
  const int32_t before = writes ? users.exchange(0, std::memory_order_release)
                                : users.fetch_sub(1, std::memory_order_release);
  if (writes || before == 1) users.notify_all();
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
