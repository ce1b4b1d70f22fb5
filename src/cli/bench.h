// The parts of `mote bench`, and what they share.
#pragma once
#include <string>

#include "cli/options.h"

namespace mote {

int bench_host(const Words&);  // bench_host.cpp
int bench_cpu(const Words&);   // bench_cpu.cpp
int bench_cuda(const Words&);  // bench_cuda.cpp

std::string tool_path(const std::string& name);  // a file of tools/, beside the build folder
std::string own_path();

}  // namespace mote
