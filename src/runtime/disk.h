// Files as read-only memory.
#pragma once
#include <cstdint>
#include <string>

namespace mote {

constexpr const char* kDisk = "DISK";  // the device's name

// Part of a file, mapped. `data` need not be aligned; unmap(context) ends it. The file stays open
// until then, once however often it is mapped: DISK asks for its size before work that reads it is
// submitted, so that a file which was cut short meanwhile is an error. One that is cut short while
// it is being read ends the program (SIGBUS): the library installs no signal handler.
struct MappedFile {
  const void* data = nullptr;
  int64_t bytes = 0;
  void (*unmap)(void* context) = nullptr;
  void* context = nullptr;
};

// `bytes` bytes from `offset` on. Device error if the file cannot be opened or mapped or ends
// early.
MappedFile map_file(const std::string& path, int64_t offset, int64_t bytes);
MappedFile map_file(const std::string& path);  // all of it

}  // namespace mote
