// Time, for tests of how work grows.
#pragma once
#include <chrono>

namespace mote::test {

template <class F>
double seconds_of(F f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace mote::test
