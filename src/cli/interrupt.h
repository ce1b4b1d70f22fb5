// Ctrl-C and its kin, as a question that long work asks.
#pragma once

namespace mote {

// While one lives, SIGINT, SIGTERM and SIGHUP are remembered. A second SIGINT ends the program at
// once, as if none lived.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
};

int interrupt_signal();  // that came while the last one lived; 0: none

}  // namespace mote
