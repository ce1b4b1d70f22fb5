// The arithmetic of relocations, one function per machine. Part of the ELF loader (runtime/elf.h).
#pragma once
#include <cstdint>

#include "runtime/elf.h"

namespace mote {

// How a relocation reaches its symbol.
enum class Reach {
  Nothing,  // no relocation
  Address,  // uses the symbol's own address
  Call,     // a branch, which may go through a stub
  GotSlot,  // uses the address of a word that holds the symbol's address
  Unknown
};

Reach reach_of(ElfMachine machine, uint32_t type);

// True for x86-64's absolute 32-bit relocations: the object must lie in the low 2 GiB.
bool needs_low_address(ElfMachine machine, uint32_t type);

// Bytes the relocation rewrites.
int patched_bytes(ElfMachine machine, uint32_t type);

// Writes at `place`, whose final address is its own, the relocation to `target` (symbol, stub or
// slot) + addend. Returns false if the value does not fit.
bool relocate(ElfMachine machine, uint32_t type, uint8_t* place, uint64_t target, int64_t addend);

// A stub is code that jumps to a 64-bit address, 8-aligned.
constexpr int stub_bytes = 16;
void write_stub(ElfMachine machine, uint8_t* stub, uint64_t target);

}  // namespace mote
