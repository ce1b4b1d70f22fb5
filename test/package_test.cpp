// What users of the library meet: it is found and built against in each of the ways that
// docs/install.md names (CI has the one that builds the sources again), what its header costs a
// compiler, and its size.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "test/process.h"
#include "test_paths.h"

using namespace mote;

namespace {

// With sanitizers users would need them too, and nothing could be said of size.
#ifdef NDEBUG
constexpr bool is_release = true;
#else
constexpr bool is_release = false;
#endif

void check_consumer(const std::string& program) {
  Ran ran = run(program);
  CHECK(ran.status == 0);
  CHECK(has(ran, "sum 15\n[matmul] "));
}

void use_cmake(const std::string& folder, const std::string& mote_dir) {
  Ran built = run(MOTE_CMAKE " -G Ninja -S " MOTE_SOURCE_DIR "/test/consumer -B " + folder +
                  " -DCMAKE_CXX_COMPILER=" MOTE_CXX " -DCMAKE_PREFIX_PATH=" + mote_dir + " && " +
                  MOTE_CMAKE " --build " + folder);
  REQUIRE_MESSAGE(built.status == 0, built.output);
  check_consumer(folder + "/consumer");
}

void use_pkg_config(const std::string& program, const std::string& pc_dir) {
  const std::string flags = "$(PKG_CONFIG_PATH=" + pc_dir + " pkg-config --cflags --libs mote)";
  Ran built = run(MOTE_CXX " -std=c++20 " MOTE_SOURCE_DIR "/test/consumer/main.cpp -o " + program +
                  " " + flags);
  REQUIRE_MESSAGE(built.status == 0, built.output);
  check_consumer(program);
}

// Of the children waited for so far.
double seconds_of_children() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// A file that includes the headers named, and what a compiler makes of it.
struct Including {
  std::string file;
  double seconds = 1e9;  // of the fastest compilation so far

  Including(std::string path, const std::vector<std::string>& headers) : file(std::move(path)) {
    std::ofstream out(file);
    for (const std::string& header : headers) out << "#include <" << header << ">\n";
  }
  std::string compile(const std::string& options) const {
    Ran ran = run(MOTE_CXX " -std=c++20 -I" MOTE_SOURCE_DIR "/include " + options + " " + file);
    REQUIRE_MESSAGE(ran.status == 0, ran.output);
    return ran.output;
  }
  void time() {
    const double before = seconds_of_children();
    compile("-fsyntax-only");
    seconds = std::min(seconds, seconds_of_children() - before);
  }
  double lines() const {
    const std::string text = compile("-E -P");
    return static_cast<double>(std::count(text.begin(), text.end(), '\n'));
  }
};

}  // namespace

