// The library's life in a process: computing before main, after it and in ending threads, and as a
// part of a plugin that is closed.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "test/process.h"

using namespace mote;

namespace {

#ifdef NDEBUG
constexpr bool is_release = true;
#else
constexpr bool is_release = false;  // sanitizers would have to be linked into the programs as well
#endif

void build(const std::string& source, const std::string& out, const std::string& options) {
  const std::string library = MOTE_LIBRARY;
  Ran built = run(MOTE_CXX " -std=c++20 -O1 " + options +
                  " -I" MOTE_SOURCE_DIR "/include " MOTE_SOURCE_DIR "/test/lifetime/" + source +
                  " " + library + " -lpthread -ldl -o " + out);
  REQUIRE_MESSAGE(built.status == 0, built.output);
}

// Sum of 0 ... n-1 twice, and once.
std::string line(const std::string& when, int n) {
  const int sum = n * (n - 1) / 2;
  return when + ": " + std::to_string(2 * sum) + " " + std::to_string(sum) + "\n";
}

void check_lines(const Ran& ran) {
  CHECK(ran.status == 0);
  CHECK(has(ran, line("static constructor", 32)));
  CHECK(has(ran, line("main", 35)));
  CHECK(has(ran, line("thread", 37)));
  CHECK(has(ran, line("end of a thread", 36)));
  CHECK(has(ran, line("end of a thread", 39)));
  CHECK(has(ran, line("atexit", 34)));
  CHECK(has(ran, line("atexit, last registered", 40)));
  CHECK(has(ran, line("local static", 38)));
  CHECK(has(ran, line("static destructor", 31) + "static destructor, kept: 15.5\n"));
}

}  // namespace

TEST_CASE("in a child: plugin" * doctest::skip()) {
  const std::string path = std::getenv("PLUGIN");
  for (int round = 1; round <= 3; ++round) {
    void* plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(plugin, dlerror());
    auto* sum = reinterpret_cast<double (*)(int)>(dlsym(plugin, "plugin_sum"));
    REQUIRE((sum != nullptr));
    const int n = 1000 * round;  // a kernel that is new, and large enough for all threads
    CHECK(sum(n) == static_cast<double>(n) * n);
    REQUIRE(dlclose(plugin) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // workers look for work, sleep
    std::fflush(nullptr);
    if (fork() == 0) _exit(0);  // fork handlers run
  }
  std::printf("result: closed\n");
}

TEST_SUITE("environment") {
  TEST_CASE("environment: values computed before main, at exit and in ending threads" *
            doctest::skip(!is_release)) {
    Folder folder;
    const std::string program = folder / "program";
    build("program.cpp", program, "");
    const std::string cache = " MOTE_CACHE_DIR=" + (folder / "cache") + " ";
    check_lines(run("env" + cache + program));
    check_lines(run("env" + cache + program));  // from the cache
    check_lines(run("env MOTE_CACHE=0 MOTE_DEV=INTERP " + program));
    Ran alone = run("env MOTE_CACHE=0 PATH=/nonexistent " + program);  // without a C compiler
    CHECK(has(alone, line("main", 35)));
    CHECK((alone.status == 0 || has(alone, "cannot be compiled while the program ends")));
  }

  TEST_CASE("environment: a plugin with the library inside is opened, used and closed" *
            doctest::skip(!is_release)) {
    Folder folder;
    const std::string plugin = folder / "plugin.so";
    build("plugin.cpp", plugin, "-shared -fPIC");
    Ran ran = run_self("MOTE_THREADS=4 MOTE_CACHE=0 PLUGIN=" + plugin, "in a child: plugin");
    CHECK(ran.status == 0);
    CHECK(has(ran, "result: closed"));
  }

  TEST_CASE("environment: the library destroys nothing at exit and makes its own first at load" *
            doctest::skip(!is_release)) {
    const std::string library = MOTE_LIBRARY;
    if (!library.ends_with(".a")) return;
    Ran symbols = run("nm -A " + library + " 2>/dev/null | grep -w __cxa_atexit");
    CHECK_MESSAGE(symbols.output == "", symbols.output);
    Ran made = run("nm -A " + library + " 2>/dev/null | grep ' _GLOBAL__sub_I_'");
    CHECK_MESSAGE(made.output == "", made.output);
    Ran threads = run("nm -A " + library +
                      " 2>/dev/null | grep -w __cxa_thread_atexit | grep -v lifetime.cpp");
    CHECK_MESSAGE(threads.output == "", threads.output);
  }
}
