// The devices there are; a new one is a file with one row here.
#pragma once
#include "runtime/device.h"

namespace mote {

extern const DeviceRow cpu_device;              // kernels by LLVM or the system's C compiler
extern const DeviceRow null_device;             // as CPU, but nothing is allocated or run
extern const DeviceRow interp_device;           // evaluates the unscheduled tensor graph
extern const DeviceRow interp_program_device;   // runs lowered kernels statement by statement
extern const DeviceRow disk_device;             // files as read-only memory

Target cpu_target();
// For tests: one more kind of device, and the interpreter of kernels as another target.
void add_device(const DeviceRow& row);
std::unique_ptr<Device> open_interp_program(const std::string& name, Target target);

}  // namespace mote
