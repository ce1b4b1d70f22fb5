#include "onnx/external.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/disk.h"

namespace mote::onnx {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// One component after another, each below the one before, none of them a link.
Descriptor open_below(const std::string& folder, std::string_view path) {
  Descriptor at(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  while (at.get() >= 0) {
    const size_t slash = path.find('/');
    const std::string part(path.substr(0, slash));
    const bool last = slash == std::string_view::npos;
    const int flags = last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY;
    at = Descriptor(::openat(at.get(), part.c_str(), flags | O_NOFOLLOW | O_CLOEXEC));
    if (last) break;
    path.remove_prefix(slash + 1);
  }
  return at;
}

bool is_plain_path(std::string_view path) {
  if (path.empty() || path.find('\0') != path.npos || path.find('\\') != path.npos) return false;
  for (;;) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "..") return false;
    if (slash == path.npos) return part != ".";
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

Bytes external_bytes(const TensorData& t, uint64_t size, const File& file, const Folder& folder) {
  const std::string what = text("the tensor ", quoted(t.name), ": its external data ");
  check_file(!folder.path.empty(), file.name, what, "cannot be read, for the model has no folder");
  check_file(is_plain_path(t.location), file.name, what, "is in ", quoted(t.location),
             ", which is not a path below the model's folder");
  check_file(t.length < 0 || static_cast<uint64_t>(t.length) == size, file.name, what, "has ",
             t.length, " bytes, but its shape takes ", size);
  const Descriptor found = open_below(folder.path, t.location);
  check_file(found.get() >= 0, file.name, what, quoted(t.location),
             " cannot be opened: ", std::strerror(errno));
  struct stat info {};
  check_file(::fstat(found.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1,
             file.name, what, quoted(t.location), " is not a regular file with one name");
  const auto end = static_cast<uint64_t>(info.st_size), at = static_cast<uint64_t>(t.offset);
  check_file(at <= end && size <= end - at, file.name, what, "ends at byte ", at, " + ", size,
             ", but ", quoted(t.location), " has ", end);
  if (size == 0) return {};
  // The file that was checked, whatever its name stands for by now.
  const MappedFile mapped = map_file("/proc/self/fd/" + std::to_string(found.get()), t.offset,
                                     static_cast<int64_t>(size));
  std::shared_ptr<const void> owner;
  if (mapped.unmap) owner = {mapped.data, [mapped](const void*) { mapped.unmap(mapped.context); }};
  return Bytes({static_cast<const uint8_t*>(mapped.data), size}, std::move(owner));
}

}  // namespace mote::onnx
