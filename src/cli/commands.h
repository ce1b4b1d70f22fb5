// The commands of the command-line program, each a row that its own file defines.
#pragma once
#include "cli/options.h"

namespace mote {

extern const Command train_command;    // train.cpp
extern const Command run_command;      // run.cpp
extern const Command info_command;     // info.cpp
extern const Command onnx_command;     // onnx.cpp
extern const Command devices_command;  // devices.cpp
extern const Command bench_command;    // bench.cpp
extern const Command search_command;   // search.cpp
extern const Command docs_command;     // docs.cpp

}  // namespace mote
