// Compiles C to an object with the system's C compiler: the CPU device's fallback where LLVM is
// missing.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mote {

// True if cc, gcc or clang is on PATH and answers; else why_not (if given) says what to install.
// Asks once.
bool c_compiler_available(std::string* why_not = nullptr);

// The first line of --version, for people. Empty if not available.
std::string c_compiler_name();

// Path, first line of --version and the flags used: what a cache key must hold. Empty if not
// available. (The flags say -march=native: the key also needs cpu_info().model and features.)
std::string c_compiler_version();

// Compiles C11 text with GNU extensions (vector types, builtins) for this CPU to a relocatable
// object for runtime/elf.h. Freestanding: declare what you call, use __builtin_ forms for fma, sqrt
// and the like. Float arithmetic is IEEE but for contraction to FMA. extra_flags go last.
// No shell, no temporary files: text, messages and object travel in memory. 15-40 ms.
// Throws Error(Device) if there is no compiler, naming the packages to install, and Error(Internal)
// with the compiler's first messages and the offending line if the text does not compile.
// Threads: any number at once.
std::vector<uint8_t> c_compile(std::string_view c_text,
                               const std::vector<std::string>& extra_flags = {});

}  // namespace mote
