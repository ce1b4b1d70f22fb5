// Loads a relocatable object (what `cc -c` or LLVM emits) from memory and makes its functions
// callable, with no linker, no file and no dlopen. x86-64 and AArch64, ELF 64-bit little-endian.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "runtime/code_memory.h"

namespace mote {

enum class ElfMachine : uint16_t { X86_64 = 62, AArch64 = 183 };

#if defined(__aarch64__)
constexpr ElfMachine host_machine = ElfMachine::AArch64;
#else
constexpr ElfMachine host_machine = ElfMachine::X86_64;
#endif

// The address of an external symbol, or null if it is not to be had.
using SymbolLookup = std::function<void*(std::string_view name)>;

// What compilers call behind the programmer's back (memcpy, memset, memmove, memcmp) and the C
// library's float and double functions a renderer may name (fmod, exp, ...). Null for anything
// else.
void* c_library_symbol(std::string_view name);

class LoadedObject {
 public:
  // Copies the object's sections to memory for code, resolves its relocations, then write-protects
  // code and constants (no page is ever writable and executable at once). Throws Error(Device) that
  // says what is wrong if the object is damaged, is for another machine, needs an unknown symbol or
  // something not supported: thread-local data, constructors, common symbols, ifuncs. No input,
  // however damaged, makes loading crash; what the code then does is the compiler's word. `machine`
  // other than the host's serves tests: such an object may be looked at but not run.
  explicit LoadedObject(std::span<const uint8_t> object,
                        const SymbolLookup& lookup = c_library_symbol,
                        ElfMachine machine = host_machine);

  // The address of a global symbol the object defines; throws Error(Device) if it does not. Valid
  // until *this is destroyed. Threads: any number may call it, and the loaded code, at once.
  void* symbol(std::string_view name) const;

  template <class Function>
  Function* function(std::string_view name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

  size_t mapped_bytes() const { return block_.size(); }

 private:
  CodeBlock block_;
  std::map<std::string, void*, std::less<>> symbols_;
};

}  // namespace mote
