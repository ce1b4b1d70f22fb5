// What only a GPU can show: order, copies, faults.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>

#include "base/error.h"
#include "runtime/device.h"
#include "test/gpu.h"

using namespace mote;

namespace {

std::vector<float> numbers(int64_t count, float first) {
  std::vector<float> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

TEST_CASE("CUDA: tensors move both ways, 1000 times, and no memory is lost") {
  if (!test::has_cuda()) return;
  constexpr int64_t kCount = 5000;
  Device& gpu = device("CUDA");
  int64_t live = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::vector<float> values = numbers(kCount, static_cast<float>(i));
    const Tensor there = from_data(values, {kCount}).to("CUDA") * 2.0f;
    const Tensor back = there.to("CPU") + 1.0f;
    const std::vector<float> got = back.to_vector<float>();
    REQUIRE(got[0] == 2 * values[0] + 1);
    REQUIRE(got[kCount - 1] == 2 * values[kCount - 1] + 1);
    if (i == 10) live = gpu.pool().live_bytes() + gpu.pool().kept_bytes();
  }
  CHECK(gpu.pool().live_bytes() + gpu.pool().kept_bytes() <= live);
}

TEST_CASE("CUDA: copies that are longer than what is copied at a time") {
  if (!test::has_cuda()) return;
  constexpr int64_t kCount = (9 << 20) + 13;  // of floats
  const std::vector<float> values = numbers(kCount, 1);
  CHECK((from_data(values, {kCount}).to("CUDA") + 0.0f).to_vector<float>() == values);
}

TEST_CASE("CUDA: arguments that begin anywhere") {
  if (!test::has_cuda()) return;
  const std::vector<float> values = numbers(4099, 0);
  const Tensor all = from_data(values, {4099}).to("CUDA").realize();
  for (int64_t first : {0, 1, 2, 3, 4}) {
    const std::vector<float> got = (all(Slice(first, first + 4000)) * 3.0f).to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i)
      REQUIRE(got[i] == 3 * values[i + static_cast<size_t>(first)]);
  }
}

// Writes to an address that nobody has.
constexpr const char* faulty = R"(
.version 6.3
.target sm_75
.address_size 64
.visible .entry faulty(.param .b64 p0)
{
  .reg .b64 %d<1>;
  mov.b64 %d0, 64;
  st.global.b32 [%d0], 1;
  ret;
}
)";

// In a process of its own: the GPU does nothing for it afterwards.
TEST_CASE("CUDA: child that faults" * doctest::skip()) {
  Device& gpu = device("CUDA");
  Program p;
  p.name = "faulty", p.params = 1;
  auto block = MemoryBlock::allocate(gpu, 64, "a test");
  Launch l;
  l.code = gpu.compile(faulty, p);
  l.buffers = {block->address()};
  l.name = "faulty";
  auto list = std::make_shared<const std::vector<Launch>>(1, l);
  std::string said;
  try {
    gpu.submit(list, {}).wait();
  } catch (const Error& e) { said = e.what(); }
  CHECK(said.find("kernel faulty") != said.npos);
  CHECK(said.find("CUDA_ERROR_ILLEGAL_ADDRESS") != said.npos);
  CHECK_THROWS_AS(ones({3}, {.device = "CUDA"}).sum().item<float>(), Error);
  CHECK(ones({3}, {.device = "CPU"}).sum().item<float>() == 3);
}

TEST_CASE("CUDA: a kernel that faults is named, and the process goes on and exits") {
  if (!test::has_cuda()) return;
  const int status =
      std::system("timeout 60 /proc/$PPID/exe --no-skip --test-case='CUDA: child that faults'");
  CHECK(status == 0);
}

TEST_CASE("CUDA: what does not compile is said in the compiler's words") {
  if (!test::has_cuda()) return;
  Program p;
  p.name = "odd";
  try {
    device("CUDA").compile(".version 6.3\n.target sm_75\n.address_size 64\nnonsense\n", p);
    CHECK(false);
  } catch (const Error& e) {
    CHECK(std::strstr(e.what(), "kernel odd does not compile"));
    CHECK(std::strstr(e.what(), "nonsense"));
  }
}

TEST_CASE("CUDA: memory that is not there is an error, and less of it is had afterwards") {
  if (!test::has_cuda()) return;
  const int64_t all = device("CUDA").memory_bytes() / 4;
  CHECK_THROWS_AS((ones({all}, {.device = "CUDA"}) * 2.0f).realize(), Error);
  CHECK(ones({1000}, {.device = "CUDA"}).sum().item<float>() == 1000);
}

}  // namespace
