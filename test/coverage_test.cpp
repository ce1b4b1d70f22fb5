// docs/coverage.md says what tools/coverage finds, and enough of PyTorch's interface is there.
#include <doctest/doctest.h>

#include "test/process.h"
#include "test_paths.h"

using namespace mote;

TEST_CASE("coverage: the page is current, and 95 % of methods and functionals are there") {
  if (run("command -v python3").status != 0) {
    MESSAGE("skipped: there is no python3 here");
    return;
  }
  Ran ran = run(MOTE_SOURCE_DIR "/tools/coverage --check");
  CHECK_MESSAGE(ran.status == 0, ran.output);
}
