// DISK: memory that is a mapped file. It is read by copies to other devices and nothing else.
#include "runtime/disk.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "ir/provenance.h"
#include "runtime/devices.h"

namespace mote {

namespace {

// A file that is mapped. Its size is asked for by name, for a descriptor that was kept could be
// closed by the program, and there may be more files than descriptors.
struct NamedFile {
  std::string path;
  dev_t device;
  ino_t inode;
};

struct Mapping {
  char* start;
  size_t length;
  int64_t offset;  // of the start, in the file
  NamedFile file;
};

struct Mappings {
  std::mutex mutex;
  std::map<const char*, Mapping> all;  // by start
};
Mappings& mappings() {
  static auto* m = new Mappings;
  return *m;
}

// Null: no mapped file has this address.
const Mapping* find_mapping(const Mappings& m, const char* at) {
  auto after = m.all.upper_bound(at);
  if (after == m.all.begin()) return nullptr;
  const Mapping& found = std::prev(after)->second;
  return at < found.start + found.length ? &found : nullptr;
}

void unmap(void* context) {
  Mappings& m = mappings();
  std::lock_guard lock(m.mutex);
  const auto it = m.all.find(static_cast<const char*>(context));
  ::munmap(it->second.start, it->second.length);
  m.all.erase(it);
}

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
  Token copy_in(DeviceAddress, const void*, int64_t, std::span<const Token>) override { refuse(); }
  uint64_t allocate_raw(int64_t) override { refuse(); }
  Token copy_out(void* host, DeviceAddress from, int64_t bytes,
                 std::span<const Token> after) override {
    check_readable(from, bytes);
    return Device::copy_out(host, from, bytes, after);
  }
  void check_readable(DeviceAddress memory, int64_t bytes) const override;
};

// Without a name left the size is not known, but whether there still is a page.
bool can_read(const char* at) {
  char byte;
  iovec here{&byte, 1}, there{const_cast<char*>(at), 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
}

void Disk::check_readable(DeviceAddress memory, int64_t bytes) const {
  const auto* at = reinterpret_cast<const char*>(host_address(memory));
  Mappings& m = mappings();
  std::lock_guard lock(m.mutex);
  const Mapping* mapping = find_mapping(m, at);
  if (!mapping || bytes == 0) return;  // memory that is no file: what was unpacked from one
  const int64_t end = mapping->offset + (at - mapping->start) + bytes;
  const NamedFile& file = mapping->file;
  struct stat info {};
  const bool is_named = ::stat(file.path.c_str(), &info) == 0 && info.st_dev == file.device &&
                        info.st_ino == file.inode;
  if (is_named ? info.st_size >= end : can_read(at + bytes - 1)) return;
  if (!is_named)
    fail(ErrorKind::Device, text("[", current_method(), "] ", printable(file.path),
                                 " was cut short after it was opened and removed"));
  fail(ErrorKind::Device, text("[", current_method(), "] ", printable(file.path),
                               " was cut short after it was opened: it has ", info.st_size,
                               " bytes, but ", end, " are needed"));
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
  // The path holds wherever the program's folder is later.
  NamedFile named() const {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) fail_with("read");
    std::error_code error;
    const std::filesystem::path path = std::filesystem::absolute(path_, error);
    return {error ? path_ : path.string(), info.st_dev, info.st_ino};
  }
  int64_t size() const {
    struct stat info;
    if (::fstat(fd_, &info) != 0) fail_with("read");
    if (S_ISDIR(info.st_mode)) errno = EISDIR, fail_with("map");
    // Files of /proc say that they are regular and empty.
    char byte;
    if (!S_ISREG(info.st_mode) || (info.st_size == 0 && ::read(fd_, &byte, 1) > 0))
      fail(ErrorKind::Device,
           text("[", current_method(), "] ", printable(path_), " is not a regular file"));
    return info.st_size;
  }
  [[noreturn]] void fail_with(const char* what) const {
    const int reason = errno;
    fail(ErrorKind::Device,
         text("[", current_method(), "] cannot ", what, " ", printable(path_), ": ",
              std::strerror(reason)));
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
  auto* first = static_cast<char*>(start);
  Mapping made{first, length, offset - before, file.named()};
  Mappings& m = mappings();
  std::lock_guard lock(m.mutex);
  m.all[first] = std::move(made);
  return {first + before, bytes, unmap, first};
}

}  // namespace

MappedFile map_file(const std::string& path, int64_t offset, int64_t bytes) {
  OpenFile file(path);
  const int64_t size = file.size();
  if (bytes > size - offset)
    fail(ErrorKind::Device,
         text("[", current_method(), "] ", printable(path), " has ", size, " bytes, but ", bytes,
              " from byte ", offset, " on were asked for"));
  return map_part(file, offset, bytes);
}

MappedFile map_file(const std::string& path) {
  OpenFile file(path);
  return map_part(file, 0, file.size());
}

MOTE_DEVICE(disk_device){kDisk, is_always_there, open_as<Disk>};

}  // namespace mote
