// What shows only in a process of its own: the environment, the compile cache between runs.
#include "test/process.h"

#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/flags.h"
#include "engine/profile.h"
#include "engine/realize.h"
#include "runtime/disk_cache.h"

using namespace mote;
namespace fs = std::filesystem;

namespace {

size_t times(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; ++at) ++n;
  return n;
}

const char* const no_compilers = "PATH=/nonexistent MOTE_LIBLLVM=/nonexistent";

}  // namespace

// Two kernels, and what the compile cache did for them.
TEST_CASE("in a child: compile" * doctest::skip()) {
  Tensor x = arange(Number(1000), {.dtype = DType::f32});
  float product = x.reshape({10, 100}).matmul(x.reshape({100, 10})).max().item<float>();
  DiskCache::Counts c = compile_cache().counts();
  std::printf("product %.0f, %d made, hits %d misses %d writes %d corrupt %d failed %d\n",
              static_cast<double>(product), static_cast<int>(engine_counts().kernels_compiled),
              static_cast<int>(c.hits), static_cast<int>(c.misses), static_cast<int>(c.writes),
              static_cast<int>(c.corrupt), static_cast<int>(c.failed_writes));
}

// With what kernels say of the program's lines. Whether LLVM was loaded comes last.
TEST_CASE("in a child: from the cache" * doctest::skip()) {
  FlagScope on(Flag::PROFILE, 1);
  const Tensor x = arange(Number(1000), {.dtype = DType::f32});
  const float product = x.reshape({10, 100}).matmul(x.reshape({100, 10})).max().item<float>();
  std::printf("product %.0f\n", static_cast<double>(product));
  std::istringstream table(profile_text());
  clear_profile();
  for (std::string line; std::getline(table, line);)
    if (line.find("process_test.cpp:") != line.npos)
      std::printf("kernel %s\n", line.substr(line.rfind("  ")).c_str());
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  std::printf("LLVM %s\n", all.find("libLLVM") == all.npos ? "is not there" : "is loaded");
}

TEST_CASE("in a child: add on the CPU" * doctest::skip()) {
  try {
    Tensor t = ones({2}) + 1;
    t.realize();
    std::printf("ran: %s on %s\n", t.to_string().c_str(), t.device().c_str());
  } catch (const Error& e) {
    std::printf("%s: %s\n", e.kind() == ErrorKind::Device ? "device error" : "error", e.what());
  }
}

TEST_SUITE("processes") {
  TEST_CASE("a second process compiles nothing; bad entries are set aside and made again") {
    Folder folder;
    const std::string settings = "MOTE_CC=0 MOTE_CACHE_DIR=" + (folder.path / "cache").string();
    Ran first = run_self(settings, "in a child: compile");
    REQUIRE(first.status == 0);
    REQUIRE(has(first, "hits 0 misses 2 writes 2 corrupt 0 failed 0"));
    Ran second = run_self(settings, "in a child: compile");
    CHECK(has(second, "hits 2 misses 0 writes 0 corrupt 0 failed 0"));
    const std::string product = first.output.substr(first.output.find("product"), 16);
    CHECK(has(second, product));

    fs::path spoiled;
    for (const auto& entry : fs::directory_iterator(folder.path / "cache"))
      if (entry.path().extension() != ".tsv") spoiled = entry.path();
    std::fstream file(spoiled, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(spoiled)) - 20);
    file.write("rubbish", 7);
    file.close();
    Ran third = run_self(settings, "in a child: compile");
    CHECK(has(third, "hits 1 misses 1 writes 1 corrupt 1 failed 0"));
    CHECK(has(third, product));
    CHECK(has(third, "bad compile-cache entry set aside as " + spoiled.string() + ".corrupt"));
    CHECK(fs::exists(spoiled.string() + ".corrupt"));
    CHECK(has(run_self(settings, "in a child: compile"), "hits 2 misses 0"));
  }

  TEST_CASE("a program that ran before plans nothing and needs no LLVM") {
    Folder folder;
    const std::string settings =
        "MOTE_SPEC=0 MOTE_CC=0 MOTE_CACHE_DIR=" + (folder.path / "cache").string();
    auto part = [](const Ran& ran) {
      REQUIRE(ran.status == 0);
      const size_t begin = ran.output.find("product");
      return ran.output.substr(begin, ran.output.find("LLVM ") - begin);
    };
    const Ran first = run_self(settings, "in a child: from the cache");
    CHECK(has(first, "LLVM is loaded"));
    CHECK(times(first.output, "process_test.cpp:") >= 1);
    const Ran second = run_self(settings, "in a child: from the cache");
    CHECK(has(second, "LLVM is not there"));
    CHECK(part(second) == part(first));
    // Other kernels: the library is needed after all.
    CHECK(
        has(run_self(settings + " MOTE_NOOPT=1", "in a child: from the cache"), "LLVM is loaded"));
  }

  TEST_CASE("a folder that cannot be written means no cache and one warning") {
    Ran ran = run_self("MOTE_CACHE_DIR=/proc/mote", "in a child: compile");
    CHECK(ran.status == 0);
    CHECK(has(ran, "hits 0 misses 0 writes 0 corrupt 0 failed 0"));
    CHECK(times(ran.output, "no compile cache: cannot make folder /proc/mote") == 1);
    Ran off = run_self("MOTE_CACHE=0 MOTE_CACHE_DIR=/proc/mote", "in a child: compile");
    CHECK(off.status == 0);
    CHECK(times(off.output, "no compile cache") == 0);
  }

  TEST_CASE("without LLVM the C compiler serves; without both the error names the packages") {
    Ran c = run_self("MOTE_CACHE=0 MOTE_LIBLLVM=/nonexistent", "in a child: add on the CPU");
    CHECK(has(c, "ran: [2. 2.] on CPU"));
    CHECK(times(c.output, "mote: warning: MOTE_LIBLLVM=/nonexistent is not used: LLVM 19 not") ==
          1);
    Ran none = run_self(no_compilers, "in a child: add on the CPU");
    CHECK(has(none,
              "device error: [device] CPU is not available: LLVM 19 not found (tried only "
              "LIBLLVM=/nonexistent): install libllvm19; no C compiler (cc, gcc or clang) on "
              "PATH: install g++ (or libllvm19, which needs no C compiler) (" __FILE__ ":"));
  }

  TEST_CASE("a C compiler that does not run is named") {
    Folder folder;
    fs::path broken = folder.path / "cc";
    std::ofstream(broken) << "#!/bin/sh\nexit 3\n";
    fs::permissions(broken, fs::perms::owner_all);
    Ran ran = run_self("PATH=" + folder.path.string() + " MOTE_LIBLLVM=/nonexistent",
                       "in a child: add on the CPU");
    CHECK(has(ran, "the C compiler " + broken.string() + " does not run (--version fails)"));
  }

  TEST_CASE("DEV names the device of new tensors") {
    CHECK(has(run_self("MOTE_DEV=INTERP", "in a child: add on the CPU"), "ran: [2. 2.] on INTERP"));
    CHECK(has(run_self("MOTE_DEV=NOSUCH", "in a child: add on the CPU"),
              "there is no device NOSUCH; there are"));
  }
}
