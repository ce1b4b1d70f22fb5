// Random numbers for the host (data, sampling), the same on every machine.
#pragma once
#include <cstdint>

namespace mote {

// A stream per key: streams of different keys have nothing to do with each other (splitmix64).
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : state_(mix(seed) ^ mix(~stream)) {}

  uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  double between(double lo, double hi) { return lo + (hi - lo) * uniform(); }
  // 0 ... count - 1. The error of the multiplication, count / 2^64, is of no matter here.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(
        (static_cast<unsigned __int128>(bits()) * static_cast<unsigned __int128>(count)) >> 64);
  }
  // Mean 0, deviation 1, never beyond 3.
  double bell() { return (uniform() + uniform() + uniform() - 1.5) * 2; }

 private:
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  uint64_t state_;
};

}  // namespace mote
