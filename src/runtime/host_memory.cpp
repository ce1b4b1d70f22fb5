#include "runtime/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/integers.h"

namespace mote {

namespace {

constexpr int64_t kPage = 4 << 10, kHugePage = 2 << 20;
constexpr int64_t kSmall = 64 << 10;  // below this malloc keeps pages itself


int64_t alignment(int64_t bytes) {
  return bytes < kSmall ? kCacheLine : bytes < 2 * kHugePage ? kPage : kHugePage;
}
int64_t rounded(int64_t bytes) {
  return round_up(std::max<int64_t>(bytes, 1), alignment(bytes));
}

void* fresh(int64_t bytes) {
  void* p = std::aligned_alloc(static_cast<size_t>(alignment(bytes)), static_cast<size_t>(bytes));
  if (p && alignment(bytes) == kHugePage) madvise(p, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return p;
}

}  // namespace

HostMemory::~HostMemory() { drop_until(INT64_MAX); }

void HostMemory::drop_until(int64_t room) {
  while (!kept_.empty() && room > most_ - used_ - kept_bytes_) {
    auto largest = std::prev(kept_.end());
    std::free(largest->second);
    kept_bytes_ -= largest->first;
    kept_.erase(largest);
  }
}

void* HostMemory::allocate(int64_t bytes) {
  bytes = rounded(bytes);
  if (bytes < kSmall) return fresh(bytes);
  std::lock_guard lock(mutex_);
  if (auto it = kept_.find(bytes); it != kept_.end()) {
    void* p = it->second;
    kept_bytes_ -= bytes;
    used_ += bytes;
    kept_.erase(it);
    return p;
  }
  drop_until(bytes);
  void* p = fresh(bytes);
  if (!p) return p;
  used_ += bytes;
  most_ = std::max(most_, used_ + kept_bytes_);
  return p;
}

void HostMemory::free(void* p, int64_t bytes) {
  bytes = rounded(bytes);
  if (bytes < kSmall) return std::free(p);
  std::lock_guard lock(mutex_);
  used_ -= bytes;
  kept_bytes_ += bytes;
  kept_.emplace(bytes, p);
}

}  // namespace mote
