// The command-line program.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "base/build_id.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/nearest_name.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "io/json.h"

using namespace mote;

namespace {

int print_help(const Words&);

int print_version(const Words& words) {
  if (words.has("json")) {
    JsonWriter json;
    json.begin('{').key("version").value(MOTE_VERSION).key("build").value(build_id()).end();
    std::printf("%s\n", json.text().c_str());
  } else {
    std::printf("mote %s (build %s)\n", MOTE_VERSION, build_id());
  }
  return 0;
}

void print_flags_json() {
  JsonWriter json;
  json.begin('[');
  for (const FlagText& flag : flag_texts()) {
    json.begin('{').key("name").value(flag.name).key("default").value(flag.value);
    json.key("meaning").value(flag.meaning).end();
  }
  std::printf("%s\n", json.end().text().c_str());
}

int print_flags(const Words& words) {
  if (words.has("json")) {
    print_flags_json();
    return 0;
  }
  std::printf(
      "Set NAME=value, or MOTE_NAME=value, in the environment. Name, "
      "default, meaning:\n%s",
      flags_help().c_str());
  return 0;
}

constexpr Option json_option[] = {
    {"json", "", "print JSON"}
};
constexpr Command flags_command = {"flags", "", "list the settings read from the environment",
                                   json_option, print_flags};
constexpr Command version_command = {"version", "", "print version and build", json_option,
                                     print_version};
constexpr Command help_command = {
    "help", "[COMMAND]", "describe the commands, or one of them in detail", {}, print_help};

const Command* const commands[] = {
    &train_command, &run_command,    &info_command,  &onnx_command,    &devices_command,
    &bench_command, &search_command, &docs_command,  &flags_command,   &version_command,
    &help_command,
};

const Command& find_command(std::string_view name) {
  if (name == "--help" || name == "-h") name = "help";
  if (name == "--version") name = "version";
  std::vector<std::string_view> names;
  for (const Command* command : commands) {
    if (command->name == name) return *command;
    names.push_back(command->name);
  }
  std::string_view near = nearest_name(name, names);
  fail(ErrorKind::User,
       text("there is no command '", name, "'",
            near.empty() ? "" : text(" (did you mean ", near, "?)"), "; `mote help` lists them"));
}

int print_help(const Words& words) {
  if (words.operand_count() > 0) {
    std::fputs(help_text(find_command(words.operand(0))).c_str(), stdout);
    return 0;
  }
  std::printf("usage: mote COMMAND [ARGUMENTS]\n\n");
  for (const Command* command : commands)
    std::printf("  %-9s %s\n", command->name.data(), command->meaning.data());
  std::printf("  %-9s %s\n", "test", "build and run the tests (through the launcher ./mote)");
  std::printf("\n`mote help COMMAND` describes a command.\n");
  return 0;
}

std::string no_place() { return ""; }

// The library maps files; one that is cut short while it is read cannot be read on.
void end_at_cut_file(int) {
  constexpr char why[] = "mote: a file was cut short while it was read\n";
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, why, sizeof why - 1);
  _exit(1);
}

class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(size_t bytes) {
    constexpr std::string_view before = "out of memory: ", after = " bytes were requested";
    char* at = std::copy(before.begin(), before.end(), text_);
    at = std::to_chars(at, at + 20, bytes).ptr;
    *std::copy(after.begin(), after.end(), at) = 0;
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[64];
};

// A descriptor that the caller closed would be given to the next file that is opened, and output
// would go there. One that cannot be used in that direction takes its place, so that it fails.
void hold_standard_descriptors() {
  for (int fd : {0, 1, 2})
    if (fcntl(fd, F_GETFD) < 0)
      while (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) >= 0 && fcntl(fd, F_GETFD) < 0) {}
}

// What was printed has arrived. A reader that wanted no more (`| head`) needs no message.
bool flush_output(std::string_view command) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0 && !std::ferror(stdout);
  const int reason = errno;
  if (flushed || reason == EPIPE) return flushed;
  pollfd pipe{1, 0, 0};
  if (poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR)) return false;
  fail(ErrorKind::Device, text("[", command, "] the output cannot be written: ",
                               reason ? std::strerror(reason) : "an earlier part was lost"));
}

int execute(std::span<const char* const> words, int& on_error) {
  const Command& command = find_command(words.empty() ? "help" : words[0]);
  Words parsed(command, words.subspan(words.empty() ? 0 : 1));
  on_error = 1;
  // A reader of a training run's output may go away. That is an error of the write, and the run
  // continues to its checkpoint.
  if (command.name == "train") std::signal(SIGPIPE, SIG_IGN);
  int status = words.empty() ? 2 : 0;
  if (parsed.wants_help())
    std::fputs(help_text(command).c_str(), stdout);
  else
    status = std::max(status, command.run(parsed));
  return flush_output(command.name) ? status : std::max(status, 1);
}

}  // namespace

// All memory that is not a tensor's: says how much was wanted where there is none. Sanitizers have
// operators of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(size_t bytes) {
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw OutOfMemory(bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

int main(int argc, char** argv) {
  hold_standard_descriptors();
  std::signal(SIGBUS, end_at_cut_file);
  read_short_flag_names();
  error_place = no_place;  // the line of this program that made a call means nothing to its user
  std::signal(SIGXFSZ, SIG_IGN);  // a file too large is an error like a full disk
  int on_error = 2;               // while it is the words of the command line that are wrong
  try {
    return execute({argv + 1, argv + argc}, on_error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mote: %s\n", printable(error.what(), Lines::Keep).c_str());
    return on_error;
  }
}
