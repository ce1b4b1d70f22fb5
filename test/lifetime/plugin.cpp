// A shared library with mote inside, opened and closed by a program that knows nothing of it.
#include <mote/mote.h>

extern "C" double plugin_sum(int n) {
  try {
    return (mote::arange(n).to_float() * 2 + 1).sum().item<double>();
  } catch (const mote::Error&) { return -1; }
}
