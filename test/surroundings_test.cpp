// What surrounds a process: closed and full outputs, readers that go away, limits of memory,
// environments with little or nothing in them, umask, settings out of range or misspelt.
#include <doctest/doctest.h>
#include <mote/mote.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include "base/flags.h"
#include "test/error_of.h"
#include "test/process.h"

using namespace mote;
namespace fs = std::filesystem;

namespace {

// A training run of a fraction of a second.
std::string small_run(const Folder& folder) {
  const std::string path = folder / "text.txt";
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 4000) text += "abcdefgh \n"[random() % 10];
  std::ofstream(path) << text;
  return "train gpt --data " + path +
         " --layers 1 --heads 1 --width 8 --context 8 --batch 4 --steps 5 --out " + (folder / "m");
}

// Trains within so much address space: it works, or says what is missing.
void train_within(int megabytes) {
  Folder folder;
  Ran ran = run("ulimit -v " + std::to_string(megabytes << 10) + "; MOTE_CACHE=0 " +
                MOTE_BINARY_DIR "/mote " + small_run(folder));
  INFO(megabytes, " MB: ", ran.output);
  CHECK(ran.status < 128);  // no signal
  const bool said = ran.output.find("memory") != std::string::npos ||
                    ran.output.find("[c_compiler]") != std::string::npos;  // which has none either
  CHECK((ran.status == 0 || said));
  CHECK(ran.output.find("std::bad_alloc") == std::string::npos);
}

// Trains with these options of env; CLOSED is a folder that cannot be written.
void train_with(std::string options) {
  Folder folder;
  const fs::path closed = folder.path / "closed";
  fs::create_directory(closed);
  fs::permissions(closed, fs::perms::owner_read | fs::perms::owner_exec);
  for (size_t at; (at = options.find("CLOSED")) != options.npos;)
    options.replace(at, 6, closed.string());
  Ran ran = run("cd " + folder.path.string() + " && env " + options + " " MOTE_BINARY_DIR "/mote " +
                small_run(folder));
  CHECK_MESSAGE(ran.status == 0, options, ": ", ran.output);
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

void train_masked(const std::string& mask) {
  Folder folder;
  const std::string settings =
      "umask " + mask + "; env MOTE_CACHE_DIR=" + (folder / "cache") + " " MOTE_BINARY_DIR "/mote ";
  Ran made = run(settings + small_run(folder));
  CHECK_MESSAGE(made.status == 0, mask, made.output);
  CHECK(mode_of(folder / "cache") == 0700);
  for (const auto& entry : fs::directory_iterator(folder / "cache"))
    CHECK(mode_of(entry.path()) == 0600);
  Ran again = run(settings + "train gpt --steps 7 --resume " + (folder / "m"));
  CHECK_MESSAGE(again.status == 0, mask, again.output);
  CHECK(again.output.find("no compile cache") == std::string::npos);
}

}  // namespace

