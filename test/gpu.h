// GPUs, where there are some. PTX without one: devices that render for one and run nothing, and the
// toolkit's assembler.
#pragma once
#include <span>
#include <string>

namespace mote::test {

bool has_cuda();  // else it says so

// Of a GPU of this architecture (90: "PTX90"); holds no data.
std::string ptx_device(int architecture);

// Path of ptxas; empty: this machine has none.
std::string ptxas();

// Assembles kernels, each the text of a module; what ptxas complains of, with the kernels' text.
std::string assemble_ptx(std::span<const std::string> kernels, const std::string& architecture);

}  // namespace mote::test