TEST_SUITE("package") {
  TEST_CASE("package: CMake and pkg-config find the build tree" * doctest::skip(!is_release)) {
    Folder folder;
    use_cmake(folder / "consumer", MOTE_BINARY_DIR);
    if (run("command -v pkg-config").status == 0)
      use_pkg_config(folder / "program", MOTE_BINARY_DIR);
    else
      MESSAGE("skipped: there is no pkg-config");
  }

  TEST_CASE("package: CMake and pkg-config find what is installed, wherever it is moved" *
            doctest::skip(!is_release)) {
    Folder folder;
    Ran installed = run(MOTE_CMAKE " --install " MOTE_BINARY_DIR " --prefix " + (folder / "first"));
    REQUIRE_MESSAGE(installed.status == 0, installed.output);
    const std::string prefix = folder / "moved";
    std::filesystem::rename(folder / "first", prefix);
    CHECK(has(run(prefix + "/bin/mote version"), "mote "));
    use_cmake(folder / "consumer", prefix);
    if (run("command -v pkg-config").status == 0)
      use_pkg_config(folder / "program", prefix + "/" MOTE_LIBDIR "/pkgconfig");
  }

  TEST_CASE("package: mote.h costs at most half as much again as <string> and <vector>" *
            doctest::skip(!is_release)) {
    Folder folder;
    Including std_alone(folder / "std.cpp", {"string", "vector"});
    Including mote(folder / "mote.cpp", {"mote/mote.h"});
    double time = 0;  // with more rounds where others keep the machine busy
    for (int round = 0; round < 5 || (round < 20 && time > 1.5); ++round) {
      std_alone.time();
      mote.time();
      time = mote.seconds / std_alone.seconds;
    }
    const double lines = mote.lines() / std_alone.lines();
    MESSAGE("mote.h costs ", time, " x in time (", mote.seconds, " s), ", lines, " x in lines");
    CHECK(time <= 1.5);
    CHECK(lines <= 1.25);  // tells exactly when a header of std slips in
  }

  TEST_CASE("jit: an argument that cannot be walked does not compile, and the compiler says why") {
    Folder folder;
    auto compiled = [&](const std::string& use) {
      std::ofstream(folder / "use.cpp") << "#include <mote/jit.h>\nstruct Plain {};\n"
                                        << use << "\n";
      return run(MOTE_CXX " -std=c++20 -fsyntax-only -I" MOTE_SOURCE_DIR "/include " +
                 (folder / "use.cpp"));
    };
    Ran number = compiled("void use() { mote::jit([](float) {})(0.5f); }");
    CHECK(number.status != 0);
    CHECK(has(number, "a jit takes no numbers"));
    CHECK(has(number, "pass a tensor"));
    CHECK(number.output.find("MOTE_FIELDS") == std::string::npos);
    Ran plain = compiled("void use() { mote::jit([](Plain) {})(Plain()); }");
    CHECK(plain.status != 0);
    CHECK(has(plain, "mote cannot find tensors in this type"));
  }

  TEST_CASE("package: an old compiler or standard is told what is needed") {
    Folder folder;
    std::ofstream(folder / "use.cpp") << "#include <mote/mote.h>\n";
    const std::string use = " -fsyntax-only -I" MOTE_SOURCE_DIR "/include " + (folder / "use.cpp");
    Ran standard = run(MOTE_CXX " -std=c++17" + use);
    CHECK(standard.status != 0);
    const std::string first = standard.output.substr(0, standard.output.find("error: ") + 200);
    CHECK(has(Ran{0, first}, "mote needs C++20: compile with -std=c++20 or a later standard"));
    if (run("clang++ --version | grep -qE 'version 1[0-5]'").status == 0) {
      Ran old = run("clang++ -std=c++20" + use);
      CHECK(old.status != 0);
      CHECK(has(old, "mote needs clang 16 or newer"));
    }
    if (run("command -v clang++-16").status == 0)
      CHECK(run("clang++-16 -std=c++20 -Wall -Wextra -Werror" + use).output == "");
  }

  // Configured only: what would be compiled, and how.
  TEST_CASE(
      "package: tests are built on request, a release is hardened, an embedded library fast") {
    Folder folder;
    auto commands = [&](const std::string& source, const std::string& options) {
      const std::string at = folder / "build";
      std::filesystem::remove_all(at);
      Ran ran = run(MOTE_CMAKE " -G Ninja -S " + source + " -B " + at + " -DCMAKE_CXX_COMPILER=" +
                    MOTE_CXX " " + options + " >/dev/null && ninja -C " + at + " -t commands all");
      REQUIRE_MESSAGE(ran.status == 0, ran.output);
      return ran;
    };
    Ran top = commands(MOTE_SOURCE_DIR, "");
    CHECK(top.output.find("_test.cpp") == std::string::npos);
    CHECK(has(top, "src/cli/main.cpp"));
    for (const char* flag : {" -O2 ", " -fstack-protector-strong ", " -D_FORTIFY_SOURCE=2 ",
                             " -fPIC ", ",now", ",relro"})
      CHECK_MESSAGE(top.output.find(flag) != std::string::npos, flag);
    Ran part = commands(MOTE_SOURCE_DIR "/test/consumer", "-DMOTE_SOURCE=" MOTE_SOURCE_DIR);
    std::istringstream lines(part.output);
    int files = 0;
    for (std::string line; std::getline(lines, line);) {
      const bool ours =
          line.find("-c " MOTE_SOURCE_DIR "/src/tensor/core.cpp") != std::string::npos;
      const bool theirs =
          line.find("-c " MOTE_SOURCE_DIR "/test/consumer/main.cpp") != std::string::npos;
      files += ours || theirs;
      if (ours) CHECK(line.find(" -O2 ") != std::string::npos);
      if (theirs) CHECK(line.find(" -O2 ") == std::string::npos);
    }
    CHECK(files == 2);
    CHECK(part.output.find("src/cli") == std::string::npos);
  }

  // As a shared library, or all of it in a program: an archive has tables for the linker besides.
  TEST_CASE("package: the library without symbols has at most 5 MB" * doctest::skip(!is_release)) {
    Folder folder;
    const std::string stripped = folder / "stripped", library = MOTE_LIBRARY;
    Ran ran = library.ends_with(".a")
                  ? run(MOTE_CXX " -std=c++20 -I" MOTE_SOURCE_DIR "/include " MOTE_SOURCE_DIR
                                 "/test/consumer/main.cpp -Wl,--whole-archive " +
                        library + " -Wl,--no-whole-archive -s -o " + stripped)
                  : run("strip -o " + stripped + " " + library);
    REQUIRE_MESSAGE(ran.status == 0, ran.output);
    const double megabytes = static_cast<double>(std::filesystem::file_size(stripped)) / 1e6;
    MESSAGE("the library without symbols has ", megabytes, " MB");
    CHECK(megabytes <= 5);
  }
}
