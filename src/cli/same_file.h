// Files of a command that must not be one and the same.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace mote {

struct UsedPath {
  std::string name;  // "--out", for the error
  std::string path;  // "": not used
  bool written = false;
};

// A User error where a path that is written is the same file as another one, or as the regular file
// that stdout or stderr goes to. Paths are compared by what they lead to (device and inode; for
// what is not there yet its folder and name), not by how they are spelled.
void check_distinct_files(std::string_view command, std::span<const UsedPath> paths);

}  // namespace mote
