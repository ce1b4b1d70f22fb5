// Values remembered by what they were made of. Layers of a network repeat each other: what was
// found for one is found again for the next.
#pragma once
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "ir/node.h"

namespace mote {

// A T for each list of words.
template <class T>
class ByWords {
 public:
  // The value kept for `words`, and whether it is new.
  std::pair<T&, bool> operator()(const std::vector<uint64_t>& words) {
    auto [it, fresh] = known_.try_emplace(words);
    return {it->second, fresh};
  }

 private:
  struct Hash {
    size_t operator()(const std::vector<uint64_t>& words) const {
      return hash_bytes(words.data(), words.size() * sizeof(uint64_t));
    }
  };
  std::unordered_map<std::vector<uint64_t>, T, Hash> known_;  // values stay where they are
};

inline uint64_t word(UOp n) { return reinterpret_cast<uintptr_t>(n.get()); }

}  // namespace mote
