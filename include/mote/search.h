// Search: better loops for kernels than the heuristic's, found by trying them on the device.
//
//   train_step(images, labels);     // compiles the step's kernels
//   search(20);                     // tries other loops, up to 20 seconds for each kernel
//   train_step(images, labels);     // from here on with the best ones
//
// What was found is remembered in the folder of the compile cache, by the kernel and the device's
// description, and used by every later process without being asked to. BEAM=n in the environment
// does the same for every kernel when it is first compiled. docs/search.md says how it works.
#pragma once
#include <cstdint>
#include <string>

namespace mote {

struct SearchReport {
  int64_t kernels = 0;    // that were searched
  int64_t improved = 0;   // of them
  int64_t tried = 0;      // lists of actions that were run
  double seconds = 0;
  double before_ms = 0;   // all kernels once, as the heuristic makes them
  double after_ms = 0;    // and as they are now
};

// Searches the kernels that this process has compiled so far and that have not been searched
// before, at most `seconds` for each, the largest first. They run on memory of their own: no
// tensor is touched. A kernel found is compared with plain loops before it is remembered. Run it
// on an idle machine. Functions captured by jit() before keep their kernels until they are captured
// again (reset). User error if `seconds` is not a positive number.
SearchReport search(double seconds);

// All that is remembered for this build of the library as lines of text: a kernel, a device and a
// printable list of actions. The file is replaced in one step. Device error if it cannot be.
int64_t export_searched(const std::string& path);  // how many lines
// Adds the lines of such a file, those that are remembered already included. Lines of other devices
// do no harm, nor do lists that a kernel refuses: they are not used. Device error for a file that
// cannot be read, User error for one that is malformed.
int64_t import_searched(const std::string& path);

}  // namespace mote
