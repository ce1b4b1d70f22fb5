// Search: better loops for kernels than the heuristic's, found by trying them on the device.
//
//   train_step(images, labels);     // compiles the step's kernels
//   search(20);                     // tries other loops, up to 20 seconds for each kernel
//   train_step(images, labels);     // from here on with the best ones
//
// The results are kept in the folder of the compile cache, by kernel and device, and every later
// process uses them. BEAM=n in the environment searches every kernel when it is first compiled.
// docs/search.md explains how it works.
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

// Searches the kernels that this process has compiled and not searched yet, the largest first, for
// at most `seconds` each. They run on memory of their own: no tensor is read or written. A result
// is compared with plain loops before it is kept. Run it on an idle machine. Functions captured
// earlier keep their kernels until they are captured again (reset). User error unless `seconds` is
// positive.
SearchReport search(double seconds);

// Writes all results for this build of the library as lines of text: a kernel, a device and a list
// of actions. The file is replaced atomically. Device error if it cannot be written.
int64_t export_searched(const std::string& path);  // how many lines
// Adds the lines of such a file, replacing results for the same kernels. Lines for other devices,
// and lists that a kernel refuses, are harmless: they are not used. Device error if the file cannot
// be read, User error if it is malformed.
int64_t import_searched(const std::string& path);

}  // namespace mote
