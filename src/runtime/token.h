// Completion of submitted work.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mote {

// A promise that work will be done. Copies share the promise; an empty token is done.
class Token {
 public:
  Token() = default;
  static Token pending();
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
