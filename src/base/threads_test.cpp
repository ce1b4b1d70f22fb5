#include "base/threads.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace mote;

namespace {

struct ThreadCount {
  int before = thread_count();
  explicit ThreadCount(int count) { set_thread_count(count); }
  ~ThreadCount() { set_thread_count(before); }
};

}  // namespace

TEST_SUITE("threads") {
  TEST_CASE("cores and thread count are positive and settable") {
    CHECK(usable_cores() >= 1);
    ThreadCount count(3);
    CHECK(thread_count() == 3);
    set_thread_count(0);
    CHECK(thread_count() == 1);
  }

  TEST_CASE("every chunk runs exactly once and plain writes are visible") {
    for (int threads : {1, 2, 4, 7}) {
      ThreadCount count(threads);
      for (int64_t chunks : {0, 1, 2, 3, 8, 1000}) {
        std::vector<int> runs(chunks);  // not atomic: each chunk owns its element
        parallel_for(chunks, [&](int64_t i) { ++runs[i]; });
        CHECK(std::accumulate(runs.begin(), runs.end(), 0) == chunks);
        for (int n : runs) REQUIRE(n == 1);
      }
    }
  }

  TEST_CASE("many short jobs one after another, some after the workers fell asleep") {
    ThreadCount count(4);
    int64_t total = 0;
    for (int job = 0; job < 3000; ++job) {
      std::vector<int64_t> part(8);
      parallel_for(8, [&](int64_t i) { part[i] = job + i; });
      total += std::accumulate(part.begin(), part.end(), int64_t{0});
      if (job % 300 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(total == 8 * (2999 * 3000 / 2) + 3000 * 28);
  }

  TEST_CASE("chunks do run on several threads") {
    ThreadCount count(2);
    std::atomic<int> here{0};
    bool met = false;
    parallel_for(2, [&](int64_t i) {  // both chunks wait for the other, up to a limit
      ++here;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (here < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (i == 0) met = here == 2;
    });
    CHECK(met);
  }

  TEST_CASE("a nested call runs inline, in order, on the same thread") {
    ThreadCount count(4);
    std::atomic<int> wrong{0};
    parallel_for(8, [&](int64_t) {
      const auto self = std::this_thread::get_id();
      int64_t expect = 0;
      parallel_for(5, [&](int64_t j) {
        if (std::this_thread::get_id() != self || j != expect++) ++wrong;
      });
      if (expect != 5) ++wrong;
    });
    CHECK(wrong == 0);
  }

  TEST_CASE("an exception reaches the caller and the pool works on") {
    for (int threads : {1, 4}) {
      ThreadCount count(threads);
      std::atomic<int> ran{0};
      CHECK_THROWS_AS(parallel_for(1000,
                                   [&](int64_t i) {
                                     ++ran;
                                     if (i % 2 == 1) throw std::runtime_error("odd");
                                   }),
                      std::runtime_error);
      CHECK(ran < 1000);
      ran = 0;
      parallel_for(100, [&](int64_t) { ++ran; });
      CHECK(ran == 100);
    }
  }

  TEST_CASE("several threads may call at once") {
    ThreadCount count(3);
    std::atomic<int64_t> total{0};
    std::vector<std::thread> callers;
    callers.reserve(4);
    for (int t = 0; t < 4; ++t)
      callers.emplace_back([&] {
        for (int job = 0; job < 300; ++job) parallel_for(10, [&](int64_t i) { total += i; });
      });
    for (auto& caller : callers) caller.join();
    CHECK(total == 4 * 300 * 45);
  }

  TEST_CASE("the thread count may change between and during jobs") {
    ThreadCount count(2);
    std::atomic<bool> stop{false};
    std::thread changer([&] {
      for (int i = 0; !stop; i = (i + 1) % 5) set_thread_count(1 + i);
    });
    std::atomic<int64_t> ran{0};
    for (int job = 0; job < 500; ++job) parallel_for(16, [&](int64_t) { ++ran; });
    stop = true;
    changer.join();
    CHECK(ran == 500 * 16);
  }

#ifndef __SANITIZE_THREAD__
  // ThreadSanitizer allows no new threads in the child of a threaded process.
  TEST_CASE("a forked child gets a fresh pool") {
    ThreadCount count(3);
    parallel_for(8, [](int64_t) {});
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      std::atomic<int> ran{0};
      for (int job = 0; job < 50; ++job) parallel_for(8, [&](int64_t) { ++ran; });
      _exit(ran == 400 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
#endif
}
