// Files as read-only memory.
#pragma once
#include <cstdint>
#include <string>

namespace mote {

// Part of a file, mapped. `data` need not be aligned; unmap(context) ends it.
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
