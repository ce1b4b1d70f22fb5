// PyTorch in a child process that speaks in lines: "ready", then an answer to each.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/bench_cpu_peers.h"

namespace mote::bench {

TorchChild::TorchChild(const std::string& script, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"python3", tool_path(script)};
  check(access(all[1].c_str(), R_OK) == 0, all[1], " is not there");
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& w : all) argv.push_back(w.data());
  argv.push_back(nullptr);
  int to_child[2], to_us[2];
  const bool piped = pipe2(to_child, O_CLOEXEC) == 0 && pipe2(to_us, O_CLOEXEC) == 0;
  check(piped, "[bench] no pipe: ", std::strerror(errno));
  std::signal(SIGPIPE, SIG_IGN);  // a child that died is an error of its row
  pid_ = fork();
  check(pid_ >= 0, "[bench] cannot fork: ", std::strerror(errno));
  if (pid_ == 0) {
    dup2(to_child[0], STDIN_FILENO);
    dup2(to_us[1], STDOUT_FILENO);
    dup2(to_us[1], STDERR_FILENO);
    execv("/usr/bin/python3", argv.data());  // the system's, whose packages the launcher installs
    execvp("python3", argv.data());
    _exit(127);
  }
  close(to_child[0]), close(to_us[1]);
  to_ = to_child[1], from_ = to_us[0];
  std::string line, last = "python3 did not start";
  while ((line = read_line()) != "ready") {
    check(!line.empty(), "no PyTorch (package python3-torch): ", last);
    last = line;
  }
}

TorchChild::~TorchChild() {
  close(to_);  // the end of its input ends it
  close(from_);
  waitpid(pid_, nullptr, 0);
}

// "" at the end.
std::string TorchChild::read_line() {
  std::string line;
  for (char c; read(from_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

std::string TorchChild::ask(const std::string& line) {
  const std::string whole = line + "\n";
  const auto size = static_cast<ssize_t>(whole.size());
  check(write(to_, whole.data(), whole.size()) == size, "[bench] PyTorch's process is gone");
  std::string answer = read_line();
  check(!answer.empty(), "[bench] PyTorch's process is gone");
  return answer;
}

}  // namespace mote::bench
