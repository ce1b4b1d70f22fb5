#include "cli/same_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "runtime/output_file.h"

namespace mote {

namespace {

struct Identity {
  bool known = false;
  dev_t device = 0;
  ino_t inode = 0;
  std::string name = "";  // of a file that is not there, in the folder that device and inode name
  std::string folder = "";
};

Identity identity_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) return {true, info.st_dev, info.st_ino};
  const std::string target = behind_links(path);
  const size_t slash = target.rfind('/');
  const std::string folder = slash == target.npos ? "." : target.substr(0, slash + 1);
  if (::stat(folder.c_str(), &info) != 0) return {};
  return {true, info.st_dev, info.st_ino, target.substr(slash == target.npos ? 0 : slash + 1),
          folder};
}

bool equal_but_for_case(const std::string& a, const std::string& b) {
  auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, {}, small, small);
}

// By trying: whether A and a are one file depends on the file system, or even on the folder.
bool ignores_case(const std::string& folder) {
  std::string probe = folder + "/.mote-case-XXXXXX";
  const int fd = ::mkstemp(probe.data());
  if (fd < 0) return false;
  ::close(fd);
  std::string other = probe;
  other.replace(other.rfind("mote-case"), 9, "MOTE-CASE");
  const bool same = ::access(other.c_str(), F_OK) == 0;
  ::unlink(probe.c_str());
  return same;
}

bool same(const Identity& a, const Identity& b) {
  if (!a.known || !b.known || a.device != b.device || a.inode != b.inode) return false;
  return a.name == b.name || (equal_but_for_case(a.name, b.name) && ignores_case(a.folder));
}

}  // namespace

void check_distinct_files(std::string_view command, std::span<const UsedPath> paths) {
  struct File {
    std::string name, path;
    bool written;
    Identity identity;
  };
  std::vector<File> files;
  for (const UsedPath& used : paths)
    if (!used.path.empty())
      files.push_back({used.name, used.path, used.written, identity_of(used.path)});
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat info;
    if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
      files.push_back({
          fd == STDOUT_FILENO ? "stdout" : "stderr", "", true, {true, info.st_dev, info.st_ino}
      });
  }
  for (size_t i = 0; i < files.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const File &a = files[j], &b = files[i];
      if (a.path.empty() || !(a.written || b.written)) continue;
      check(!same(a.identity, b.identity), "[", command, "] ", a.name, " and ", b.name,
            " are the same file: ", printable(a.path));
    }
}

}  // namespace mote
