// The guides in docs/ quote the code: what they quote must be there, and graphs they show must be
// legal. A block follows a line that ends in "In `file`:" or "`file`:"; "..." stands for lines left
// out. Blocks marked ir name their stage.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/print.h"
#include "ir/spec.h"
#include "test_paths.h"

using namespace mote;

namespace {

const std::string root = MOTE_SOURCE_DIR "/";

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), path, " cannot be read");
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

struct Block {
  std::string page, kind, file;
  std::vector<std::string> lines;
};

// Without white space: how code is laid out is the formatter's business.
std::string squeezed(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c); });
  return text;
}

// The file a line introduces: "... `src/x.cpp`:".
std::string file_named(const std::string& line) {
  if (!line.ends_with("`:")) return "";
  const size_t end = line.size() - 2, begin = line.rfind('`', end - 1);
  return line.substr(begin + 1, end - begin - 1);
}

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::istringstream in(read_file(root + page));
  std::string line, before;
  bool inside = false;
  while (std::getline(in, line)) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({page, line.substr(3), file_named(before), {}});
    } else if (inside) {
      blocks.back().lines.push_back(line);
    }
    before = line;
  }
  return blocks;
}

std::vector<Block> all_blocks() {
  std::vector<Block> all;
  for (const auto& entry : std::filesystem::directory_iterator(root + "docs"))
    if (entry.path().extension() == ".md")
      for (Block& b : blocks_of("docs/" + entry.path().filename().string()))
        all.push_back(std::move(b));
  for (Block& b : blocks_of("README.md")) all.push_back(std::move(b));
  return all;
}

}  // namespace

TEST_CASE("docs: quoted code is the code") {
  int quotes = 0;
  for (const Block& b : all_blocks()) {
    if (b.kind != "cpp" || b.file.empty()) continue;
    ++quotes;
    const std::string code = squeezed(read_file(root + b.file));
    size_t at = 0;
    for (const std::string& line : b.lines) {
      if (line == "..." || line.empty()) continue;
      INFO(b.page, " quotes ", b.file, ": ", line);
      at = code.find(squeezed(line), at);
      REQUIRE(at != std::string::npos);
    }
  }
  CHECK(quotes >= 12);
}

TEST_CASE("docs: graphs shown are legal") {
  int graphs = 0;
  for (const Block& b : all_blocks()) {
    if (!b.kind.starts_with("ir ")) continue;
    ++graphs;
    std::string text;
    for (const std::string& line : b.lines) text += line + "\n";
    Arena arena;
    ArenaScope scope(arena);
    UOp node = parse(text);
    verify(node, b.kind == "ir plan" ? Stage::Plan : Stage::Program, b.page.c_str());
    CHECK(print(parse(print(node))) == print(node));
  }
  CHECK(graphs == 2);
}

TEST_CASE("docs: the map has every folder, and stays a map") {
  const std::string map = read_file(root + "docs/architecture.md");
  CHECK(std::count(map.begin(), map.end(), '\n') <= 200);
  for (const auto& folder : std::filesystem::directory_iterator(root + "src")) {
    const std::string name = "`" + folder.path().filename().string() + "/`";
    CHECK_MESSAGE(map.find(name) != std::string::npos, "architecture.md lacks ", name);
  }
}

TEST_CASE("docs: examples are short") {
  for (const auto& example : std::filesystem::directory_iterator(root + "examples")) {
    const std::string text = read_file(example.path());
    CHECK_MESSAGE(std::count(text.begin(), text.end(), '\n') < 100, example.path());
  }
}
