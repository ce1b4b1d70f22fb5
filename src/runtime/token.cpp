#include "runtime/token.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/error.h"

namespace mote {

static std::atomic<uint64_t> waits_so_far = 0;
uint64_t Token::waits() { return waits_so_far; }

struct Token::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::string error;
  std::shared_ptr<QueuedWork> work;  // none: somebody completes the token

  // With the mutex held.
  bool look() {
    if (!done && work && work->is_over()) finish(work->end());
    return done;
  }
  void finish(std::string why) {
    done = true;
    error = std::move(why);
    work.reset();
    changed.notify_all();
  }
};

Token Token::pending() {
  Token t;
  t.state_ = std::make_shared<State>();
  return t;
}

Token Token::of(std::shared_ptr<QueuedWork> work) {
  Token t = pending();
  t.state_->work = std::move(work);
  return t;
}

bool Token::is_queued_in(const void* queue) const {
  if (!state_) return false;
  std::lock_guard lock(state_->mutex);
  return state_->work && state_->work->queue() == queue;
}

bool Token::done() const {
  if (!state_) return true;
  std::lock_guard lock(state_->mutex);
  return state_->look();
}

bool Token::succeeded() const {
  if (!state_) return true;
  std::lock_guard lock(state_->mutex);
  return state_->look() && (quiet_ || state_->error.empty());
}

bool Token::wait_quietly() const {
  if (!state_) return false;
  std::unique_lock lock(state_->mutex);
  if (state_->look()) return false;
  waits_so_far.fetch_add(1, std::memory_order_relaxed);
  if (const std::shared_ptr<QueuedWork> work = state_->work) {
    lock.unlock();
    std::string error = work->end();
    lock.lock();
    if (!state_->done) state_->finish(std::move(error));
    return true;
  }
  state_->changed.wait(lock, [&] { return state_->done; });
  return true;
}

Token Token::quiet() const {
  Token t = *this;
  t.quiet_ = true;
  return t;
}

void Token::wait() const {
  wait_quietly();
  if (state_ && !quiet_ && !state_->error.empty()) fail(ErrorKind::Device, state_->error);
}

void Token::complete(std::string error) const {
  std::lock_guard lock(state_->mutex);
  state_->finish(std::move(error));
}

}  // namespace mote
