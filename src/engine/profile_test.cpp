// The table that PROFILE=1 prints, memory figures, and whose module a kernel is.
#include "engine/profile.h"

#include <doctest/doctest.h>
#include <mote/memory.h>
#include <mote/models.h>
#include <mote/modules.h>
#include <mote/mote.h>

#include "base/flags.h"
#include "engine/realize.h"

using namespace mote;

TEST_CASE("profile: a row per kernel, module and line") {
  FlagScope on(Flag::PROFILE, 1);
  clear_profile();
  manual_seed(1);
  models::MnistNet net;
  Tensor images = rand({4, 1, 28, 28}).realize();
  realize(tensors(net));
  clear_profile();
  const int line = __LINE__ + 1;
  for (int i = 0; i < 3; ++i) net(images).realize();
  const std::string table = profile_text();
  CAPTURE(table);
  CHECK(table.starts_with("profile: "));
  CHECK(table.find("GFLOPS    GB/s  compile ms  kernel") != table.npos);
  CHECK(table.find("MnistNet.Conv") != table.npos);
  CHECK(table.find(__FILE__ ":" + std::to_string(line)) != table.npos);
  CHECK(table.find("src/nn/") == table.npos);
  clear_profile();
}

TEST_CASE("profile: modules have the path of those that call them") {
  nn::TransformerEncoder encoder(1, 8, 2, {.dim_feedforward = 16});
  FlagScope on(Flag::PROFILE, 1);
  Tensor x = rand({2, 3, 8}).realize();
  clear_profile();
  encoder(x).realize();
  CHECK(profile_text().find("TransformerEncoder.TransformerEncoderLayer.") != std::string::npos);
  clear_profile();
}

TEST_CASE("memory_stats: what tensors hold") {
  const MemoryStats before = memory_stats();
  {
    Tensor x = zeros({1 << 20}).clone().realize();
    x.add_(1).realize();
    const MemoryStats during = memory_stats();
    CHECK(during.live_bytes >= before.live_bytes + (4 << 20));
    CHECK(during.peak_bytes >= during.live_bytes);
  }
  CHECK(memory_stats().live_bytes < before.live_bytes + (4 << 20));
}
