// Other programs run by tests, and folders that are gone with the test.
#pragma once
#include <doctest/doctest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

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

// What a program writes to a terminal of so many columns.
inline std::string on_terminal(const std::string& arguments, uint16_t columns = 100) {
  int terminal = -1;
  winsize size{.ws_row = 24, .ws_col = columns};
  pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(pid >= 0);
  if (pid == 0) {
    setenv("LC_ALL", "C.UTF-8", 1);
    execl("/bin/sh", "sh", "-c", ("exec " MOTE_BINARY_DIR "/mote " + arguments).c_str(), nullptr);
    _exit(127);
  }
  std::string out;
  char part[4096];
  for (ssize_t n; (n = read(terminal, part, sizeof part)) > 0;)
    out.append(part, static_cast<size_t>(n));
  close(terminal);
  waitpid(pid, nullptr, 0);
  return out;
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
