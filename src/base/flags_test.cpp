#include "base/flags.h"
#include "test_paths.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <thread>

using namespace mote;

static const char* const flags_md = MOTE_SOURCE_DIR "/docs/flags.md";

static std::string flags_page() {
  return R"(# Flags

Made from `src/base/flags.def` by the test "flags.md: write"; do not edit.

All settings of mote are read from the environment, at first use: `MOTE_DEBUG=2` by every program
that uses the library, `DEBUG=2` as well by `mote` and the tests. A value that cannot be read is an error that
says what the flag takes. A `MOTE_` variable that nothing reads is warned of, with the nearest name.
Flags that change generated code are part of the key of every cache, so switching them back and forth
is safe. `mote flags` prints this table: name, default, meaning.

```
)" + flags_help() +
         "```\n";
}

TEST_CASE("flags.md: is what the table says") {
  std::ostringstream have;
  have << std::ifstream(flags_md).rdbuf();
  INFO("rewrite it: ./mote test 'flags.md: write' --no-skip");
  CHECK((have.str() == flags_page()));
}

TEST_CASE("flags.md: write" * doctest::skip()) { std::ofstream(flags_md) << flags_page(); }

TEST_CASE("flags: a scope ends, and covers only its thread unless it is handed on") {
  const int64_t before = flag(Flag::DEBUG);
  {
    FlagScope debug(Flag::DEBUG, 7);
    CHECK(flag(Flag::DEBUG) == 7);
    const FlagScopes ours;
    int64_t seen[3];
    std::thread([&] {
      seen[0] = flag(Flag::DEBUG);
      {
        FlagScope caller(ours);
        seen[1] = flag(Flag::DEBUG);
      }
      seen[2] = flag(Flag::DEBUG);
    }).join();
    CHECK(seen[0] == before);
    CHECK(seen[1] == 7);
    CHECK(seen[2] == before);
  }
  CHECK(flag(Flag::DEBUG) == before);
}
