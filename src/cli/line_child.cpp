#include "cli/line_child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"

namespace mote {

LineChild::LineChild(const std::vector<std::string>& words, const std::string& absent)
    : name_(words.at(0).substr(words[0].rfind('/') + 1)) {
  std::vector<std::string> all = words;
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
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(to_child[0]), close(to_us[1]);
  to_ = to_child[1], from_ = to_us[0];
  std::string line, last = text(name_, " did not start");
  while ((line = read_line()) != "ready") {
    check(!line.empty(), absent, ": ", last);
    last = line;
  }
}

LineChild::~LineChild() {
  close(to_);  // the end of its input ends it
  close(from_);
  waitpid(pid_, nullptr, 0);
}

// "" at the end.
std::string LineChild::read_line() {
  std::string line;
  for (char c; read(from_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

std::string LineChild::ask(const std::string& line) {
  const std::string whole = line + "\n";
  const auto size = static_cast<ssize_t>(whole.size());
  check(write(to_, whole.data(), whole.size()) == size, "[bench] the process of ", name_,
        " is gone");
  std::string answer = read_line();
  check(!answer.empty(), "[bench] the process of ", name_, " is gone");
  return answer;
}

}  // namespace mote
