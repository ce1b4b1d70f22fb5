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
  CHECK(info.line_bytes >= 16);
  CHECK((info.vector_bytes == 16 || info.vector_bytes == 32 || info.vector_bytes == 64));
  CHECK(info.vector_registers >= 16);
  CHECK(info.memory_bytes >= 64 << 20);
  CHECK(&cpu_info() == &info);
}
