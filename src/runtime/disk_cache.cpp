#include "runtime/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/flags.h"
#include "base/integers.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "runtime/temporary_file.h"

namespace mote {
namespace {

struct Header {
  char magic[8] = {'m', 'o', 't', 'e', 'c', 'a', 'c', 'h'};
  uint32_t version = 1;
  uint32_t header_bytes = sizeof(Header);
  Digest key{};
  uint64_t value_bytes = 0;
  Digest checksum{};
};
static_assert(sizeof(Header) == 88, "the file layout has no padding");

constexpr const char* temporary_prefix = ".tmp-";

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  ~File() { close_now(); }
  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool close_now() { return fd_ < 0 || close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool read_all(int fd, void* to, size_t size) {
  auto* p = static_cast<uint8_t*>(to);
  while (size > 0) {
    const ssize_t n = read(fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, size -= static_cast<size_t>(n);
  }
  return true;
}

bool write_all(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

void warn(const std::string& what) {
  std::fprintf(stderr, "mote: warning: %s\n", printable(what).c_str());
}

// Makes dir and the folders above it, as `mkdir -p -m 0700`.
bool make_dirs(const std::string& dir) {
  for (size_t at = dir.find('/', 1);; at = dir.find('/', at + 1)) {
    const std::string part = dir.substr(0, at);
    const bool made = mkdir(part.c_str(), 0700) == 0;
    if (!made && errno != EEXIST) return false;
    if (made) chmod(part.c_str(), 0700);  // whatever the umask
    if (at == dir.npos) return true;
  }
}

// Files take whole blocks. Small ones count as what they take, so that there are never too many.
int64_t room_on_disk(int64_t bytes) {
  constexpr int64_t kBlock = 4096;
  return round_up(bytes, kBlock);
}

Digest checksum_of(std::span<const uint8_t> value) { return sha256(value.data(), value.size()); }

// Written by this user, and by nobody else since.
bool is_own(const struct stat& info) {
  return info.st_uid == geteuid() && !(info.st_mode & (S_IWGRP | S_IWOTH));
}

enum class Read { Ok, Missing, Corrupt };

Read read_entry(int fd, const Digest& key, std::vector<uint8_t>& value) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return Read::Missing;
  Header header;
  const Header expect;
  if (!S_ISREG(info.st_mode) || !is_own(info) || info.st_size < static_cast<off_t>(sizeof header))
    return Read::Corrupt;
  if (!read_all(fd, &header, sizeof header)) return Read::Missing;
  const uint64_t rest = static_cast<uint64_t>(info.st_size) - sizeof header;
  if (std::memcmp(&header, &expect, offsetof(Header, key)) != 0 || header.key != key ||
      header.value_bytes != rest)
    return Read::Corrupt;
  value.resize(rest);
  if (!read_all(fd, value.data(), rest)) return Read::Missing;
  return checksum_of(value) == header.checksum ? Read::Ok : Read::Corrupt;
}

}  // namespace

class DiskCache::Folder {
 public:
  Folder(int fd, const struct stat& info) : fd_(fd), device_(info.st_dev), inode_(info.st_ino) {}
  Folder(const Folder&) = delete;
  ~Folder() {
    if (is_open()) close(fd_);
  }
  // False where the program has closed the descriptor: it may be another file's by now.
  bool is_open() const {
    struct stat info {};
    return fstat(fd_, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
  }
  int fd() const { return fd_; }
  // O_NONBLOCK: a FIFO in the folder must not hang us.
  int open_to_read(const std::string& name) const {
    return openat(fd_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  }

 private:
  int fd_;
  dev_t device_;
  ino_t inode_;
};

struct DiskCache::Entry {
  std::string name;
  int64_t bytes;
  int64_t used_ns;  // modification time, which get() moves forward
};

std::string default_cache_dir() {
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base && base[0] == '/') return text(base, "/mote");
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? text(home, "/.cache/mote") : "";
}

DiskCache& compile_cache() {
  static auto* cache = [] {
    if (!flag(Flag::CACHE)) return new DiskCache("");
    const std::string& dir = flag_text(Flag::CACHE_DIR);
    return new DiskCache(dir.empty() ? default_cache_dir() : dir, flag(Flag::CACHE_MB) << 20);
  }();
  return *cache;
}

DiskCache::DiskCache(std::string dir, int64_t max_bytes)
    : dir_(std::move(dir)), max_bytes_(max_bytes) {
  if (dir_.empty()) {
    why_not_ = "no folder given";
    return;
  }
  if (dir_[0] != '/') {  // stay in place when the program changes its folder
    if (char* here = getcwd(nullptr, 0)) {
      dir_ = text(here, "/", dir_);
      std::free(here);
    }
  }
  why_not_ = open_folder();
  if (!usable()) warn(text("no compile cache: ", why_not_));
}

// What is checked is what is held: between the two nothing can be exchanged.
std::string DiskCache::open_folder() {
  if (!make_dirs(dir_)) return text("cannot make folder ", dir_, ": ", std::strerror(errno));
  const int fd = open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return text(dir_, ": ", std::strerror(errno));
  struct stat info {};
  if (fstat(fd, &info) != 0) return text(dir_, ": ", std::strerror(errno));
  auto opened = std::make_shared<const Folder>(fd, info);
  if (info.st_uid != geteuid()) return text(dir_, " belongs to another user");
  if (!is_own(info)) return text(dir_, " is writable by others (chmod go-w it)");
  std::lock_guard lock(mutex_);
  folder_ = std::move(opened);
  return "";
}

std::shared_ptr<const DiskCache::Folder> DiskCache::folder() {
  {
    std::lock_guard lock(mutex_);
    if (folder_->is_open()) return folder_;
  }
  const bool opened = open_folder().empty();
  std::lock_guard lock(mutex_);
  const struct stat nothing {};
  if (!opened) folder_ = std::make_shared<const Folder>(-1, nothing);
  return folder_;
}

int DiskCache::open_to_write(const std::string& name, int flags) {
  flags |= O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = openat(folder()->fd(), name.c_str(), flags, 0600);
  if (fd < 0 && errno == ENOENT && open_folder().empty())
    fd = openat(folder()->fd(), name.c_str(), flags, 0600);
  struct stat info {};
  const bool is_new = fd >= 0 && fstat(fd, &info) == 0 && info.st_size == 0;
  if (is_new && !(info.st_mode & 077)) fchmod(fd, 0600);  // whatever the umask
  return fd;
}

std::optional<std::vector<uint8_t>> DiskCache::get(std::string_view key_material) {
  if (!usable()) return std::nullopt;
  const Digest key = sha256(key_material.data(), key_material.size());
  const std::string name = to_hex(key);
  File file(folder()->open_to_read(name));
  std::vector<uint8_t> value;
  const Read result = file.is_open() ? read_entry(file.fd(), key, value) : Read::Missing;
  if (result == Read::Ok) futimens(file.fd(), nullptr);
  if (result == Read::Corrupt) set_aside(name);
  std::lock_guard lock(mutex_);
  ++(result == Read::Ok ? counts_.hits : counts_.misses);
  if (result != Read::Ok) return std::nullopt;
  return value;
}

void DiskCache::set_aside(const std::string& name) {
  const int in = folder()->fd();
  // Of several processes that meet the same bad entry, the one whose rename succeeds reports it.
  if (renameat(in, name.c_str(), in, (name + ".corrupt").c_str()) != 0) return;
  warn(text("bad compile-cache entry set aside as ", path_of(name), ".corrupt"));
  std::lock_guard lock(mutex_);
  ++counts_.corrupt;
}

// Returns what went wrong, or "".
std::string DiskCache::write_file(const std::string& name, std::span<const uint8_t> header,
                                  std::span<const uint8_t> value) {
  std::string temp;
  File file(make_temporary(temporary_prefix, temp,
                           [&](const std::string& at) { return open_to_write(at, O_EXCL); }));
  if (!file.is_open()) return text("cannot write in ", dir_, ": ", std::strerror(errno));
  const auto in = folder();
  // Renamed while it is open: a file without a lock is taken for one that was left.
  if (write_all(file.fd(), header) && write_all(file.fd(), value) &&
      renameat(in->fd(), temp.c_str(), in->fd(), name.c_str()) == 0 && file.close_now())
    return "";
  const int error = errno;
  unlinkat(in->fd(), temp.c_str(), 0);
  return text("cannot write ", path_of(name), ": ", std::strerror(error));
}

void DiskCache::put(std::string_view key_material, std::span<const uint8_t> value) {
  const int64_t bytes = room_on_disk(static_cast<int64_t>(sizeof(Header) + value.size()));
  if (!usable() || bytes > max_bytes_ / 2) return;
  Header header;
  header.key = sha256(key_material.data(), key_material.size());
  header.value_bytes = value.size();
  header.checksum = checksum_of(value);
  const std::string why = write_file(
      to_hex(header.key), {reinterpret_cast<const uint8_t*>(&header), sizeof header}, value);
  if (!why.empty()) return count_failed_write(why);
  evict_if_full(bytes);
}

std::optional<std::string> DiskCache::read_lines(const std::string& name) {
  constexpr off_t longest = off_t{1} << 28;
  if (!usable()) return std::nullopt;
  File file(folder()->open_to_read(name));
  struct stat info {};
  if (!file.is_open() || fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode) || !is_own(info) ||
      info.st_size > longest)
    return std::nullopt;
  std::string lines(static_cast<size_t>(info.st_size), '\0');
  if (!read_all(file.fd(), lines.data(), lines.size())) return std::nullopt;
  return lines;
}

std::string DiskCache::add_lines(const std::string& name, std::string_view lines) {
  if (!usable()) return "";
  File file(open_to_write(name, O_APPEND));
  struct stat info {};
  if (!file.is_open() || fstat(file.fd(), &info) != 0)
    return text(path_of(name), ": ", std::strerror(errno));
  if (!S_ISREG(info.st_mode) || !is_own(info))
    return text(path_of(name), " is not a file that only this user can write");
  const ssize_t written = write(file.fd(), lines.data(), lines.size());
  if (written == static_cast<ssize_t>(lines.size())) return "";
  return text(path_of(name), ": ", std::strerror(written < 0 ? errno : ENOSPC));
}

void DiskCache::count_failed_write(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (counts_.failed_writes++ == 0) warn(text("compile cache: ", why));
}

std::vector<DiskCache::Entry> DiskCache::list_entries() {
  std::vector<Entry> entries;
  const int fd = openat(folder_->fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* folder = fd < 0 ? nullptr : fdopendir(fd);
  if (!folder) return entries;
  while (const dirent* item = readdir(folder)) {
    struct stat info {};
    const std::string name = item->d_name;
    if (fstatat(dirfd(folder), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode))
      continue;
    if (name.starts_with(temporary_prefix)) {  // left by a killed process, or being written now
      remove_if_abandoned(dirfd(folder), item->d_name);
    } else if (name.size() == 64 || name.ends_with(".corrupt")) {
      entries.push_back(
          {name, room_on_disk(info.st_size), info.st_mtim.tv_sec * 1000000000ll + info.st_mtim.tv_nsec});
    }
  }
  closedir(folder);
  return entries;
}

void DiskCache::evict_if_full(int64_t written) {
  std::lock_guard lock(mutex_);
  ++counts_.writes;
  if (unscanned_bytes_ >= 0) {
    unscanned_bytes_ += written;
    // Others write too: measure again after an eighth of the limit even if our own sum looks fine.
    if (measured_bytes_ + unscanned_bytes_ <= max_bytes_ && unscanned_bytes_ <= max_bytes_ / 8)
      return;
  }
  std::vector<Entry> entries = list_entries();
  unscanned_bytes_ = measured_bytes_ = 0;
  for (const Entry& entry : entries) measured_bytes_ += entry.bytes;
  if (measured_bytes_ <= max_bytes_) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used_ns < b.used_ns; });
  for (const Entry& entry : entries) {
    if (measured_bytes_ <= max_bytes_ / 4 * 3) break;
    if (unlinkat(folder_->fd(), entry.name.c_str(), 0) == 0) ++counts_.evicted;
    measured_bytes_ -= entry.bytes;  // gone either way: if not by us, by another process
  }
}

DiskCache::Counts DiskCache::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace mote
