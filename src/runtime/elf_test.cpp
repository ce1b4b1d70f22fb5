#include "runtime/elf.h"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/elf_relocate.h"
#include "runtime/llvm.h"

using namespace mote;

namespace {

// A hand-made x86-64 object, so that these tests need no compiler:
//   int answer(void) { return *(int*)constant; }   mov eax, [rip + constant]; ret
//   int call(void) { return outside(); }           jmp outside
struct TinyObject {
  std::vector<uint8_t> bytes;
  size_t sections_at = 0, symbols_at = 0, relocations_at = 0;

  template <class T>
  size_t add(const T& value) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return at;
  }
  template <class T>
  void edit(size_t at, const std::function<void(T&)>& change) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    change(value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }

  TinyObject() {
    const uint8_t code[16] = {0x8b, 0x05, 0, 0, 0, 0, 0xc3, 0x90, 0xe9, 0, 0, 0, 0};
    const char names[] = "\0answer\0call\0outside";
    add(Elf64_Ehdr{});
    const size_t code_at = add(code), data_at = add(int32_t{42}), names_at = add(names);
    bytes.resize((bytes.size() + 7) / 8 * 8);
    symbols_at = bytes.size();
    constexpr uint8_t global_function = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    add(Elf64_Sym{});
    add(Elf64_Sym{0, ELF64_ST_INFO(STB_LOCAL, STT_SECTION), 0, 2, 0, 0});
    add(Elf64_Sym{1, global_function, 0, 1, 0, 7});
    add(Elf64_Sym{8, global_function, 0, 1, 8, 5});
    add(Elf64_Sym{13, ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), 0, SHN_UNDEF, 0, 0});
    relocations_at = bytes.size();
    add(Elf64_Rela{2, ELF64_R_INFO(1, R_X86_64_PC32), -4});
    add(Elf64_Rela{9, ELF64_R_INFO(4, R_X86_64_PLT32), -4});
    sections_at = bytes.size();
    constexpr uint64_t alloc = SHF_ALLOC, exec = SHF_ALLOC | SHF_EXECINSTR;
    add(Elf64_Shdr{});
    add(Elf64_Shdr{0, SHT_PROGBITS, exec, 0, code_at, sizeof code, 0, 0, 16, 0});
    add(Elf64_Shdr{0, SHT_PROGBITS, alloc, 0, data_at, 4, 0, 0, 4, 0});
    add(Elf64_Shdr{0, SHT_SYMTAB, 0, 0, symbols_at, 5 * sizeof(Elf64_Sym), 4, 2, 8,
                   sizeof(Elf64_Sym)});
    add(Elf64_Shdr{0, SHT_STRTAB, 0, 0, names_at, sizeof names, 0, 0, 1, 0});
    add(Elf64_Shdr{0, SHT_RELA, 0, 0, relocations_at, 2 * sizeof(Elf64_Rela), 3, 1, 8,
                   sizeof(Elf64_Rela)});
    edit<Elf64_Ehdr>(0, [&](Elf64_Ehdr& header) {
      std::memcpy(header.e_ident, ELFMAG, SELFMAG);
      header.e_ident[EI_CLASS] = ELFCLASS64;
      header.e_ident[EI_DATA] = ELFDATA2LSB;
      header.e_type = ET_REL;
      header.e_machine = EM_X86_64;
      header.e_shoff = sections_at;
      header.e_shentsize = sizeof(Elf64_Shdr);
      header.e_shnum = 6;
    });
  }
  void edit_section(size_t index, const std::function<void(Elf64_Shdr&)>& change) {
    edit<Elf64_Shdr>(sections_at + index * sizeof(Elf64_Shdr), change);
  }
  void edit_symbol(size_t index, const std::function<void(Elf64_Sym&)>& change) {
    edit<Elf64_Sym>(symbols_at + index * sizeof(Elf64_Sym), change);
  }
  void edit_relocation(size_t index, const std::function<void(Elf64_Rela&)>& change) {
    edit<Elf64_Rela>(relocations_at + index * sizeof(Elf64_Rela), change);
  }
};

int outside() { return 1234; }

void* lookup(std::string_view name) {
  return name == "outside" ? reinterpret_cast<void*>(&outside) : nullptr;
}

LoadedObject load(const std::vector<uint8_t>& bytes) {
  return LoadedObject(bytes, lookup, ElfMachine::X86_64);
}

std::string problem(const std::vector<uint8_t>& bytes) {
  try {
    load(bytes);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Device);
    return error.what();
  }
  return "loaded";
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// True if loading ends as it should: well, or with an Error.
bool survives(const std::vector<uint8_t>& bytes) {
  try {
    load(bytes);
  } catch (const Error&) {}
  return true;
}

