// The parts of `mote bench`, and what they share.
#pragma once
#include <string>
#include <string_view>

#include "cli/options.h"

namespace mote {

int bench_host(const Words&);  // bench_host.cpp
int bench_cpu(const Words&);   // bench_cpu.cpp
int bench_cuda(const Words&);  // bench_cuda.cpp
int bench_wide(const Words&);  // bench_wide.cpp
int bench_onnx(const Words&);  // bench_onnx.cpp

std::string tool_path(const std::string& name);  // a file of tools/, beside the build folder
std::string own_path();
// The name contains one of several texts parted by commas.
bool is_among(std::string_view name, std::string_view parts);
// One line of a terminal; elsewhere lines, but for those that the table tells as well.
void show_progress(const std::string& line, bool json);

}  // namespace mote
