#include "cli/interrupt.h"

#include <signal.h>

#include <cstddef>

namespace mote {

namespace {

volatile sig_atomic_t caught = 0;
constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
struct sigaction before[3];

// A second Ctrl-C ends at once. A terminal that closes may send its signal more than once.
void remember(int number) {
  caught = number;
  if (number == SIGINT) sigaction(SIGINT, &before[0], nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  caught = 0;
  struct sigaction ours {};
  ours.sa_handler = remember;
  ours.sa_flags = SA_RESTART;
  for (size_t i = 0; i < 3; ++i) {
    sigaction(signals[i], nullptr, &before[i]);
    // What was ignored stays ignored, as nohup and background jobs want.
    if (before[i].sa_handler != SIG_IGN) sigaction(signals[i], &ours, nullptr);
  }
}
Interrupt::~Interrupt() {
  for (size_t i = 0; i < 3; ++i) sigaction(signals[i], &before[i], nullptr);
}
int interrupt_signal() { return caught; }

}  // namespace mote
