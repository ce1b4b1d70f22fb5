#include "base/flags.h"

#include <doctest/doctest.h>

#include <thread>

using namespace mote;

TEST_CASE("flags: a scope ends, and covers only its thread unless it is handed on") {
  const int64_t before = flag(Flag::DEBUG);
  {
    FlagScope debug(Flag::DEBUG, 7);
    CHECK(flag(Flag::DEBUG) == 7);
    const FlagScopes ours;
    int64_t seen[3];
    std::thread([&] {
      seen[0] = flag(Flag::DEBUG);
      {
        FlagScopes::Inherited caller(ours);
        seen[1] = flag(Flag::DEBUG);
      }
      seen[2] = flag(Flag::DEBUG);
    }).join();
    CHECK(seen[0] == before);
    CHECK(seen[1] == 7);
    CHECK(seen[2] == before);
  }
  CHECK(flag(Flag::DEBUG) == before);
}
