#include "runtime/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "ir/provenance.h"
#include "runtime/temporary_file.h"

namespace mote {

namespace {

constexpr size_t pending_limit = 1 << 16;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// "folder/.name.saving-": what all temporary files for a path begin with. A long name is cut, at
// the beginning of a character, so that what follows it fits.
std::string temporary_prefix(const std::string& path) {
  constexpr size_t longest = 200;
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  size_t length = std::min(path.size() - name, longest);
  while (name + length < path.size() && (path[name + length] & 0xc0) == 0x80) --length;
  return path.substr(0, name) + "." + path.substr(name, length) + ".saving-";
}

void remove_abandoned(const std::string& prefix) {
  const std::string folder = folder_of(prefix), start = prefix.substr(prefix.rfind('/') + 1);
  DIR* listing = ::opendir(folder.c_str());
  if (!listing) return;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(start) && is_temporary_end(name.substr(start.size())))
      remove_if_abandoned(::dirfd(listing), entry->d_name);
  }
  ::closedir(listing);
}

// Whether a file could not be flushed for lack of the means, which is no reason to fail.
bool cannot_flush() { return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP; }

}  // namespace

std::string behind_links(std::string path) {
  constexpr int most = 40;  // as the system
  for (int i = 0; i < most; ++i) {
    char to[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), to, sizeof to);
    if (length < 0) return path;
    const std::string next(to, static_cast<size_t>(length));
    path = next.starts_with('/') ? next : folder_of(path) + "/" + next;
  }
  return path;
}

OutputFile::OutputFile(const std::string& path) : path_(path), target_(behind_links(path)) {
  struct stat old;
  const bool replaces = ::stat(path.c_str(), &old) == 0;
  if (!replaces && errno == ELOOP) fail_with("write");
  if (replaces && S_ISDIR(old.st_mode)) errno = EISDIR, fail_with("write");
  // A device or a pipe would be replaced by a file.
  if (replaces && !S_ISREG(old.st_mode))
    fail(ErrorKind::Device,
         text("[", current_method(), "] ", printable(path_), " is not a regular file"));
  // Replacing would get around the file's own mode.
  if (replaces && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) fail_with("write");
  const std::string prefix = temporary_prefix(target_);
  remove_abandoned(prefix);
  // From the first moment nobody may read it who may not read what it replaces.
  const mode_t mode = replaces ? old.st_mode & 0777 : 0666;
  fd_ = make_temporary(prefix, temporary_, [&](const std::string& name) {
    return ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  });
  if (fd_ < 0) {
    temporary_.clear();
    fail_with("create a file beside");
  }
  if (replaces) ::fchmod(fd_, mode);  // whatever the umask
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::fail_with(const char* what) const {
  const int reason = errno;
  fail(ErrorKind::Device, text("[", current_method(), "] cannot ", what, " ", printable(path_),
                               ": ", std::strerror(reason)));
}

void OutputFile::write(std::string_view bytes) {
  size_ += bytes.size();
  if (pending_.size() + bytes.size() > pending_limit) flush();
  if (bytes.size() > pending_limit)
    send(bytes);
  else
    pending_ += bytes;
}

void OutputFile::write(std::span<const uint8_t> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void OutputFile::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with("write");
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

void OutputFile::flush() {
  send(pending_);
  pending_.clear();
}

// The folder is flushed too: else a power cut could forget the rename.
void OutputFile::commit() {
  flush();
  if (::fsync(fd_) != 0 && !cannot_flush()) fail_with("write");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_with("replace");
  temporary_.clear();
  const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written but not read
  const bool failed = ::fsync(folder) != 0 && !cannot_flush();
  const int reason = errno;
  ::close(folder);
  errno = reason;
  if (failed) fail_with("write the folder of");
}

}  // namespace mote