TEST_SUITE("environment") {
  TEST_CASE("environment: a closed or full output is an error with a message, and loses no work") {
    Folder folder;
    const std::string mote = MOTE_BINARY_DIR "/mote ";
    Ran closed = run(mote + "version >&-");
    CHECK(closed.status == 1);
    CHECK(has(closed, "[version] the output cannot be written: Bad file descriptor"));
    Ran full = run(mote + "version >/dev/full");
    CHECK(full.status == 1);
    CHECK(has(full, "[version] the output cannot be written: No space left on device"));
    Ran early = run(mote + "help train >/dev/full");
    CHECK(early.status == 1);
    CHECK(run(mote + "version <&- 2>&- >&-").status == 1);
    CHECK(run(mote + "version <&- 2>&-").status == 0);

    // No file that is opened becomes the standard output.
    Ran trained = run("env MOTE_CACHE_DIR=" + (folder / "cache") + " " + mote + small_run(folder) +
                      " <&- >&- 2>&-");
    CHECK(trained.status == 1);
    CHECK(fs::exists(folder / "m"));
    CHECK(has(run_mote("info " + (folder / "m")), "safetensors"));
    CHECK(run("grep -rl 'saved as' " + (folder / "cache") + " " + (folder / "m")).output == "");
  }

  TEST_CASE("environment: a reader that goes away ends printing, not training") {
    Folder folder;
    const std::string mote = MOTE_BINARY_DIR "/mote ", status = "; echo status ${PIPESTATUS[0]}";
    Ran shown = run("bash -c '" + mote + "flags | head -n 1" + status + "'");
    CHECK(shown.output.find("cannot be written") == std::string::npos);
    Ran trained = run("bash -c '" + mote + small_run(folder) + " 2>&1 | true" + status + "'");
    CHECK(has(trained, "status 1"));
    CHECK(fs::exists(folder / "m"));
  }

  TEST_CASE("environment: settings out of range, and names that nobody reads") {
    CHECK(has(run_mote("devices", "THREADS=4294967297"),
              "[flags] THREADS=4294967297: expected a whole number from 0 to 1024"));
    CHECK(has(run_mote("devices", "MOTE_THREADS=-1"), "expected a whole number from 0 to 1024"));
    CHECK(
        has(run_mote("devices", "MOTE_CACHE_MB=9223372036854775807"), "a whole number from 0 to"));
    CHECK(has(run_mote("devices", "MOTE_NOOPT=2"), "[flags] NOOPT=2: expected 0 or 1"));
    CHECK(has(run_mote("devices", "MOTE_DEBUG=1e1"), "[flags] DEBUG=1e1: expected"));
    Ran near = run_mote("devices", "MOTE_DEBG=1");
    CHECK(near.status == 0);
    CHECK(has(near, "mote: warning: MOTE_DEBG is not a setting of mote; did you mean MOTE_DEBUG?\n"));
    CHECK(near.output.find("warning") == near.output.rfind("warning"));
    CHECK(has(run_mote("devices", "MOTE_QUUX=1"),
              "mote: warning: MOTE_QUUX is not a setting of mote\n"));
    Ran known = run_mote("devices", "MOTE_CMAKE_ARGS=x MOTE_TEST_SCALE=1 MOTE_SOAK=1 MOTE_DEBUG=0");
    CHECK(known.output.find("warning") == std::string::npos);
    // Every number has an end, and it is checked in code as well.
    for (const FlagText& flag : flag_texts())
      if (flag.value == "0" || flag.value == "1024")
        CHECK(has(run_mote("devices", "MOTE_" + flag.name + "=18446744073709551617"), "[flags] "));
    CHECK(error_of([] { FlagScope threads(Flag::THREADS, 1025); }).find("0 to 1024") !=
          std::string::npos);
  }
}

// ---- memory

TEST_CASE("in a child: too much then less" * doctest::skip()) {
  Tensor small = (full({1000}, 2.0) * 3).realize();  // what it takes to compute at all
  struct rlimit limit {};
  getrlimit(RLIMIT_AS, &limit);
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  auto tell = [](const char* what, const std::string& text) {
    std::printf("%s: %s\n", what, text.c_str());
  };
  const int64_t large = int64_t{100} << 20;
  tell("tensor", error_of([&] { full({large}, 1.0).contiguous().realize(); }));
  tell("values", error_of([&] { full({large}, 1.0).to_vector<double>(); }));
  tell("interpreter",
       error_of([&] { full({large}, 1.0, {.device = "INTERP"}).contiguous().realize(); }));
  tell("smaller", std::to_string((full({1000}, 2.0) * 3).sum().item<float>() == 6000));
  tell("new kernel", error_of([] { (full({1003}, 2.0) * 3).sum().item<float>(); }));
}

TEST_SUITE("environment") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which map terabytes
  TEST_CASE("environment: without memory an error says what was asked, and smaller work goes on") {
    Ran ran = run_self("MOTE_SPEC=0", "in a child: too much then less");
    CHECK(ran.status == 0);
    CHECK(has(ran, "tensor: [realize] out of memory on CPU: the system has no 419430400 bytes"));
    CHECK(has(ran, "values: [to_vector] out of memory"));
    CHECK(has(ran, "interpreter: [realize] out of memory"));
    CHECK(has(ran, "smaller: 1"));
    CHECK(has(ran, "new kernel: no error"));
    for (int megabytes : {20, 30}) train_within(megabytes);
  }
#endif

  // ---- environments and folders

  TEST_CASE("environment: nothing set, no home, nothing writable: computing goes on") {
    train_with("-i HOME=CLOSED/no TMPDIR=CLOSED");
  }

  TEST_CASE("environment: whatever the umask, the cache is private and files can be read again") {
    train_masked("000");
    train_masked("0777");
  }
}

TEST_SUITE("soak") {
  TEST_CASE("environment: limits of memory, umasks and environments, more of them") {
    for (int megabytes : {40, 60, 80, 120, 160, 240, 320, 640, 1280}) train_within(megabytes);
    train_with("-i");
    for (const char* rest : {"-u HOME", "HOME=", "HOME=/nonexistent", "HOME=/proc TMPDIR=/proc",
                             "TMPDIR=/nonexistent", "PATH="})
      train_with(std::string("-u XDG_CACHE_HOME ") + rest);
    for (const char* mask : {"022", "027", "077", "0777"}) train_masked(mask);
  }
}
