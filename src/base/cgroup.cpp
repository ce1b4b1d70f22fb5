#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/number.h"

namespace mote {
namespace {

// The group's path for a version 1 controller, or for version 2 when controller is empty.
std::string group_path(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "4:memory:/path", "0::/path"
    size_t a = line.find(':'), b = a == line.npos ? a : line.find(':', a + 1);
    if (b == line.npos) continue;
    std::string names = "," + line.substr(a + 1, b - a - 1) + ",";
    if (controller.empty() ? names == ",," : names.find("," + controller + ",") != names.npos)
      return line.substr(b + 1);
  }
  return "/";
}

// Calls use(folder) for the group's folder and each one above it. A container may see only the
// root: missing folders are harmless, their files just do not open.
template <class Use>
void for_each_group(const std::string& mount, std::string path, Use use) {
  while (path.size() > 1) {
    use(mount + path);
    path.resize(path.rfind('/') == path.npos ? 0 : path.rfind('/'));
  }
  use(mount);
}

template <class... T>
bool read_values(const std::string& file, T&... values) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  std::string_view rest = line;
  return (read_number(take_word(rest), values) && ...);
}

template <class T>
void tighten(T& limit, T value) {
  if (value > 0) limit = limit > 0 ? std::min(limit, value) : value;
}

}  // namespace

CgroupLimits cgroup_limits() {
  CgroupLimits limits;
  constexpr int64_t unlimited = int64_t{1} << 60;  // version 1 writes a huge number for "none"
  const auto memory = [&](const std::string& file) {
    int64_t bytes = 0;  // version 2 writes "max", which does not read as a number
    if (read_values(file, bytes) && bytes < unlimited) tighten(limits.memory_bytes, bytes);
  };
  for_each_group("/sys/fs/cgroup", group_path(""), [&](const std::string& folder) {
    double quota = 0, period = 0;
    if (read_values(folder + "/cpu.max", quota, period) && period > 0)
      tighten(limits.cpus, quota / period);
    memory(folder + "/memory.max");
  });
  for_each_group("/sys/fs/cgroup/cpu", group_path("cpu"), [&](const std::string& folder) {
    double quota = 0, period = 0;
    if (read_values(folder + "/cpu.cfs_quota_us", quota) &&
        read_values(folder + "/cpu.cfs_period_us", period) && quota > 0 && period > 0)
      tighten(limits.cpus, quota / period);
  });
  for_each_group("/sys/fs/cgroup/memory", group_path("memory"),
                 [&](const std::string& folder) { memory(folder + "/memory.limit_in_bytes"); });
  return limits;
}

}  // namespace mote
