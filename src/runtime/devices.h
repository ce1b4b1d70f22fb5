// The devices there are. A new one is a file of this folder with a line
//     MOTE_DEVICE(name){"NAME", available, open};
// from which the build makes the list.
#pragma once
#include "runtime/device.h"

#define MOTE_DEVICE(name)      \
  extern const DeviceRow name; \
  const DeviceRow name

namespace mote {

inline bool is_always_there(std::string*) { return true; }
template <class D>
std::unique_ptr<Device> open_as(const std::string& name) {
  return std::make_unique<D>(name);
}

std::vector<DeviceRow> built_devices();  // made by the build, by file name

Target cpu_target();
// For tests: one more kind of device, and the interpreter of kernels as another target.
void add_device(const DeviceRow& row);
std::unique_ptr<Device> open_interp_program(const std::string& name, Target target);

}  // namespace mote
