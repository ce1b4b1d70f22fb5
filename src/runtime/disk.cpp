// DISK: memory that is a mapped file. It is read by copies to other devices and nothing else.
#include "runtime/disk.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "ir/provenance.h"
#include "runtime/devices.h"

namespace mote {

namespace {

[[noreturn]] void refuse() { fail(ErrorKind::Device, "the device DISK can only be copied from"); }

class Disk : public Device {
 public:
  explicit Disk(std::string name) : Device(std::move(name), disk_target()) {}
  static Target disk_target() {
    Target t;
    t.name = "disk";
    return t;
  }
  bool computes() const override { return false; }
  std::string about() const override { return "files as read-only memory"; }
  std::string render(const Program&) override { refuse(); }
  std::unique_ptr<Code> compile(const std::string&, const Program&) override { refuse(); }
  Token submit(LaunchList, std::span<const Token>) override { refuse(); }
  Token copy_in(void*, const void*, int64_t, std::span<const Token>) override { refuse(); }
  void* allocate_raw(int64_t) override { refuse(); }
};

struct Mapping {
  void* start;
  size_t length;
};

void unmap(void* context) {
  auto* m = static_cast<Mapping*>(context);
  ::munmap(m->start, m->length);
  delete m;
}

// Opening a pipe that nobody writes to would wait without O_NONBLOCK.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (fd_ < 0) fail_with("open");
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  int fd() const { return fd_; }
  int64_t size() const {
    struct stat info;
    if (::fstat(fd_, &info) != 0) fail_with("read");
    if (S_ISDIR(info.st_mode)) errno = EISDIR, fail_with("map");
    // Files of /proc say that they are regular and empty.
    char byte;
    if (!S_ISREG(info.st_mode) || (info.st_size == 0 && ::read(fd_, &byte, 1) > 0))
      fail(ErrorKind::Device, text("[", current_method(), "] ", path_, " is not a regular file"));
    return info.st_size;
  }
  [[noreturn]] void fail_with(const char* what) const {
    fail(ErrorKind::Device,
         text("[", current_method(), "] cannot ", what, " ", path_, ": ", std::strerror(errno)));
  }

 private:
  const std::string& path_;
  int fd_;
};

MappedFile map_part(const OpenFile& file, int64_t offset, int64_t bytes) {
  if (bytes == 0) return {};
  const int64_t page = ::sysconf(_SC_PAGESIZE), before = offset % page;
  const auto length = static_cast<size_t>(before + bytes);
  void* start = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.fd(), offset - before);
  if (start == MAP_FAILED) file.fail_with("map");
  return {static_cast<const char*>(start) + before, bytes, unmap, new Mapping{start, length}};
}

bool always(std::string*) { return true; }

}  // namespace

MappedFile map_file(const std::string& path, int64_t offset, int64_t bytes) {
  OpenFile file(path);
  const int64_t size = file.size();
  if (bytes > size - offset)
    fail(ErrorKind::Device, text("[", current_method(), "] ", path, " has ", size, " bytes, but ",
                                 bytes, " from byte ", offset, " on were asked for"));
  return map_part(file, offset, bytes);
}

MappedFile map_file(const std::string& path) {
  OpenFile file(path);
  return map_part(file, 0, file.size());
}

const DeviceRow disk_device{"DISK", always, [](const std::string& name) {
                              return std::unique_ptr<Device>(new Disk(name));
                            }};

}  // namespace mote
