// What was made of flat graphs, kept until there is too much of it.
#pragma once
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/flags.h"
#include "base/hash.h"
#include "ir/flat.h"

namespace mote {

struct CodeKey {
  Flat flat;
  std::string kind = {};  // of the device, if it is made for one
  uint64_t flags = code_flags_hash();
  bool operator==(const CodeKey& o) const {
    return flags == o.flags && kind == o.kind && flat == o.flat;
  }
};

// By the whole key, not only its hash. Thread-safe.
template <class T>
class CodeCache {
 public:
  using Made = std::shared_ptr<const T>;
  explicit CodeCache(size_t most) : most_(most) {}

  Made find(const CodeKey& key) {
    std::lock_guard lock(mutex_);
    auto it = entries_.find(key);
    if (it == entries_.end()) return {};
    it->second.used = ++uses_;
    return it->second.made;
  }
  // What is kept: what another thread made, if that was first. Who holds others keeps them.
  Made add(CodeKey key, Made made) {
    std::lock_guard lock(mutex_);
    if (entries_.size() >= most_) drop_older_half();
    return entries_.try_emplace(std::move(key), Entry{std::move(made), ++uses_}).first->second.made;
  }
  void clear() {
    std::lock_guard lock(mutex_);
    entries_.clear();
  }
  template <class F>
  void for_each(F f) {  // f(key, made)
    std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) f(key, entry.made);
  }

 private:
  struct Entry {
    Made made;
    uint64_t used;  // when it was last asked for, by a count of all uses
  };
  struct Hash {
    size_t operator()(const CodeKey& k) const { return mix(k.flat.hash, k.flags); }
  };
  void drop_older_half() {
    std::vector<uint64_t> used;
    for (const auto& [key, entry] : entries_) used.push_back(entry.used);
    const auto middle = used.begin() + static_cast<int64_t>(used.size() / 2);
    std::nth_element(used.begin(), middle, used.end());
    std::erase_if(entries_, [&](const auto& e) { return e.second.used < *middle; });
  }

  const size_t most_;
  std::mutex mutex_;
  std::unordered_map<CodeKey, Entry, Hash> entries_;
  uint64_t uses_ = 0;
};

}  // namespace mote
