// Other programs run by tests, and folders that are gone with the test.
#pragma once
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "test_paths.h"

namespace mote {

struct Ran {
  int status;          // 128 + the signal that ended it
  std::string output;  // stdout and stderr
};

inline Ran run(const std::string& command) {
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  REQUIRE(pipe);
  Ran out;
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) out.output.append(part, n);
  int status = pclose(pipe);
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}

// This program again, running the test of the name given, with other settings.
inline Ran run_self(const std::string& settings, const std::string& test,
                    const std::string& before = "") {
  std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return run(before + " env " + settings + " " + self + " --no-skip --test-case='" + test + "'");
}

inline Ran run_mote(const std::string& arguments, const std::string& settings = "") {
  return run("env " + settings + " " MOTE_BINARY_DIR "/mote " + arguments);
}

inline bool has(const Ran& ran, const std::string& what) {
  if (ran.output.find(what) != std::string::npos) return true;
  MESSAGE("in: " << ran.output);
  return false;
}

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mote-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

}  // namespace mote
