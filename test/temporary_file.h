// A file that is gone with the test.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace mote {

struct TemporaryFile {
  std::string path;  // ends with the name
  TemporaryFile(const std::string& name, std::string_view bytes)
      : path((std::filesystem::temp_directory_path() /
              ("mote_test_" + std::to_string(getpid()) + "_" + name))
                 .string()) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path); }
};

}  // namespace mote
