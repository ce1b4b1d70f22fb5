#include "base/fork.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "base/error.h"
#include "base/lifetime.h"
#include "base/threads.h"

namespace mote {

namespace {

// One for each thread that has called the library; those of ended threads are taken again.
struct ThreadRecord {
  std::atomic<bool> taken{true};
  std::atomic<bool> inside{false};
  int depth = 0;  // of scopes; the thread's own
  ThreadRecord* next = nullptr;
};
std::atomic<ThreadRecord*> records{nullptr};
std::atomic<ThreadRecord*> forking{nullptr};  // the record of the thread that forks
std::mutex one_fork;
bool others_inside = false;  // at the fork
std::atomic<bool> amid_call{false};

ThreadRecord* free_record() {
  for (ThreadRecord* r = records.load(); r; r = r->next)
    if (bool taken = false; r->taken.compare_exchange_strong(taken, true)) return r;
  auto* made = new ThreadRecord;
  made->next = records.load();
  while (!records.compare_exchange_weak(made->next, made)) {}
  return made;
}

void before_fork();
void in_parent() {
  forking.store(nullptr);
  forking.notify_all();
  one_fork.unlock();
}
void in_child() {
  ThreadRecord* self = forking.load();
  for (ThreadRecord* r = records.load(); r; r = r->next) {
    if (r == self) continue;
    r->inside.store(false);
    r->depth = 0;
    r->taken.store(false);
  }
  if (others_inside) amid_call.store(true);
  forget_workers();
  forking.store(nullptr);
  one_fork.unlock();
}

// Given back when the thread ends; one that is asked for later is taken anew.
struct OwnRecord {
  ThreadRecord* record = free_record();
  OwnRecord() {
    [[maybe_unused]] static const int registered =
        (keep_loaded(), pthread_atfork(before_fork, in_parent, in_child));
  }
  ~OwnRecord() { record->taken.store(false); }
};

void before_fork() {
  ThreadRecord* self = PerThread<OwnRecord>::get().record;
  one_fork.lock();
  forking.store(self);
  others_inside = false;
  for (ThreadRecord* r = records.load(); r; r = r->next)
    if (r != self && r->inside.load()) others_inside = true;
}

}  // namespace

InsideLibrary::InsideLibrary() {
  ThreadRecord* self = PerThread<OwnRecord>::get().record;
  if (self->depth++ > 0) return;
  self->inside.store(true);  // sequentially consistent: either this or `forking` is seen
  for (ThreadRecord* other = forking.load(); other && other != self; other = forking.load()) {
    self->inside.store(false);
    forking.wait(other);
    self->inside.store(true);
  }
}

InsideLibrary::~InsideLibrary() {
  ThreadRecord* self = PerThread<OwnRecord>::get().record;
  if (--self->depth == 0) self->inside.store(false, std::memory_order_release);
}

bool forked_amid_call() { return amid_call.load(std::memory_order_relaxed); }

void check_not_forked_amid_call() {
  check(!forked_amid_call(),
        "[fork] this process was forked while another thread was inside mote, and may not use it: "
        "fork when no other thread computes, or start a new program (exec)");
}

}  // namespace mote
