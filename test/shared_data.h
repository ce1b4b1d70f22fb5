// Real data beside the source tree, which tests use where it is there.
#pragma once
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "test_paths.h"

namespace mote {

// The path of ../shared/data/name; empty, after a line that says so, where it is absent.
inline std::string shared_data(const std::string& name) {
  std::string path = std::string(MOTE_SOURCE_DIR) + "/../shared/data/" + name;
  if (std::filesystem::exists(path)) return path;
  MESSAGE("skipped: there is no ../shared/data/", name);
  return {};
}

// The whole of a file.
inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace mote
