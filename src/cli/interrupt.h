// Ctrl-C and its kin, as a question that a loop asks.
#pragma once

namespace mote {

// While one lives, the first SIGINT, SIGTERM or SIGHUP is remembered and the second one ends the
// program at once, as if none lived.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  int signal() const;  // 0: none came
};

}  // namespace mote
