// The command-line program.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "base/build_id.h"
#include "base/error.h"
#include "base/flags.h"
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
constexpr Command flags_command = {"flags", "", "the settings read from the environment",
                                   json_option, print_flags};
constexpr Command version_command = {"version", "", "the version and the build", json_option,
                                     print_version};
constexpr Command help_command = {
    "help", "[COMMAND]", "what the commands do, or one of them in full", {}, print_help};

const Command* const commands[] = {
    &train_command,  &run_command,   &info_command,    &devices_command, &bench_command,
    &search_command, &flags_command, &version_command, &help_command,
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
  std::printf("\n`mote help COMMAND` says more.\n");
  return 0;
}

std::string no_place() { return ""; }

// A file that is opened must not become stdout because that was closed: what is printed would go
// into it. What was closed stays unwritable, but for stderr, where nobody looks for errors.
void occupy_standard_files() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

// The library maps files; one that is cut short while it is read cannot be read on.
void end_at_cut_file(int) {
  constexpr char why[] = "mote: a file was cut short while it was read\n";
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, why, sizeof why - 1);
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_files();
  std::signal(SIGBUS, end_at_cut_file);
  read_short_flag_names();
  error_place = no_place;  // the line of this program that made a call means nothing to its user
  std::signal(SIGXFSZ, SIG_IGN);  // a file too large is an error like a full disk
  int on_error = 2;               // while it is the words of the command line that are wrong
  try {
    std::span<const char* const> words(argv + 1, argv + argc);
    const Command& command = find_command(words.empty() ? "help" : words[0]);
    Words parsed(command, words.subspan(words.empty() ? 0 : 1));
    on_error = 1;
    int status = words.empty() ? 2 : 0;
    if (parsed.wants_help())
      std::fputs(help_text(command).c_str(), stdout);
    else
      status = std::max(status, command.run(parsed));
    if (std::fflush(stdout) != 0)
      fail(ErrorKind::Device,
           text("[", command.name, "] the output cannot be written: ", std::strerror(errno)));
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mote: %s\n", printable(error.what(), Lines::Keep).c_str());
    return on_error;
  }
}
