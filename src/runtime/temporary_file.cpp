#include "runtime/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>

#include "base/error.h"

namespace mote {

namespace {

enum class Lock { Ours, Others, None };

// None: the file system has no locks, as some that are reached over a network.
Lock try_lock(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return Lock::Ours;
  return errno == EWOULDBLOCK ? Lock::Others : Lock::None;
}

bool is_abandoned(int fd) {
  constexpr time_t long_ago = 3600;
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const Lock lock = try_lock(fd);
  return lock == Lock::Ours || (lock == Lock::None && info.st_mtime + long_ago < ::time(nullptr));
}

// Locked, and still there once it is: a cleaner may have had it between its making and the lock.
bool is_kept(int fd) {
  struct stat info;
  const Lock lock = try_lock(fd);
  return lock == Lock::None || (lock == Lock::Ours && ::fstat(fd, &info) == 0 && info.st_nlink > 0);
}

}  // namespace

// "PID-N". Processes of several hosts may share a folder: a name that is taken is no error.
int make_temporary(const std::string& prefix, std::string& name,
                   const std::function<int(const std::string&)>& create) {
  static std::atomic<unsigned> made{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    name = text(prefix, ::getpid(), "-", made++);
    const int fd = create(name);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0 || is_kept(fd)) return fd;
    ::close(fd);  // whoever has the lock removes it
  }
  errno = EEXIST;
  return -1;
}

bool is_temporary_end(std::string_view end) {
  constexpr std::string_view digits = "0123456789";
  const size_t dash = end.find('-');
  return dash != end.npos && dash > 0 && dash + 1 < end.size() &&
         end.find_first_not_of(digits) == dash &&
         end.find_first_not_of(digits, dash + 1) == end.npos;
}

void remove_if_abandoned(int folder, const char* name) {
  // Network file systems lock only what may be written.
  const int fd = ::openat(folder, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  if (is_abandoned(fd)) ::unlinkat(folder, name, 0);
  ::close(fd);
}

}  // namespace mote
