// How much a random test does, and from which seed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace mote::test {

// count times MOTE_TEST_SCALE, which sanitized runs set below 1.
template <class Count>
Count scaled(Count count, Count least = 1) {
  const char* scale = std::getenv("MOTE_TEST_SCALE");
  if (!scale) return count;
  return std::max(least, static_cast<Count>(static_cast<double>(count) * std::atof(scale)));
}

// Of a fixed list every so many is tried: all, or fewer where MOTE_TEST_SCALE is below 1.
inline int64_t stride_of_cases() { return std::max<int64_t>(1, 10 / scaled<int64_t>(10)); }

// MOTE_TEST_SEED, where it is set.
inline uint64_t seed_or(uint64_t usual) {
  const char* given = std::getenv("MOTE_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : usual;
}

}  // namespace mote::test
