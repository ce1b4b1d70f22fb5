#include "runtime/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/integers.h"

namespace mote {
namespace {

constexpr size_t kRegionBytes = size_t{4} << 20;
constexpr int kExecutable = PROT_READ | PROT_EXEC;

[[noreturn]] void fail_with(const char* what, size_t bytes) {
  const int reason = errno;
  fail(ErrorKind::Device,
       text("[code] cannot ", what, " ", bytes, " bytes for code: ", std::strerror(reason),
            reason == ENOMEM ? " (out of memory, or the limit on memory maps, vm.max_map_count,"
                               " is reached)"
                             : ""));
}

struct Region {
  uint8_t* base;
  size_t bytes;
  bool low;
  std::map<size_t, size_t> free;  // where it begins, how long it is; no two touch
};
struct Regions {
  std::mutex mutex;
  std::list<Region> all;
};
Regions& regions() {
  static auto* r = new Regions;  // code may still run while the process ends
  return *r;
}

Region map_region(size_t bytes, bool low) {
  bytes = std::max(bytes, kRegionBytes);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#ifdef MAP_32BIT
  if (low) flags |= MAP_32BIT;
#endif
  void* base = mmap(nullptr, bytes, PROT_NONE, flags, -1, 0);
  if (base == MAP_FAILED) fail_with("map", bytes);
  return {static_cast<uint8_t*>(base), bytes, low, {{0, bytes}}};
}

// Null: the region has no room.
uint8_t* take(Region& region, size_t bytes) {
  for (auto it = region.free.begin(); it != region.free.end(); ++it) {
    const auto [at, length] = *it;
    if (length < bytes) continue;
    region.free.erase(it);
    if (length > bytes) region.free.emplace(at + bytes, length - bytes);
    return region.base + at;
  }
  return nullptr;
}

void put_back(Region& region, size_t at, size_t bytes) {
  auto after = region.free.lower_bound(at);
  if (after != region.free.end() && at + bytes == after->first) {
    bytes += after->second;
    after = region.free.erase(after);
  }
  if (after != region.free.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  }
  region.free.emplace_hint(after, at, bytes);
}

// Unused pages keep the protection that used ones have: else each hole would be a map of its own.
void release(uint8_t* data, size_t bytes) {
  madvise(data, bytes, MADV_DONTNEED);
  mprotect(data, bytes, kExecutable);
  std::lock_guard lock(regions().mutex);
  auto& all = regions().all;
  const auto home = std::find_if(all.begin(), all.end(), [&](const Region& r) {
    return data >= r.base && data < r.base + r.bytes;
  });
  put_back(*home, static_cast<size_t>(data - home->base), bytes);
  if (home->free.begin()->second != home->bytes) return;
  munmap(home->base, home->bytes);
  all.erase(home);
}

}  // namespace

CodeBlock::CodeBlock(size_t bytes, bool low) {
  if (bytes == 0) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes = round_up(bytes, page);
  {
    std::lock_guard lock(regions().mutex);
    for (Region& region : regions().all)
      if (region.low == low && !data_) data_ = take(region, bytes);
    if (!data_) {
      regions().all.push_front(map_region(bytes, low));
      data_ = take(regions().all.front(), bytes);
    }
  }
  size_ = bytes;
  if (mprotect(data_, size_, PROT_READ | PROT_WRITE) == 0) return;
  const int reason = errno;
  release(std::exchange(data_, nullptr), std::exchange(size_, 0));
  errno = reason;
  fail_with("write to", bytes);
}

void CodeBlock::seal(size_t fixed) {
  if (fixed == 0) return;
  if (mprotect(data_, fixed, kExecutable) != 0) fail_with("make executable", fixed);
  __builtin___clear_cache(reinterpret_cast<char*>(data_), reinterpret_cast<char*>(data_ + fixed));
}

CodeBlock::~CodeBlock() {
  if (data_) release(data_, size_);
}

CodeBlock::CodeBlock(CodeBlock&& other) noexcept { *this = std::move(other); }

CodeBlock& CodeBlock::operator=(CodeBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

size_t code_regions() {
  std::lock_guard lock(regions().mutex);
  return regions().all.size();
}

}  // namespace mote
