#include "runtime/elf.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/integers.h"
#include "runtime/elf_relocate.h"

namespace mote {
namespace {

constexpr uint64_t max_object_bytes = uint64_t{1} << 30;

template <class... A>
[[noreturn]] void bad(const A&... parts) {
  fail(ErrorKind::Device, text("[elf] ", parts...));
}

template <class... A>
void need(bool ok, const A&... parts) {
  if (!ok) [[unlikely]]
    bad(parts...);
}

// Bounds-checked reading of the object's bytes.
struct Bytes {
  std::span<const uint8_t> all;

  std::span<const uint8_t> part(uint64_t at, uint64_t size) const {
    need(at <= all.size() && size <= all.size() - at, "damaged object: bytes ", at, " + ", size,
         " lie outside its ", all.size());
    return all.subspan(at, size);
  }
  template <class T>
  T read(uint64_t at) const {
    T value;
    std::memcpy(&value, part(at, sizeof value).data(), sizeof value);
    return value;
  }
};

enum Group { Code, Constants, Data };
constexpr int group_count = 3;

struct Section {
  Elf64_Shdr header{};
  bool loaded = false;
  Group group = Code;
  uint64_t offset = 0;  // in the block
  uint8_t* memory = nullptr;
};

struct Symbol {
  std::string_view name;
  Elf64_Sym entry{};
  uint64_t address = 0;      // once resolved
  bool used = false;         // by a relocation
  int stub = -1, slot = -1;  // index of its stub and of its GOT slot, if it has one
};

// One load, from bytes to mapped memory. Each step relies on the ones before.
struct Loader {
  Bytes object;
  ElfMachine machine;
  std::vector<Section> sections{};
  std::vector<Symbol> symbols{};
  int stubs = 0, slots = 0;
  bool low = false;               // an absolute 32-bit relocation occurs
  uint64_t fixed = 0, total = 0;  // whole pages: of code and constants, of all
  uint64_t stubs_at = 0, slots_at = 0;
  CodeBlock block{};

  void read_header();
  void read_symbols();
  void choose_sections();
  template <class Visit>
  void for_each_relocation(Visit visit);
  void count_stubs_and_slots();
  void lay_out();
  void copy();
  void resolve(const SymbolLookup& lookup);
  void apply();
};

void Loader::read_header() {
  const auto header = object.read<Elf64_Ehdr>(0);
  need(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0, "not an ELF object");
  need(header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB,
       "not a 64-bit little-endian object");
  need(header.e_type == ET_REL, "not a relocatable object (type ", header.e_type, ")");
  need(header.e_machine == static_cast<uint16_t>(machine), "object is for machine ",
       header.e_machine, ", wanted ", static_cast<int>(machine));
  need(header.e_shentsize == sizeof(Elf64_Shdr), "damaged object: section header size ",
       header.e_shentsize);
  object.part(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  for (uint64_t i = 0; i < header.e_shnum; ++i)
    sections.push_back({object.read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr))});
}

std::string_view read_name(std::span<const uint8_t> table, uint64_t at) {
  need(at < table.size(), "damaged object: name outside its table");
  const auto* start = reinterpret_cast<const char*>(table.data()) + at;
  const void* end = std::memchr(start, 0, table.size() - at);
  need(end != nullptr, "damaged object: unterminated name");
  return {start, static_cast<const char*>(end)};
}

void Loader::read_symbols() {
  const Section* table = nullptr;
  for (const Section& section : sections) {
    if (section.header.sh_type != SHT_SYMTAB) continue;
    need(table == nullptr, "damaged object: two symbol tables");
    table = &section;
  }
  if (!table) return;
  const auto& header = table->header;
  need(header.sh_entsize == sizeof(Elf64_Sym), "damaged object: symbol size ", header.sh_entsize);
  need(header.sh_link < sections.size(), "damaged object: no string table");
  const auto& strings = sections[header.sh_link].header;
  const auto names = object.part(strings.sh_offset, strings.sh_size);
  object.part(header.sh_offset, header.sh_size);
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= header.sh_size; at += sizeof(Elf64_Sym)) {
    Symbol symbol;
    symbol.entry = object.read<Elf64_Sym>(header.sh_offset + at);
    if (symbol.entry.st_name != 0) symbol.name = read_name(names, symbol.entry.st_name);
    symbols.push_back(symbol);
  }
}