// The maps of this process; none may be writable and executable.
size_t count_maps() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line); ++count)
    CHECK(line.find(" rwx") == std::string::npos);
  return count;
}

// Objects that stay loaded, a part of which is replaced: the maps do not grow with them.
void load_many(size_t count) {
  const std::vector<uint8_t> bytes = TinyObject().bytes;
  const size_t maps = count_maps(), regions = code_regions();
  {
    std::vector<std::optional<LoadedObject>> all;
    for (size_t i = 0; i < count; ++i) all.emplace_back(load(bytes));
    CHECK(count_maps() < maps + 64 + count / 500);
    std::mt19937 random(7);
    for (size_t i = 0; i < count; ++i) {
      std::optional<LoadedObject>& one = all[random() % count];
      if (one)
        one.reset();
      else
        one.emplace(load(bytes));
    }
    CHECK(count_maps() < maps + 64 + count / 500);
#if defined(__x86_64__)
    for (const auto& one : all)
      if (one) REQUIRE(one->function<int()>("answer")() + one->function<int()>("call")() == 1276);
#endif
  }
  CHECK(code_regions() == regions);
  MESSAGE(count, " objects loaded at once, ", count, " times replaced or unloaded");
}

}  // namespace

TEST_SUITE("elf") {
  TEST_CASE("objects that are loaded share few memory maps") { load_many(5'000); }

  TEST_CASE("more objects than a process has memory maps" * doctest::test_suite("soak")) {
    load_many(70'000);
  }

  TEST_CASE("a good object runs, moves and unloads") {
    LoadedObject object = load(TinyObject().bytes);
    CHECK(object.mapped_bytes() > 0);
    LoadedObject moved = std::move(object);
#if defined(__x86_64__)
    CHECK(moved.function<int()>("answer")() == 42);
    CHECK(moved.function<int()>("call")() == 1234);
#endif
    CHECK_THROWS_AS(moved.symbol("missing"), Error);
    CHECK_THROWS_AS(moved.symbol("outside"), Error);
    moved = load(TinyObject().bytes);
    CHECK(moved.symbol("call") != nullptr);
  }

  TEST_CASE("what is not supported or damaged is named") {
    const auto edited = [](auto change) {
      TinyObject object;
      change(object);
      return problem(object.bytes);
    };
    using T = TinyObject&;
    CHECK(edited([](T) {}) == "loaded");
    CHECK(holds(problem({}), "outside"));
    CHECK(holds(problem(std::vector<uint8_t>(100)), "not an ELF"));
    CHECK(holds(edited([](T o) { o.bytes[EI_CLASS] = ELFCLASS32; }), "64-bit"));
    CHECK(holds(edited([](T o) { o.bytes[16] = ET_DYN; }), "not a relocatable"));
    CHECK(holds(edited([](T o) { o.bytes[18] = EM_ARM; }), "for machine 40"));
    CHECK(holds(edited([](T o) { o.edit_symbol(4, [](auto& s) { s.st_name = 1; }); }),
                "unknown symbol answer"));
    CHECK(holds(edited([](T o) { o.edit_symbol(2, [](auto& s) { s.st_shndx = SHN_COMMON; }); }),
                "common"));
    CHECK(holds(edited([](T o) { o.edit_symbol(2, [](auto& s) { s.st_value = 99; }); }),
                "outside its section"));
    CHECK(holds(edited([](T o) { o.edit_symbol(2, [](auto& s) { s.st_info = STT_TLS; }); }),
                "thread-local"));
    CHECK(holds(edited([](T o) { o.edit_section(2, [](auto& s) { s.sh_flags |= SHF_TLS; }); }),
                "thread-local"));
    CHECK(holds(edited([](T o) { o.edit_section(2, [](auto& s) { s.sh_type = SHT_INIT_ARRAY; }); }),
                "constructors"));
    CHECK(holds(edited([](T o) { o.edit_section(2, [](auto& s) { s.sh_addralign = 3; }); }),
                "alignment 3"));
    CHECK(holds(edited([](T o) {
                  o.edit_section(2, [](auto& s) { s.sh_type = SHT_NOBITS, s.sh_size = ~0ull; });
                }),
                "section of"));
    CHECK(holds(edited([](T o) { o.edit_section(2, [](auto& s) { s.sh_offset = ~0ull - 2; }); }),
                "outside"));
    CHECK(holds(edited([](T o) { o.edit_section(2, [](auto& s) { s.sh_flags = 0; }); }),
                "not loaded"));
    CHECK(holds(edited([](T o) { o.edit_section(3, [](auto& s) { s.sh_link = 77; }); }),
                "string table"));
    CHECK(holds(edited([](T o) { o.edit_section(5, [](auto& s) { s.sh_type = SHT_REL; }); }),
                "addends"));
    CHECK(holds(edited([](T o) { o.edit_relocation(0, [](auto& r) { r.r_offset = 13; }); }),
                "outside its section"));
    CHECK(holds(
        edited([](T o) { o.edit_relocation(0, [](auto& r) { r.r_info = ELF64_R_INFO(9, 2); }); }),
        "symbol 9"));
    CHECK(holds(
        edited([](T o) { o.edit_relocation(0, [](auto& r) { r.r_info = ELF64_R_INFO(1, 200); }); }),
        "type 200"));
    CHECK(holds(edited([](T o) { o.edit_relocation(0, [](auto& r) { r.r_addend = 1ll << 40; }); }),
                "does not fit"));
  }

  TEST_CASE("no cut and no change of bytes makes loading crash") {
    const std::vector<uint8_t> good = TinyObject().bytes;
    for (size_t size = 0; size < good.size(); ++size)
      REQUIRE(survives(
          std::vector<uint8_t>(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))));
    for (size_t at = 0; at < good.size(); ++at)
      for (int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
        auto bytes = good;
        bytes[at] = static_cast<uint8_t>(value);
        REQUIRE(survives(bytes));
      }
    std::mt19937 random(1);
    for (int round = 0; round < 20000; ++round) {
      auto bytes = good;
      for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n)
        bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
      REQUIRE(survives(bytes));
    }
  }

  TEST_CASE("AArch64 relocations write the right bits") {
    alignas(4096) static uint8_t page[8192];
    const auto at = reinterpret_cast<uint64_t>(page);
    const auto relocate = [](ElfMachine machine, uint32_t type, uint8_t* place, uint64_t target,
                             int64_t addend) {
      return find_relocation(machine, type)->write(place, target + static_cast<uint64_t>(addend));
    };
    const auto word_after = [&](uint32_t type, uint32_t before, uint64_t target, int64_t addend) {
      std::memcpy(page + 8, &before, 4);
      REQUIRE(relocate(ElfMachine::AArch64, type, page + 8, target, addend));
      uint32_t word = 0;
      std::memcpy(&word, page + 8, 4);
      return word;
    };
    CHECK(word_after(R_AARCH64_CALL26, 0x94000000, at + 8 + 64, 0) == 0x94000010);
    CHECK(word_after(R_AARCH64_JUMP26, 0x14000000, at + 4, 0) == 0x17ffffff);
    CHECK(word_after(R_AARCH64_ADR_PREL_PG_HI21, 0x90000000, at + 4096, 0) == 0xb0000000);
    CHECK(word_after(R_AARCH64_ADR_PREL_PG_HI21, 0x90000000, at + 4 * 4096 + 5, 0) == 0x90000020);
    CHECK(word_after(R_AARCH64_ADD_ABS_LO12_NC, 0x91000000, at + 0x123, 4) ==
          (0x91000000 | 0x127 << 10));
    CHECK(word_after(R_AARCH64_LDST64_ABS_LO12_NC, 0xf9400000, at + 0x120, 0) ==
          (0xf9400000 | 0x24 << 10));
    CHECK(word_after(R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00000, at + 0x120, 0) ==
          (0x3dc00000 | 0x12 << 10));
    CHECK(!relocate(ElfMachine::AArch64, R_AARCH64_CALL26, page, at + (1ull << 28), 0));
    CHECK(!relocate(ElfMachine::AArch64, R_AARCH64_LDST64_ABS_LO12_NC, page, at + 4, 0));
    uint64_t word = 0;
    CHECK(relocate(ElfMachine::AArch64, R_AARCH64_ABS64, page, at, 16));
    std::memcpy(&word, page, 8);
    CHECK(word == at + 16);
  }

  TEST_CASE("what LLVM emits survives random damage too") {
    if (!llvm_available()) return;
    const std::vector<uint8_t> good = llvm_compile(
        "@t = private constant [2 x double] [double 1.5, double 2.5]\n"
        "@g = internal global [100 x i64] zeroinitializer\n"
        "declare double @fmod(double, double)\n"
        "define double @f(i64 %i, double %x) {\n"
        "  %p = getelementptr double, ptr @t, i64 %i\n  %v = load double, ptr %p\n"
        "  %q = getelementptr i64, ptr @g, i64 %i\n  store i64 %i, ptr %q\n"
        "  %r = call double @fmod(double %x, double %v)\n  %s = fadd double %r, 3.25\n  ret double "
        "%s\n}\n",
        host_cpu_target());
    std::mt19937 random(2);
    for (int round = 0; round < 5000; ++round) {
      auto bytes = good;
      for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n)
        bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
      try {
        LoadedObject object(bytes);
      } catch (const Error&) {}
    }
  }
}
