#include "runtime/elf_relocate.h"

#include <elf.h>

#include <cstring>
#include <span>

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

int64_t distance(const uint8_t* place, uint64_t value) {
  return static_cast<int64_t>(value - reinterpret_cast<uint64_t>(place));
}

bool absolute64(uint8_t* place, uint64_t value) { return write(place, value), true; }
bool relative64(uint8_t* place, uint64_t value) {
  return write(place, distance(place, value)), true;
}
bool absolute32(uint8_t* place, uint64_t value) {
  write(place, static_cast<uint32_t>(value));
  return value <= UINT32_MAX;
}
bool signed32(uint8_t* place, uint64_t value) {
  write(place, static_cast<int32_t>(value));
  return fits(static_cast<int64_t>(value), 32);
}
bool relative32(uint8_t* place, uint64_t value) {
  return signed32(place, static_cast<uint64_t>(distance(place, value)));
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

bool set_branch(uint8_t* place, uint64_t value) {
  const int64_t relative = distance(place, value);
  set_field(place, 0, 26, static_cast<uint64_t>(relative) >> 2);
  return fits(relative, 28) && relative % 4 == 0;
}

template <int scale>
bool set_low12(uint8_t* place, uint64_t value) {  // load, store or add of the offset in the page
  set_field(place, 10, 12, (value & 0xfff) >> scale);
  return (value & ((uint64_t{1} << scale) - 1)) == 0;
}

// clang-format off
constexpr Relocation x86[] = {
    {R_X86_64_NONE,          Reach::Nothing,    0, nullptr},
    {R_X86_64_64,            Reach::Address,    8, absolute64},
    {R_X86_64_PC64,          Reach::Address,    8, relative64},
    {R_X86_64_32,            Reach::LowAddress, 4, absolute32},
    {R_X86_64_32S,           Reach::LowAddress, 4, signed32},
    {R_X86_64_PC32,          Reach::Call,       4, relative32},  // older assemblers write calls so
    {R_X86_64_PLT32,         Reach::Call,       4, relative32},
    {R_X86_64_GOTPCREL,      Reach::GotSlot,    4, relative32},
    {R_X86_64_GOTPCRELX,     Reach::GotSlot,    4, relative32},
    {R_X86_64_REX_GOTPCRELX, Reach::GotSlot,    4, relative32},
};
constexpr Relocation arm[] = {
    {R_AARCH64_NONE,                Reach::Nothing, 0, nullptr},
    {R_AARCH64_ABS64,               Reach::Address, 8, absolute64},
    {R_AARCH64_PREL64,              Reach::Address, 8, relative64},
    {R_AARCH64_PREL32,              Reach::Address, 4, relative32},
    {R_AARCH64_CALL26,              Reach::Call,    4, set_branch},
    {R_AARCH64_JUMP26,              Reach::Call,    4, set_branch},
    {R_AARCH64_ADR_PREL_PG_HI21,    Reach::Address, 4, set_page},
    {R_AARCH64_ADR_GOT_PAGE,        Reach::GotSlot, 4, set_page},
    {R_AARCH64_LD64_GOT_LO12_NC,    Reach::GotSlot, 4, set_low12<3>},
    {R_AARCH64_ADD_ABS_LO12_NC,     Reach::Address, 4, set_low12<0>},
    {R_AARCH64_LDST8_ABS_LO12_NC,   Reach::Address, 4, set_low12<0>},
    {R_AARCH64_LDST16_ABS_LO12_NC,  Reach::Address, 4, set_low12<1>},
    {R_AARCH64_LDST32_ABS_LO12_NC,  Reach::Address, 4, set_low12<2>},
    {R_AARCH64_LDST64_ABS_LO12_NC,  Reach::Address, 4, set_low12<3>},
    {R_AARCH64_LDST128_ABS_LO12_NC, Reach::Address, 4, set_low12<4>},
};
// clang-format on

}  // namespace

const Relocation* find_relocation(ElfMachine machine, uint32_t type) {
  const bool is_x86 = machine == ElfMachine::X86_64;
  for (const Relocation& r : is_x86 ? std::span<const Relocation>(x86) : arm)
    if (r.type == type) return &r;
  return nullptr;
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