void Loader::choose_sections() {
  for (Section& section : sections) {
    const auto& header = section.header;
    const bool unwind_only = header.sh_type == SHT_X86_64_UNWIND || header.sh_type == SHT_NOTE;
    if (!(header.sh_flags & SHF_ALLOC) || header.sh_size == 0 || unwind_only) continue;
    need(!(header.sh_flags & SHF_TLS), "thread-local data is not supported");
    need(header.sh_type == SHT_PROGBITS || header.sh_type == SHT_NOBITS, "section type ",
         header.sh_type, header.sh_type == SHT_INIT_ARRAY ? " (constructors)" : "",
         " is not supported");
    need(header.sh_size <= max_object_bytes, "damaged object: section of ", header.sh_size,
         " bytes");
    need(header.sh_addralign <= 4096 && (header.sh_addralign & (header.sh_addralign - 1)) == 0,
         "section alignment ", header.sh_addralign, " is not supported");
    if (header.sh_type == SHT_PROGBITS) object.part(header.sh_offset, header.sh_size);
    section.loaded = true;
    section.group = header.sh_flags & SHF_EXECINSTR ? Code
                    : header.sh_flags & SHF_WRITE   ? Data
                                                    : Constants;
  }
}

// Visits the relocations of loaded sections: visit(section, entry, symbol, relocation).
template <class Visit>
void Loader::for_each_relocation(Visit visit) {
  for (const Section& table : sections) {
    const auto& header = table.header;
    need(header.sh_type != SHT_REL, "relocations without addends are not supported");
    if (header.sh_type != SHT_RELA) continue;
    need(header.sh_info < sections.size(), "damaged object: relocations of no section");
    Section& section = sections[header.sh_info];
    if (!section.loaded) continue;
    need(section.header.sh_type == SHT_PROGBITS, "damaged object: relocations in zeroed data");
    need(header.sh_entsize == sizeof(Elf64_Rela), "damaged object: relocation size ",
         header.sh_entsize);
    object.part(header.sh_offset, header.sh_size);
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= header.sh_size; at += sizeof(Elf64_Rela)) {
      const auto entry = object.read<Elf64_Rela>(header.sh_offset + at);
      const auto type = static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info));
      const uint64_t index = ELF64_R_SYM(entry.r_info);
      const Relocation* relocation = find_relocation(machine, type);
      need(relocation, "relocation type ", type, " is not supported");
      if (relocation->reach == Reach::Nothing) continue;
      need(index < symbols.size(), "damaged object: relocation to symbol ", index);
      need(entry.r_offset <= section.header.sh_size &&
               static_cast<uint64_t>(relocation->bytes) <= section.header.sh_size - entry.r_offset,
           "damaged object: relocation outside its section");
      visit(section, entry, symbols[index], *relocation);
    }
  }
}

void Loader::count_stubs_and_slots() {
  for_each_relocation([&](Section&, const Elf64_Rela&, Symbol& symbol, const Relocation& r) {
    low |= r.reach == Reach::LowAddress;
    symbol.used = true;
    if (r.reach == Reach::GotSlot && symbol.slot < 0) symbol.slot = slots++;
    if (r.reach == Reach::Call && symbol.entry.st_shndx == SHN_UNDEF && symbol.stub < 0)
      symbol.stub = stubs++;
  });
}

void Loader::lay_out() {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t at = 0;
  for (int group = 0; group < group_count; ++group) {
    for (Section& section : sections) {
      if (!section.loaded || section.group != group) continue;
      section.offset = round_up(at, std::max<uint64_t>(section.header.sh_addralign, 1));
      at = section.offset + section.header.sh_size;
      need(at <= max_object_bytes, "object takes more than ", max_object_bytes, " bytes");
    }
    if (group == Code) {
      stubs_at = round_up(at, 16);
      at = stubs_at + static_cast<uint64_t>(stubs) * stub_bytes;
    }
    if (group == Constants) {
      slots_at = round_up(at, 8);
      at = slots_at + static_cast<uint64_t>(slots) * 8;
    }
    at = round_up(at, group == Code ? uint64_t{kCacheLine} : page);
    if (group == Constants) fixed = at;
  }
  total = at;
}

void Loader::copy() {
  block = CodeBlock(total, low);
  for (Section& section : sections) {
    if (!section.loaded) continue;
    section.memory = block.data() + section.offset;
    if (section.header.sh_type == SHT_PROGBITS)
      std::memcpy(section.memory, object.all.data() + section.header.sh_offset,
                  section.header.sh_size);
  }
}

