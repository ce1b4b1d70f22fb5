// One pool of worker threads for the whole process, kept between calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace mote {

// Cores this process may use: its affinity mask, cut by the control group's CPU quota. At least 1.
int usable_cores();

// In the child of a fork, which has no workers, and in which the pool's lock may be held for ever:
// the next parallel_for starts with a new pool.
void forget_workers();

// How many threads a parallel_for may use, its caller included. usable_cores() until set.
int thread_count();

// Sets it, clamped to 1 ... 1024. Affects calls that start later; may be called from any thread.
void set_thread_count(int count);

// Calls function(context) on this thread if at least so much of its stack is left, else on a new
// thread that has it; returns when it is done. Exceptions reach the caller. Settings of the calling
// thread (flags, open calls) do not reach the new one.
void with_stack(size_t bytes, void (*function)(void*), void* context);
template <class F>
void with_stack(size_t bytes, F&& f) {
  using Callable = std::remove_reference_t<F>;
  with_stack(
      bytes, [](void* context) { (*static_cast<Callable*>(context))(); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

using ChunkFunction = void (*)(void* context, int64_t chunk);
void parallel_for(int64_t chunks, ChunkFunction function, void* context);

// Runs f(0) ... f(chunks-1), each exactly once, on up to thread_count() threads, the caller being
// one of them, and returns when all are done; their effects are then visible to the caller. Each
// thread begins with chunks of its own, in rising order, then takes those that others have left:
// give more chunks than threads when costs differ.
//  - f must not rely on chunks running at once. They run one after another on the caller's thread
//    when this is called from inside a chunk (no oversubscription), when another thread's
//    parallel_for holds the pool, or when there is one chunk or one thread.
//  - If chunks throw, those not yet started are dropped and one of the exceptions is rethrown here.
//  - Any thread may call it. After fork() the child gets a fresh pool.
template <class F>
void parallel_for(int64_t chunks, F&& f) {
  using Callable = std::remove_reference_t<F>;
  parallel_for(
      chunks, [](void* context, int64_t chunk) { (*static_cast<Callable*>(context))(chunk); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

}  // namespace mote
