#include "base/threads.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/cgroup.h"
#include "base/float_environment.h"
#include "base/fork.h"
#include "base/lifetime.h"
#ifdef __linux__
#include <sched.h>
#endif

namespace mote {
namespace {

constexpr int kMostThreads = 1024;

// Long enough to bridge the gap between two kernels of a step, short enough not to burn a shared
// core.
constexpr auto spin_time = std::chrono::microseconds(30);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// More threads than cores: who spins keeps another one from its work.
std::atomic<bool> may_spin{true};

// Returns once value is not `old`: spins briefly, then sleeps.
void wait_while(const std::atomic<uint32_t>& value, uint32_t old) {
  if (!may_spin.load(std::memory_order_relaxed)) return value.wait(old, std::memory_order_acquire);
  const auto end = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 16; ++i, pause())
      if (value.load(std::memory_order_acquire) != old) return;
  } while (std::chrono::steady_clock::now() < end);
  value.wait(old, std::memory_order_acquire);
}

thread_local bool inside_chunk = false;

struct InsideChunk {
  bool before = std::exchange(inside_chunk, true);
  ~InsideChunk() { inside_chunk = before; }
};

// A process may be started with a small limit for stacks (`ulimit -s`); what runs here needs more.
constexpr size_t stack_bytes = size_t{8} << 20;

// std::thread cannot say how large its stack is to be. False: the system gives no more threads.
bool start_thread(void* (*run)(void*), void* argument, pthread_t* thread) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, stack_bytes);
  const bool started = pthread_create(thread, &attributes, run, argument) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

// Of this thread's own stack; 0 on another one, that a coroutine may run on.
size_t stack_left() {
  thread_local char* lowest = nullptr;
  thread_local char* highest = nullptr;
  if (!highest) {
    pthread_attr_t attributes;
    void* address = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
    if (pthread_attr_getstack(&attributes, &address, &size) == 0) {
      lowest = static_cast<char*>(address);
      highest = lowest + size;
    }
    pthread_attr_destroy(&attributes);
  }
  char* here = static_cast<char*>(__builtin_frame_address(0));
  return here > lowest && here <= highest ? static_cast<size_t>(here - lowest) : 0;
}

struct Errand {
  void (*function)(void*);
  void* context;
  std::exception_ptr error;
};

// Never destroyed, so that a worker asleep at exit() or a late caller finds it whole. One job at a
// time.
class Pool {
 public:
  // False, having done nothing, if another caller's job is under way.
  bool run(int64_t chunks, ChunkFunction function, void* context, int threads);

 private:
  // state_ holds the open bit and the number of workers inside. A worker enters by adding one and
  // leaves at once if the job was not open. The job's fields change only while it is closed and
  // those who found it open have left.
  static constexpr uint32_t open_bit = 1u << 31;

  // Chunks that one thread runs first: the same ones in every job of so many chunks, so that what
  // they touch is in its core's caches.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  // Where a worker sleeps: the number of times it was called.
  struct alignas(64) Bell {
    std::atomic<uint32_t> rings{0};
  };

  void work(int index);
  void ring(int first);
  void share_out(int64_t chunks, int threads);
  void run_chunks(int thread);
  void run_share(Share& share);
  void start_workers(int wanted);

  std::mutex one_job_;
  int started_ = 0;  // guarded by one_job_

  std::array<Bell, kMostThreads> bells_;  // by worker
  alignas(64) std::atomic<uint32_t> state_{0};
  alignas(64) std::atomic<int> workers_wanted_{0};
  std::atomic<bool> failed_{false};
  std::vector<Share> shares_;  // of the caller, then of the workers
  int sharers_ = 0;
  ChunkFunction function_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr error_;
};

void Pool::share_out(int64_t chunks, int threads) {
  if (shares_.size() < static_cast<size_t>(threads))
    shares_ = std::vector<Share>(static_cast<size_t>(threads));
  sharers_ = threads;
  for (int i = 0; i < threads; ++i) {
    Share& share = shares_[static_cast<size_t>(i)];
    share.next.store(chunks * i / threads, std::memory_order_relaxed);
    share.end = chunks * (i + 1) / threads;
  }
}

// The thread's own share, then what others have left of theirs.
void Pool::run_chunks(int thread) {
  InsideChunk inside;
  for (int i = 0; i < sharers_; ++i)
    run_share(shares_[static_cast<size_t>((thread + i) % sharers_)]);
}

void Pool::run_share(Share& share) {
  for (;;) {
    const int64_t chunk = share.next.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= share.end || failed_.load(std::memory_order_relaxed)) return;
    try {
      function_(context_, chunk);
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }
}

