#include "runtime/token.h"

#include <condition_variable>
#include <mutex>

#include "base/error.h"

namespace mote {

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

void Token::wait_quietly() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
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
