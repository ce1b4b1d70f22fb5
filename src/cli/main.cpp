// The command-line program.
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
#include "cli/commands.h"

using namespace mote;

namespace {

int print_help(const Words&);

int print_version(const Words&) {
  std::printf("mote %s (build %s)\n", MOTE_VERSION, build_id());
  return 0;
}

int print_flags(const Words&) {
  std::printf(
      "Set NAME=value, or MOTE_NAME=value, in the environment. Name, "
      "default, meaning:\n%s",
      flags_help().c_str());
  return 0;
}

constexpr Command flags_command = {
    "flags", "", "the settings read from the environment", {}, print_flags};
constexpr Command version_command = {"version", "", "the version and the build", {}, print_version};
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

// The line of this program that an error names means nothing to its user.
std::string without_place(std::string what) {
  size_t place = what.rfind(" (src/cli/");
  if (place != what.npos && what.ends_with(')')) what.resize(place);
  return what;
}

}  // namespace

int main(int argc, char** argv) {
  read_short_flag_names();
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
    std::fprintf(stderr, "mote: %s\n", without_place(error.what()).c_str());
    return on_error;
  }
}
