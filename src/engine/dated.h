// Caches that forget what was not used for longest.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace mote {

// A cached value and when it was last asked for, by a count of all uses. Its cache guards it.
template <class T>
struct Dated {
  explicit Dated(T v) : value(std::move(v)), used(++uses) {}
  const T& use() {
    used = ++uses;
    return value;
  }
  T value;
  uint64_t used;
  static inline std::atomic<uint64_t> uses = 0;
};

template <class Map>
void drop_older_half(Map& map) {
  std::vector<uint64_t> used;
  for (const auto& [key, entry] : map) used.push_back(entry.used);
  const auto middle = used.begin() + static_cast<int64_t>(used.size() / 2);
  std::nth_element(used.begin(), middle, used.end());
  if (middle != used.end())
    std::erase_if(map, [&](const auto& item) { return item.second.used < *middle; });
}

}  // namespace mote
