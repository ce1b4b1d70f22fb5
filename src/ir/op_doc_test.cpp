#include "ir/op_doc.h"
#include "test_paths.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

static const char* const ir_md = MOTE_SOURCE_DIR "/docs/ir.md";

TEST_CASE("ir.md: is what the tables say") {
  std::ostringstream have;
  have << std::ifstream(ir_md).rdbuf();
  INFO("rewrite it: ./mote test 'ir.md: write' --no-skip");
  CHECK((have.str() == mote::op_doc()));
}

TEST_CASE("ir.md: write" * doctest::skip()) { std::ofstream(ir_md) << mote::op_doc(); }
