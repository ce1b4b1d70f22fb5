#include "base/memory_at_hand.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

#include "base/cgroup.h"

namespace mote {

namespace {

// The first number behind `key`, or -1.
int64_t number_in(const char* path, std::string_view key) {
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t at = text.find(key);
  const size_t digits = at == text.npos ? at : text.find_first_of("0123456789", at + key.size());
  int64_t value = -1;
  if (digits != text.npos) std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return value;
}

}  // namespace

int64_t memory_at_hand() {
  int64_t left = INT64_MAX;
  if (int64_t kilobytes = number_in("/proc/meminfo", "MemAvailable:"); kilobytes >= 0)
    left = kilobytes << 10;
  if (int64_t limit = cgroup_limits().memory_bytes)
    left = std::min(left, limit - (number_in("/proc/self/status", "VmRSS:") << 10));
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
    left = std::min(left, static_cast<int64_t>(address_space.rlim_cur) -
                              (number_in("/proc/self/status", "VmSize:") << 10));
  return std::max<int64_t>(left, 0);
}

}  // namespace mote
