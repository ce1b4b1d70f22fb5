// Seedless 64-bit mixing: the same value in every run and process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mote {

inline uint64_t mix(uint64_t a, uint64_t b) {
  unsigned __int128 m = static_cast<unsigned __int128>(a ^ 0x9e3779b97f4a7c15ull) *
                        (b ^ 0xe7037ed1a0b428dbull);
  return static_cast<uint64_t>(m) ^ static_cast<uint64_t>(m >> 64);
}

inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t h = mix(seed, size);
  for (; size >= 8; p += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = mix(h, word);
  }
  uint64_t tail = 0;
  if (size) std::memcpy(&tail, p, size);
  return mix(h, tail);
}

}  // namespace mote
