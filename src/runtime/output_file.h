// Writing a file so that it is always whole: the old one or the new one, whatever happens.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mote {

// Writes to a temporary file in the same folder; commit() makes it durable and puts it in place of
// `path` in one step. Without commit (an error, a full disk, a killed process) `path` is as before.
// The temporary file goes with this object; one that a killed process left is removed by the next
// OutputFile for the same path, at once where files can be locked, else an hour after its last
// write. A symbolic link stays, what it leads to is written. What is there and is no regular file,
// or may not be written, is refused. Errors name the path and the reason.
// All that writes files for users writes through this.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;

  void write(std::span<const uint8_t> bytes);
  void write(std::string_view bytes);
  uint64_t size() const { return size_; }
  void commit();

 private:
  [[noreturn]] void fail_with(const char* what) const;
  void send(std::string_view bytes);
  void flush();
  std::string path_;       // as given, for errors
  std::string target_;     // behind symbolic links
  std::string temporary_;  // empty once committed
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string pending_;  // small writes are joined
};

// What a path leads to by symbolic links; that need not be there yet.
std::string behind_links(std::string path);

}  // namespace mote
