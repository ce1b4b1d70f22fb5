#include "runtime/memory.h"

#include <doctest/doctest.h>
#include <mote/mote.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/flags.h"
#include "runtime/device.h"
#include "test/odd_devices.h"

using namespace mote;

namespace {

constexpr int64_t kMB = 1 << 20;

std::shared_ptr<MemoryBlock> block(Device& d, int64_t bytes) {
  return MemoryBlock::allocate(d, bytes, "test");
}
uint64_t handle(const std::shared_ptr<MemoryBlock>& m) { return m->address().handle; }

// A block that work touches and nobody holds any more; its handle.
uint64_t drop_in_use(Device& d, int64_t bytes, const Token& use) {
  auto m = block(d, bytes);
  m->add_token(use, true);
  return handle(m);
}

}  // namespace

TEST_CASE("memory: what was given back is handed out again, at most a quarter too large") {
  Device& d = device("CPU:20");
  const uint64_t first = handle(block(d, kMB));
  CHECK(d.pool().kept_bytes() == kMB);
  CHECK(handle(block(d, kMB - 1)) == first);
  CHECK(handle(block(d, kMB * 3 / 4 + 100)) == first);
  CHECK(d.pool().allocations() == 1);
  auto smaller = block(d, kMB * 3 / 4 - 100);
  CHECK(d.pool().allocations() == 2);
  CHECK(d.pool().live_bytes() == kMB * 3 / 4 - 100);
}

TEST_CASE("memory: no more is kept than was in use at once") {
  Device& d = device("CPU:21");
  for (int64_t size : {4, 2, 3, 1}) block(d, size * kMB);
  CHECK(d.pool().kept_bytes() <= 4 * kMB);
  auto a = block(d, 8 * kMB);
  CHECK(d.pool().kept_bytes() == 0);
}

TEST_CASE("memory: giving back waits for nothing, and the next user waits for the last") {
  add_odd_devices();
  Device& d = device("LATE:20");
  const Token use = Token::pending();
  const uint64_t waits = Token::waits(), first = drop_in_use(d, kMB, use);
  auto next = block(d, kMB);
  CHECK(handle(next) == first);
  for (bool to_write : {false, true}) {
    REQUIRE(next->tokens(to_write).size() == 1);
    CHECK(!next->tokens(to_write)[0].done());
  }
  next.reset();  // unused, and handed on with what it waits for
  next = block(d, kMB);
  CHECK(handle(next) == first);
  use.complete("an error of who had it before");
  next->wait();
  CHECK(next->tokens(true)[0].succeeded());
  CHECK(Token::waits() == waits);
}

TEST_CASE("memory: a device that waits on the host gets other memory than what is in use") {
  Device& d = device("CPU:22");
  const Token use = Token::pending();
  const uint64_t first = drop_in_use(d, kMB, use);
  auto other = block(d, kMB);
  CHECK(handle(other) != first);
  CHECK(other->tokens(true).empty());
  use.complete();
  CHECK(handle(block(d, kMB)) == first);
}

TEST_CASE("memory: what is in use is waited for when the limit leaves nothing else") {
  add_odd_devices();
  for (const char* name : {"CPU:23", "LATE:23"}) {
    Device& d = device(name);
    d.pool().set_byte_limit(3 * kMB);
    const Token use = Token::pending();
    drop_in_use(d, 2 * kMB, use);
    std::atomic<bool> done = false;
    std::thread completes([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
      use.complete();
    });
    auto large = block(d, 3 * kMB);
    CHECK(done);
    CHECK(d.pool().kept_bytes() == 0);
    completes.join();
    drop_in_use(d, 0, {});
    CHECK_THROWS_WITH(block(d, 1), doctest::Contains("1 bytes requested (test), 3145728 of 3145728 "
                                                     "in use, 0 kept for reuse; the largest: test "
                                                     "3145728"));
  }
}

TEST_CASE("memory: what is handed out again is spoiled, unless work still touches it") {
  add_odd_devices();
  FlagScope spec(Flag::SPEC, 1);
  Device& d = device("LATE:24");
  const Token use = Token::pending();
  auto m = block(d, kMB);
  std::memset(host_address(m->address()), 7, 16);
  m->add_token(use, false);
  m.reset();
  m = block(d, kMB);
  CHECK(host_address(m->address())[0] == std::byte{7});
  use.complete();
  m.reset();
  m = block(d, kMB);
  CHECK(host_address(m->address())[0] == std::byte{0xff});
}

TEST_CASE("memory: a loop of eager runs takes its temporaries once") {
  add_odd_devices();
  for (const char* name : {"CPU:25", "LATE:25", "FAR:25"}) {
    Tensor x = (zeros({256, 256}, {.device = name}) + 1).contiguous().realize();
    auto step = [&] { return x.matmul(x).softmax(1).matmul(x).contiguous().realize(); };
    step(), step().sum().item<float>();
    MemoryPool& pool = device(name).pool();
    const int64_t allocations = pool.allocations(), live = pool.live_bytes();
    for (int i = 0; i < 20; ++i) step();
    CHECK(pool.allocations() == allocations);
    CHECK(pool.live_bytes() == live);
  }
}

TEST_SUITE("threads") {
  TEST_CASE("memory: threads hand on blocks that others still write") {
    add_odd_devices();
    for (const char* name : {"INTERP:26", "LATE:26"}) {
      Device& d = device(name);
      std::atomic<int> wrong = 0;
      auto write = [&](const std::shared_ptr<MemoryBlock>& m, std::byte value) {
        const Token use = Token::pending();
        const std::vector<Token> after = m->tokens(true);
        m->add_token(use, true);
        return std::thread([=, &wrong, data = host_address(m->address())] {
          for (const Token& t : after) t.wait();
          std::memset(data, static_cast<int>(value), 1000);
          std::this_thread::yield();
          wrong += data[999] != value;
          use.complete();
        });
      };
      auto work = [&](int which) {
        std::vector<std::thread> writers;
        for (int i = 0; i < 60; ++i)
          writers.push_back(write(block(d, (i % 4 + 1) * 20000), static_cast<std::byte>(which)));
        for (std::thread& t : writers) t.join();
      };
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) threads.emplace_back(work, t);
      for (std::thread& t : threads) t.join();
      CHECK(wrong == 0);
      CHECK(d.pool().live_bytes() == 0);
    }
  }
}
