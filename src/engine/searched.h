// What searches found: lists of actions by kernel and device, in memory and in a file of lines that
// lies in the folder of the compile cache and is named by the build. Each line is
//   kernel <tab> device <tab> milliseconds before <tab> after <tab> actions
// and the last one of a kernel and device counts. Processes append whole lines; one that was cut
// short is skipped. All functions may be called from several threads.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "optimize/optimize.h"
#include "runtime/device.h"

namespace mote {

// A kernel's structure, and a device's description with all that a compiler makes of it.
std::string kernel_key(UOp body);
std::string device_key(Device& device);

struct Found {
  std::string actions;
  double before_ms = 0, after_ms = 0;
};

std::optional<Found> find_searched(const std::string& kernel, const std::string& device);
void remember_searched(const std::string& kernel, const std::string& device, const Found& found);

// The list remembered for this kernel where the flags let one choose and the kernel takes it.
std::optional<Tuned> searched_actions(UOp body, Device& device);

// A search has found something for this build.
bool anything_searched();

// Forgets what is in memory; the next call reads the file again.
void reload_searched();

}  // namespace mote
