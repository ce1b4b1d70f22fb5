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
};

Token Token::pending() {
  Token t;
  t.state_ = std::make_shared<State>();
  return t;
}

bool Token::done() const {
  if (!state_) return true;
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

bool Token::succeeded() const {
  if (!state_) return true;
  std::lock_guard lock(state_->mutex);
  return state_->done && (quiet_ || state_->error.empty());
}

bool Token::wait_quietly() const {
  if (!state_) return false;
  std::unique_lock lock(state_->mutex);
  if (state_->done) return false;
  waits_so_far.fetch_add(1, std::memory_order_relaxed);
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
  state_->done = true;
  state_->error = std::move(error);
  state_->changed.notify_all();
}

}  // namespace mote
