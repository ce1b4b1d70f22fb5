#include "runtime/c_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "runtime/cpu_info.h"

extern char** environ;

namespace mote {
namespace {

constexpr const char* flags[] = {
    "-std=gnu11",
    "-O2",
    // Floats: IEEE, except that a*b+c may fuse and nobody reads errno or the exception flags.
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    // An object the loader can take: nothing but code and constants, everything reachable from
    // anywhere.
    "-fPIC",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-ident",
    "-fno-common",
    "-fvisibility=hidden",
    // No temporary assembler file, no warnings.
    "-pipe",
    "-w",
#if defined(__x86_64__)
    "-march=native",
    "-fcf-protection=none",
#else
    "-mcpu=native",
#endif
};

// An anonymous file in memory, read and written through its descriptor.
class MemoryFile {
 public:
  MemoryFile() {
    // Not 0, 1 or 2, which the child replaces, even if this process runs with those closed.
    const int made = memfd_create("mote", MFD_CLOEXEC);
    if (made >= 0) fd_ = fcntl(made, F_DUPFD_CLOEXEC, 3);
    if (made >= 0) close(made);
    if (fd_ < 0) fail(ErrorKind::Device, text("[c_compiler] memfd_create: ", std::strerror(errno)));
  }
  MemoryFile(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }
  int fd() const { return fd_; }

  void fill(std::string_view bytes) {
    off_t at = 0;
    while (at < static_cast<off_t>(bytes.size())) {
      const ssize_t n = pwrite(fd_, bytes.data() + at, bytes.size() - static_cast<size_t>(at), at);
      if (n < 0 && errno != EINTR)
        fail(ErrorKind::Device, text("[c_compiler] cannot pass the text: ", std::strerror(errno)));
      if (n > 0) at += n;
    }
  }

  std::vector<uint8_t> contents() const {
    struct stat info {};
    if (fstat(fd_, &info) != 0) return {};
    std::vector<uint8_t> bytes(static_cast<size_t>(info.st_size));
    size_t got = 0;
    while (got < bytes.size()) {
      const ssize_t n = pread(fd_, bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    bytes.resize(got);
    return bytes;
  }

  std::string contents_text() const {
    const auto bytes = contents();
    return {bytes.begin(), bytes.end()};
  }

 private:
  int fd_ = -1;
};

// Runs a program and waits for it. `keep` stays open in the child. Returns whether it exited with
// 0; if it could not even start, messages says why.
bool run_program(const std::vector<std::string>& command, const MemoryFile& input,
                 MemoryFile& messages, const MemoryFile& keep) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, messages.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, messages.fd(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, keep.fd(),
                                   keep.fd());  // onto itself: clears close-on-exec
  pid_t child = 0;
  const int error =
      posix_spawn(&child, command[0].c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    messages.fill(text("cannot run ", command[0], ": ", std::strerror(error)));
    return false;
  }
  int status = 0;
  pid_t waited;
  do waited = waitpid(child, &status, 0);
  while (waited < 0 && errno == EINTR);
  // A host program that ignores SIGCHLD leaves no status to read (ECHILD): then the object speaks
  // for itself.
  return waited < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

std::string find_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty()) {
    const std::string folder(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    const std::string file = folder + "/" + name;
    struct stat info {};
    if (!folder.empty() && folder[0] == '/' && stat(file.c_str(), &info) == 0 &&
        S_ISREG(info.st_mode) && access(file.c_str(), X_OK) == 0)
      return file;
  }
  return "";
}

struct Compiler {
  std::string path;
  std::string version;
  std::string why_not = {};  // where there is none
};

constexpr const char* none_found =
    "no C compiler (cc, gcc or clang) on PATH: install g++ (or libllvm19, which needs no C "
    "compiler)";

Compiler find_compiler() {
  std::string broken;
  for (const char* name : {"cc", "gcc", "clang"}) {
    Compiler found{find_on_path(name), ""};
    if (found.path.empty()) continue;
    MemoryFile input, messages, unused;
    if (!run_program({found.path, "--version"}, input, messages, unused)) {
      broken += text(broken.empty() ? "" : ", ", found.path);
      continue;
    }
    found.version = messages.contents_text();
    found.version.resize(std::min(found.version.size(), found.version.find('\n')));
    return found;
  }
  if (broken.empty()) return {"", "", none_found};
  return {"", "", text("the C compiler ", broken, " does not run (--version fails): repair it, or "
                       "install libllvm19, which needs no C compiler")};
}

const Compiler& compiler() {
  static const auto& found = *new Compiler(find_compiler());
  return found;
}

// The line that the first "<stdin>:12:" points at: gcc does not quote what it read from a pipe.
std::string offending_line(const std::string& messages, std::string_view c_text) {
  int number = 0;
  for (size_t at = 0; number <= 0 && (at = messages.find("<stdin>:", at)) != messages.npos;)
    if (std::string_view rest = std::string_view(messages).substr(at += 8);
        !take_number(rest, number))
      number = 0;
  if (number <= 0) return "";
  const std::string label = text("line ", number, ": ");
  while (--number > 0 && c_text.find('\n') != c_text.npos)
    c_text.remove_prefix(c_text.find('\n') + 1);
  return text(label, c_text.substr(0, c_text.find('\n')), "\n");
}

std::string first_lines(const std::string& messages, int count) {
  size_t end = 0;
  for (; count > 0 && end < messages.size(); --count)
    end = std::min(messages.find('\n', end), messages.size() - 1) + 1;
  return messages.substr(0, end) + (end < messages.size() ? "...\n" : "");
}

}  // namespace

bool c_compiler_available(std::string* why_not) {
  if (!compiler().path.empty()) return true;
  if (why_not) *why_not = compiler().why_not;
  return false;
}

std::string c_compiler_name() { return compiler().version; }

std::string c_compiler_version() {
  if (compiler().path.empty()) return "";
  std::string out = compiler().path + " " + compiler().version;
  for (const char* flag : flags) out += text(" ", flag);
  return out;
}

std::vector<uint8_t> c_compile(std::string_view c_text,
                               const std::vector<std::string>& extra_flags) {
  if (compiler().path.empty())
    fail(ErrorKind::Device, text("[c_compiler] ", compiler().why_not));
  MemoryFile input, messages, object;
  input.fill(c_text);
  std::vector<std::string> command = {compiler().path};
  command.insert(command.end(), std::begin(flags), std::end(flags));
  if (cpu_info().vector_bytes == 64) command.push_back("-mprefer-vector-width=512");
  command.insert(command.end(), extra_flags.begin(), extra_flags.end());
  for (const char* word : {"-x", "c", "-c", "-", "-o"}) command.push_back(word);
  command.push_back(text("/proc/self/fd/", object.fd()));
  const bool ok = run_program(command, input, messages, object);
  std::vector<uint8_t> bytes = ok ? object.contents() : std::vector<uint8_t>{};
  if (bytes.empty()) {
    const std::string said = messages.contents_text();
    fail(ErrorKind::Internal, text("[c_compiler] ", compiler().path, " rejected a kernel:\n",
                                   first_lines(said, 12), offending_line(said, c_text)));
  }
  return bytes;
}

}  // namespace mote
