// Completion of submitted work.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mote {

// Work that its queue knows the end of. Thread-safe.
class QueuedWork {
 public:
  virtual ~QueuedWork() = default;
  virtual bool is_over() = 0;
  virtual std::string end() = 0;  // waits; the error's text, if any
  virtual const void* queue() const = 0;
};

// A promise that work will be done. Copies share the promise; an empty token is done.
class Token {
 public:
  Token() = default;
  static Token pending();
  static Token of(std::shared_ptr<QueuedWork> work);  // nobody completes it: the queue is asked
  bool is_queued_in(const void* queue) const;  // not known to be done, and work of this queue
  bool done() const;
  bool succeeded() const;                     // done, and without an error
  void wait() const;                          // returns when done; throws the work's error, if any
  Token quiet() const;                        // the same promise, whose error is not this waiter's
  bool wait_quietly() const;                  // does not throw; whether it had to wait
  void complete(std::string error = {}) const;  // called once, by the device
  static uint64_t waits();  // how often a thread of this process had to wait

 private:
  struct State;
  std::shared_ptr<State> state_;
  bool quiet_ = false;
};

}  // namespace mote