void Loader::resolve(const SymbolLookup& lookup) {
  for (Symbol& symbol : symbols) {
    const auto& entry = symbol.entry;
    const auto type = ELF64_ST_TYPE(entry.st_info);
    need(type != STT_TLS && type != STT_GNU_IFUNC, "symbol ", symbol.name,
         ": thread-local data and "
         "ifuncs are not supported");
    if (entry.st_shndx == SHN_UNDEF) {
      if (!symbol.used) continue;
      symbol.address = reinterpret_cast<uint64_t>(lookup(symbol.name));
      need(symbol.address != 0, "unknown symbol ", symbol.name);
    } else if (entry.st_shndx == SHN_ABS) {
      symbol.address = entry.st_value;
    } else {
      need(entry.st_shndx < sections.size(), "symbol ", symbol.name, " lies in no section (",
           entry.st_shndx == SHN_COMMON ? "common symbols are not supported" : "damaged object",
           ")");
      const Section& section = sections[entry.st_shndx];
      if (!section.loaded)
        continue;  // debug data; a relocation that needs it finds address 0 and fails
      need(entry.st_value <= section.header.sh_size, "damaged object: symbol ", symbol.name,
           " lies outside its section");
      symbol.address = reinterpret_cast<uint64_t>(section.memory) + entry.st_value;
    }
  }
}

void Loader::apply() {
  for_each_relocation([&](Section& section, const Elf64_Rela& entry, Symbol& symbol,
                          const Relocation& r) {
    uint64_t target = symbol.address;
    need(target != 0 || symbol.entry.st_shndx == SHN_ABS,
         "relocation to a symbol that is not loaded: ", symbol.name);
    if (r.reach == Reach::GotSlot) {
      uint8_t* slot = block.data() + slots_at + static_cast<uint64_t>(symbol.slot) * 8;
      std::memcpy(slot, &target, sizeof target);
      target = reinterpret_cast<uint64_t>(slot);
    } else if (r.reach == Reach::Call && symbol.stub >= 0) {
      uint8_t* stub = block.data() + stubs_at + static_cast<uint64_t>(symbol.stub) * stub_bytes;
      write_stub(machine, stub, target);
      target = reinterpret_cast<uint64_t>(stub);
    }
    need(r.write(section.memory + entry.r_offset, target + static_cast<uint64_t>(entry.r_addend)),
         "relocation type ", r.type, " to ", symbol.name, " does not fit");
  });
}

}  // namespace

LoadedObject::LoadedObject(std::span<const uint8_t> object, const SymbolLookup& lookup,
                           ElfMachine machine) {
  Loader loader{{object}, machine};
  loader.read_header();
  loader.read_symbols();
  loader.choose_sections();
  loader.count_stubs_and_slots();
  loader.lay_out();
  loader.copy();
  loader.resolve(lookup);
  loader.apply();
  loader.block.seal(loader.fixed);
  block_ = std::move(loader.block);
  for (const Symbol& symbol : loader.symbols)
    if (symbol.entry.st_shndx != SHN_UNDEF && symbol.address != 0 &&
        ELF64_ST_BIND(symbol.entry.st_info) != STB_LOCAL)
      symbols_.emplace(symbol.name, reinterpret_cast<void*>(symbol.address));
}

void* LoadedObject::symbol(std::string_view name) const {
  const auto found = symbols_.find(name);
  need(found != symbols_.end(), "the object has no symbol ", name);
  return found->second;
}

// clang-format off
// Both the double and the float form of a one- or two-argument function of the C library.
#define MATH1(name) \
  {#name, reinterpret_cast<void*>(static_cast<double (*)(double)>(::name))}, \
      {#name "f", reinterpret_cast<void*>(static_cast<float (*)(float)>(::name##f))}
#define MATH2(name) \
  {#name, reinterpret_cast<void*>(static_cast<double (*)(double, double)>(::name))}, \
      {#name "f", reinterpret_cast<void*>(static_cast<float (*)(float, float)>(::name##f))}

void* c_library_symbol(std::string_view name) {
  static const auto& table = *new std::map<std::string_view, void*>{
      {"memcpy", reinterpret_cast<void*>(&::memcpy)},
      {"memset", reinterpret_cast<void*>(&::memset)},
      {"memmove", reinterpret_cast<void*>(&::memmove)},
      {"memcmp", reinterpret_cast<void*>(&::memcmp)},
      MATH1(exp), MATH1(exp2), MATH1(log), MATH1(log2), MATH1(log10), MATH1(sin), MATH1(cos),
      MATH1(tan), MATH1(tanh), MATH1(sqrt), MATH1(erf), MATH1(floor), MATH1(ceil), MATH1(trunc),
      MATH1(round), MATH1(rint), MATH1(nearbyint), MATH1(fabs),
      MATH2(fmod), MATH2(pow), MATH2(fmin), MATH2(fmax),
      {"fma", reinterpret_cast<void*>(static_cast<double (*)(double, double, double)>(::fma))},
      {"fmaf", reinterpret_cast<void*>(static_cast<float (*)(float, float, float)>(::fmaf))},
  };
  // clang-format on
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace mote
