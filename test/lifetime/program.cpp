// Computes before main, after it, and in ending threads. Prints a line for each.
#include <mote/mote.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

// A kernel of its own for every size: those of other moments do not help.
void compute(const char* when, int64_t size) {
  mote::Tensor x = mote::arange(size).to_float();
  mote::Tensor w = (x * 0 + 2).requires_grad_();
  mote::Tensor loss = (w * x).sum();
  loss.backward();
  std::printf("%s: %g %g\n", when, loss.item<double>(), w.grad().sum().item<double>());
  std::fflush(stdout);
}

struct Ends {
  mote::Tensor kept;
  const char* when;
  int64_t size;
  Ends(const char* name, int64_t n) : when(name), size(n) { kept = mote::full({n}, 0.5); }
  ~Ends() {
    compute(when, size);
    std::printf("%s, kept: %g\n", when, kept.sum().item<double>());
    std::fflush(stdout);
  }
};

Ends static_object("static destructor", 31);
const bool before_main = (compute("static constructor", 32), true);
thread_local Ends of_thread("end of a thread", 33);

}  // namespace

int main() {
  std::atexit([] { compute("atexit", 34); });
  compute("main", 35);
  std::thread([] {
    of_thread.size = 36;
    compute("thread", 37);
  }).join();
  static Ends local("local static", 38);
  of_thread.size = 39;  // of the main thread: destroyed before the static ones
  std::atexit([] { compute("atexit, last registered", 40); });
  return before_main ? 0 : 1;
}
