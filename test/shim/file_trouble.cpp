// Loaded before the C library (LD_PRELOAD): file systems that are full, read-only or without locks.
// MOTE_TEST_TROUBLE is "CALL ERRNO [AFTER]": the call fails with that number, from its AFTER-th time
// on. All but flock only on the temporary files of OutputFile.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

bool is_temporary(const char* path) { return path && strstr(path, ".saving-"); }

bool is_temporary(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = 0;
  return is_temporary(path);
}

bool fails(const char* call) {
  static int seen = 0;
  char wanted[16];
  int number = 0, after = 0;
  const char* trouble = getenv("MOTE_TEST_TROUBLE");
  if (!trouble || sscanf(trouble, "%15s %d %d", wanted, &number, &after) < 2) return false;
  if (strcmp(wanted, call) != 0 || seen++ < after) return false;
  errno = number;
  return true;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int flock(int fd, int how) {
  return fails("flock") ? -1 : next<int(int, int)>("flock")(fd, how);
}
EXPORT ssize_t write(int fd, const void* data, size_t size) {
  if (is_temporary(fd) && fails("write")) return -1;
  return next<ssize_t(int, const void*, size_t)>("write")(fd, data, size);
}
EXPORT int fsync(int fd) {
  return is_temporary(fd) && fails("fsync") ? -1 : next<int(int)>("fsync")(fd);
}
EXPORT int rename(const char* from, const char* to) noexcept {
  if (is_temporary(from) && fails("rename")) return -1;
  return next<int(const char*, const char*)>("rename")(from, to);
}
EXPORT int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (is_temporary(path) && fails("open")) return -1;
  return next<int(const char*, int, ...)>("open")(path, flags, mode);
}