// Two workers are called by the caller and two by each of them, so that no one calls all.
void Pool::ring(int first) {
  const int end = std::min(first + 2, workers_wanted_.load(std::memory_order_relaxed));
  for (int i = first; i < end; ++i) {
    Bell& bell = bells_[static_cast<size_t>(i)];
    bell.rings.fetch_add(1, std::memory_order_release);
    bell.rings.notify_one();
  }
}

void Pool::work(int index) {
  FloatEnvironment nearest;  // a thread inherits the environment of the one that starts it
  const std::atomic<uint32_t>& rings = bells_[static_cast<size_t>(index)].rings;
  uint32_t seen = 0;
  for (;;) {
    wait_while(rings, seen);
    seen = rings.load(std::memory_order_acquire);
    ring(2 * index + 2);
    if (index >= workers_wanted_.load(std::memory_order_relaxed)) continue;
    if (state_.fetch_add(1, std::memory_order_acq_rel) & open_bit) run_chunks(index + 1);
    if (state_.fetch_sub(1, std::memory_order_acq_rel) == 1) state_.notify_one();
  }
}

void Pool::start_workers(int wanted) {
  struct Start {
    Pool* pool;
    int index;
  };
  for (; started_ < wanted; ++started_) {
    auto start = std::make_unique<Start>(Start{this, started_});
    auto run = [](void* given) -> void* {
      const Start own = *std::unique_ptr<Start>(static_cast<Start*>(given));
      own.pool->work(own.index);
      return nullptr;
    };
    pthread_t thread;
    // Where the system gives no more threads, the ones there are, and the caller, do the work.
    if (!start_thread(run, start.get(), &thread)) return;
    start.release();
    pthread_detach(thread);
  }
}

bool Pool::run(int64_t chunks, ChunkFunction function, void* context, int threads) {
  std::unique_lock lock(one_job_, std::try_to_lock);
  if (!lock) return false;
  const int wanted = static_cast<int>(std::min<int64_t>(threads, chunks)) - 1;
  start_workers(wanted);
  share_out(chunks, wanted + 1);
  function_ = function;
  context_ = context;
  failed_.store(false, std::memory_order_relaxed);
  workers_wanted_.store(wanted, std::memory_order_relaxed);
  state_.fetch_or(open_bit, std::memory_order_release);
  ring(0);
  run_chunks(0);
  uint32_t now = state_.fetch_and(~open_bit, std::memory_order_acq_rel) & ~open_bit;
  for (; now != 0; now = state_.load(std::memory_order_acquire)) wait_while(state_, now);
  if (failed_.load()) std::rethrow_exception(std::exchange(error_, nullptr));
  return true;
}

std::atomic<Pool*> the_pool{nullptr};

Pool& pool() {
  if (Pool* found = the_pool.load(std::memory_order_acquire)) return *found;
  static std::mutex making;
  std::lock_guard lock(making);
  if (Pool* found = the_pool.load(std::memory_order_acquire)) return *found;
  InsideLibrary forks_are_noticed;
  keep_loaded();
  Pool* made = new Pool;
  the_pool.store(made, std::memory_order_release);
  return *made;
}

std::atomic<int> wanted_threads{0};  // 0: not set yet

}  // namespace

void forget_workers() { the_pool.store(nullptr); }

void with_stack(size_t bytes, void (*function)(void*), void* context) {
  if (stack_left() >= bytes) return function(context);
  Errand errand{function, context, nullptr};
  auto run = [](void* given) -> void* {
    auto& own = *static_cast<Errand*>(given);
    try {
      own.function(own.context);
    } catch (...) { own.error = std::current_exception(); }
    return nullptr;
  };
  pthread_t thread;
  if (!start_thread(run, &errand, &thread)) return function(context);
  pthread_join(thread, nullptr);
  if (errand.error) std::rethrow_exception(errand.error);
}

int usable_cores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
#endif
  if (const double quota = cgroup_limits().cpus; quota > 0)
    cores = std::min(cores, static_cast<int>(std::ceil(quota)));
  return std::max(cores, 1);
}

int thread_count() {
  const int set = wanted_threads.load(std::memory_order_relaxed);
  if (set > 0) return set;
  static const int cores = std::min(usable_cores(), kMostThreads);
  return cores;
}

void set_thread_count(int count) {
  const int threads = std::clamp(count, 1, kMostThreads);
  wanted_threads.store(threads);
  may_spin.store(threads <= usable_cores());
}

void parallel_for(int64_t chunks, ChunkFunction function, void* context) {
  const int threads = thread_count();
  if (chunks > 1 && threads > 1 && !inside_chunk && pool().run(chunks, function, context, threads))
    return;
  InsideChunk inside;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) function(context, chunk);
}

}  // namespace mote
