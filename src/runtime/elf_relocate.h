// The arithmetic of relocations, one function per machine. Part of the ELF loader (runtime/elf.h).
#pragma once
#include <cstdint>

#include "runtime/elf.h"

namespace mote {

// How a relocation reaches its symbol.
enum class Reach {
  Nothing,     // no relocation
  Address,     // uses the symbol's own address
  LowAddress,  // which must lie in the low 2 GiB, as the object then does
  Call,        // a branch, which may go through a stub
  GotSlot,     // uses the address of a word that holds the symbol's address
};

// One type of relocation.
struct Relocation {
  uint32_t type;
  Reach reach;
  int bytes;  // that it rewrites
  // Writes at `place`, whose final address is its own, the relocation to a value: the address of
  // the symbol, stub or slot, plus the addend. Returns false if the value does not fit.
  bool (*write)(uint8_t* place, uint64_t value);
};
// Null: not supported.
const Relocation* find_relocation(ElfMachine machine, uint32_t type);

// A stub is code that jumps to a 64-bit address, 8-aligned.
constexpr int stub_bytes = 16;
void write_stub(ElfMachine machine, uint8_t* stub, uint64_t target);

}  // namespace mote
