// The command-line program. A command is one row of `commands`.
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "base/build_id.h"
#include "base/flags.h"
#include "cli/commands.h"

namespace {

struct Command {
  std::string_view name;
  const char* meaning;
  int (*run)(Arguments);
};

int print_help(Arguments);

int print_version(Arguments) {
  std::printf("mote %s (build %s)\n", MOTE_VERSION, mote::build_id());
  return 0;
}

int print_flags(Arguments) {
  std::printf("Set NAME=value, or MOTE_NAME=value, in the environment. Name, default, meaning:\n%s",
              mote::flags_help().c_str());
  return 0;
}

constexpr Command commands[] = {
    {"bench",   "`bench host`: host time of known networks against their bars", run_bench},
    {"devices", "the devices of this machine, or why not [--json]", run_devices},
    {"flags",   "the settings read from the environment", print_flags},
    {"version", "the version and the build", print_version},
    {"help",    "this text", print_help},
};

int print_help(Arguments) {
  std::printf("usage: mote COMMAND [ARGUMENTS]\n\n");
  for (const Command& command : commands)
    std::printf("  %-9s %s\n", command.name.data(), command.meaning);
  std::printf("  %-9s %s\n", "test", "build and run the tests (through the launcher ./mote)");
  return 0;
}

int run(Arguments args) {
  if (args.count == 0) {
    print_help(args);
    return 2;
  }
  std::string_view name = args.values[0];
  if (name == "--help" || name == "-h") name = "help";
  if (name == "--version") name = "version";
  for (const Command& command : commands)
    if (command.name == name) return command.run({args.count - 1, args.values + 1});
  std::string known;
  for (const Command& command : commands)
    known += (known.empty() ? "" : ", ") + std::string(command.name);
  std::fprintf(stderr, "mote: no command '%s'; there are %s (`mote help` says more)\n",
               args.values[0], known.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  mote::read_short_flag_names();
  try {
    return run({argc - 1, argv + 1});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mote: %s\n", error.what());
    return 1;
  }
}
