#include "runtime/elf_relocate.h"

#include <elf.h>

#include <cstring>

namespace mote {
namespace {

template <class T>
T read(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void write(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// True if value is representable in `bits` bits, two's complement.
bool fits(int64_t value, int bits) {
  return value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << (bits - 1));
}

bool write_signed32(uint8_t* place, int64_t value) {
  write(place, static_cast<int32_t>(value));
  return fits(value, 32);
}

bool relocate_x86(uint32_t type, uint8_t* place, uint64_t target, int64_t addend) {
  const uint64_t value = target + static_cast<uint64_t>(addend);
  const auto relative = static_cast<int64_t>(value - reinterpret_cast<uint64_t>(place));
  switch (type) {
    case R_X86_64_64: return write(place, value), true;
    case R_X86_64_PC64: return write(place, relative), true;
    case R_X86_64_32: return write(place, static_cast<uint32_t>(value)), value <= UINT32_MAX;
    case R_X86_64_32S: return write_signed32(place, static_cast<int64_t>(value));
    default:  // PC32, PLT32, the GOTPCREL family
      return write_signed32(place, relative);
  }
}

// Replaces `width` bits of the instruction at place, from bit `low`.
void set_field(uint8_t* place, int low, int width, uint64_t value) {
  const uint32_t mask = ((uint32_t{1} << width) - 1) << low;
  write(place, (read<uint32_t>(place) & ~mask) | (static_cast<uint32_t>(value << low) & mask));
}

bool set_page(uint8_t* place, uint64_t value) {  // ADRP
  constexpr uint64_t page = ~uint64_t{0xfff};
  const auto pages =
      static_cast<int64_t>((value & page) - (reinterpret_cast<uint64_t>(place) & page)) >> 12;
  set_field(place, 29, 2, static_cast<uint64_t>(pages) & 3);
  set_field(place, 5, 19, static_cast<uint64_t>(pages) >> 2);
  return fits(pages, 21);
}

bool set_low12(uint8_t* place, uint64_t value,
               int scale) {  // load, store or add of the offset in the page
  set_field(place, 10, 12, (value & 0xfff) >> scale);
  return (value & ((uint64_t{1} << scale) - 1)) == 0;
}

bool relocate_arm(uint32_t type, uint8_t* place, uint64_t target, int64_t addend) {
  const uint64_t value = target + static_cast<uint64_t>(addend);
  const auto relative = static_cast<int64_t>(value - reinterpret_cast<uint64_t>(place));
  switch (type) {
    case R_AARCH64_ABS64: return write(place, value), true;
    case R_AARCH64_PREL64: return write(place, relative), true;
    case R_AARCH64_PREL32: return write_signed32(place, relative);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      set_field(place, 0, 26, static_cast<uint64_t>(relative) >> 2);
      return fits(relative, 28) && relative % 4 == 0;
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADR_GOT_PAGE: return set_page(place, value);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return set_low12(place, value, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return set_low12(place, value, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return set_low12(place, value, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LD64_GOT_LO12_NC: return set_low12(place, value, 3);
    default:  // R_AARCH64_LDST128_ABS_LO12_NC
      return set_low12(place, value, 4);
  }
}

Reach reach_x86(uint32_t type) {
  switch (type) {
    case R_X86_64_NONE: return Reach::Nothing;
    case R_X86_64_64:
    case R_X86_64_PC64:
    case R_X86_64_32:
    case R_X86_64_32S: return Reach::Address;
    case R_X86_64_PC32:  // older assemblers write calls so
    case R_X86_64_PLT32: return Reach::Call;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: return Reach::GotSlot;
    default: return Reach::Unknown;
  }
}

Reach reach_arm(uint32_t type) {
  switch (type) {
    case R_AARCH64_NONE: return Reach::Nothing;
    case R_AARCH64_ABS64:
    case R_AARCH64_PREL64:
    case R_AARCH64_PREL32:
    case R_AARCH64_ADR_PREL_PG_HI21:
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC: return Reach::Address;
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: return Reach::Call;
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_LD64_GOT_LO12_NC: return Reach::GotSlot;
    default: return Reach::Unknown;
  }
}

}  // namespace

Reach reach_of(ElfMachine machine, uint32_t type) {
  return machine == ElfMachine::X86_64 ? reach_x86(type) : reach_arm(type);
}

bool needs_low_address(ElfMachine machine, uint32_t type) {
  return machine == ElfMachine::X86_64 && (type == R_X86_64_32 || type == R_X86_64_32S);
}

int patched_bytes(ElfMachine machine, uint32_t type) {
  if (machine == ElfMachine::X86_64) return type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
  return type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64 ? 8 : 4;
}

bool relocate(ElfMachine machine, uint32_t type, uint8_t* place, uint64_t target, int64_t addend) {
  return (machine == ElfMachine::X86_64 ? relocate_x86 : relocate_arm)(type, place, target, addend);
}

void write_stub(ElfMachine machine, uint8_t* stub, uint64_t target) {
  if (machine == ElfMachine::X86_64) {
    constexpr uint8_t jump[8] = {0xff, 0x25, 2, 0, 0, 0, 0x90, 0x90};  // jmp *[rip + 2]; nop; nop
    std::memcpy(stub, jump, sizeof jump);
  } else {
    write(stub, uint32_t{0x58000050});      // ldr x16, 8 bytes on
    write(stub + 4, uint32_t{0xd61f0200});  // br x16
  }
  write(stub + 8, target);
}

}  // namespace mote
