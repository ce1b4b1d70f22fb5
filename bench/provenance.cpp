// What remembering the user's file and line costs: nanoseconds per call and per node.
#include "ir/provenance.h"

#include <mote/mote.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <source_location>

#include "tensor/primitives.h"

using namespace mote;

namespace {

// The best of several rounds: others use the machine too.
template <class F>
double nanoseconds(int count, F f) {
  double best = 1e9;
  for (int round = 0; round < 7; ++round) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) f(i);
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / count);
  }
  return best;
}

volatile uint32_t sink;

}  // namespace

int main() {
  constexpr int count = 1000000;
  double scope = nanoseconds(count, [](int) {
    CallScope call("add", std::source_location::current());
    sink = 0;
  });
  double named = nanoseconds(count, [](int) {
    CallScope call("add", std::source_location::current());
    sink = current_provenance();
  });
  double nested = nanoseconds(count, [](int) {
    CallScope outer("mean", std::source_location::current());
    CallScope inner("sum", std::source_location::current());
    sink = current_provenance();
  });
  Ref x = prim::constant(DType::f32, 1.0);
  double bare = nanoseconds(count, [&](int i) {
    Ref y = prim::add(x, prim::constant(DType::f32, static_cast<double>(i)));
  });
  double noted = nanoseconds(count, [&](int i) {
    CallScope call("add", std::source_location::current());
    Ref y = prim::add(x, prim::constant(DType::f32, static_cast<double>(i)));
  });
  std::printf("a call                       %6.1f ns\n", scope);
  std::printf("a call that makes a node     %6.1f ns\n", named);
  std::printf("a call inside another one    %6.1f ns\n", nested);
  std::printf("two nodes without a call     %6.1f ns\n", bare);
  std::printf("two nodes within a call      %6.1f ns, %.1f more\n", noted, noted - bare);
  return named <= 10 ? 0 : 1;
}
