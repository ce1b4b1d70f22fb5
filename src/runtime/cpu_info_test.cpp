#include "runtime/cpu_info.h"

#include <doctest/doctest.h>

#include "base/threads.h"

using namespace mote;

TEST_CASE("cpu_info holds believable numbers") {
  const CpuInfo& info = cpu_info();
  CHECK(!info.model.empty());
  CHECK(!info.features.empty());
  CHECK(info.cores == usable_cores());
  CHECK(info.l1d_bytes >= 8 << 10);
  CHECK(info.l2_bytes >= info.l1d_bytes);
  CHECK((info.l3_bytes == 0 || info.l3_bytes >= info.l2_bytes / 2));
  CHECK(info.l3_cores >= 1);
  CHECK(info.line_bytes >= 16);
  CHECK((info.vector_bytes == 16 || info.vector_bytes == 32 || info.vector_bytes == 64));
  CHECK(info.vector_registers >= 16);
  CHECK(info.memory_bytes >= 64 << 20);
  CHECK(&cpu_info() == &info);
}

TEST_CASE("threads count on their part of a cache that cores share") {
  CHECK(count_listed("0") == 1);
  CHECK(count_listed("0-1") == 2);
  CHECK(count_listed("0-15,32-47") == 32);
  CHECK(count_listed("") == 1);

  constexpr int64_t mb = 1 << 20;
  CpuInfo info;
  info.l2_bytes = 2 * mb;
  info.cores = 96;
  auto share = [&](int64_t l3, int cores, int threads) {
    info.l3_bytes = l3 * mb, info.l3_cores = cores;
    return cache_share(info, threads) / mb;
  };
  CHECK(share(32, 2, 1) == 16);
  CHECK(share(32, 2, 2) == 32);
  CHECK(share(32, 2, 4) == 64);  // of two such caches
  // A host's cache that few cores, or none, are shown to share; and one that others leave free.
  CHECK(share(320, 16, 1) == 20);
  CHECK(share(320, 1, 1) == 32);
  CHECK(share(96, 96, 1) == 8);
  CHECK(share(96, 96, 96) == 96);
  CHECK(share(0, 1, 4) == 2);
  info.cores = 2;
  CHECK(share(32, 2, 16) == 32);  // threads beyond the cores have none
}
