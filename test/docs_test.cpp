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

// All of src/ and include/ but the tests, with string literals joined over lines.
std::string sources() {
  std::string all;
  for (const char* folder : {"src", "include"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root + folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && name.find("_test.") == name.npos) all += read_file(entry.path());
    }
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t next = all[i] == '"' ? all.find_first_not_of(" \n", i + 1) : all.npos;
    if (next != all.npos && next > i + 1 && all[next] == '"')
      i = next;  // the end of one literal and the beginning of the next
    else
      out += all[i];
  }
  return out;
}

TEST_CASE("docs: messages that the page on trouble explains are those of the library") {
  const std::string code = sources();
  std::istringstream page(read_file(root + "docs/troubleshooting.md"));
  int messages = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ") || line.starts_with("| message")) continue;
    const std::string cell = line.substr(2, line.find(" | ", 2) - 2);
    for (size_t at = cell.find('`'); at != cell.npos; at = cell.find('`', at + 1)) {
      const size_t end = cell.find('`', at + 1);
      std::string text = cell.substr(at + 1, end - at - 1);
      at = end;
      for (const char* open : {"...", "MOTE_X", "] ", "mote ", "CUDA"})  // what stands in their place varies
        if (const size_t found = text.find(open); found != text.npos)
          text.erase(0, found + std::string(open).size());
      ++messages;
      CHECK_MESSAGE(code.find(text) != code.npos, "no message says ", text);
    }
  }
  CHECK(messages >= 15);
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
