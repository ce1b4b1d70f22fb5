#include "runtime/cpu_info.h"

#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/cgroup.h"
#include "base/integers.h"
#include "base/number.h"
#include "base/threads.h"

namespace mote {
namespace {

// The first of the lines "name  : value" in /proc/cpuinfo; empty if there is none.
std::string cpuinfo_line(const std::string& name) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name) && line.find(": ") != line.npos)
      return line.substr(line.find(": ") + 2);
  return "";
}

// "48K" -> 49152; 0 if unreadable.
int64_t parse_size(const std::string& text) {
  int64_t value = 0;
  size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && value < (1 << 30); ++i)
    value = value * 10 + (text[i] - '0');
  const char unit = i < text.size() ? text[i] : '\0';
  return unit == 'K' ? value << 10 : unit == 'M' ? value << 20 : value;
}

std::string first_word(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  std::string_view rest = line;
  return std::string(take_word(rest));
}

void read_caches(CpuInfo& info) {
  for (int i = 0; i < 8; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    const std::string type = first_word(folder + "type"), level = first_word(folder + "level");
    if (type != "Data" && type != "Unified") continue;
    const int64_t bytes = parse_size(first_word(folder + "size"));
    if (level == "1") info.l1d_bytes = bytes;
    if (level == "2") info.l2_bytes = bytes;
    if (level == "3") info.l3_bytes = bytes;
    if (level == "3") info.l3_cores = count_listed(first_word(folder + "shared_cpu_list"));
    const int64_t line = parse_size(first_word(folder + "coherency_line_size"));
    if (line > 0) info.line_bytes = static_cast<int>(line);
  }
  // Containers and some virtual machines hide the caches; these are small for any current core.
  if (info.l1d_bytes == 0) info.l1d_bytes = 32 << 10;
  if (info.l2_bytes == 0) info.l2_bytes = 512 << 10;
}

void read_vectors(CpuInfo& info) {
#if defined(__x86_64__)
  // These builtins also ask whether the system saves the wide registers.
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  info.vector_bytes = avx512 ? 64 : __builtin_cpu_supports("avx2") ? 32 : 16;
  info.vector_registers = avx512 ? 32 : 16;
  info.fma = __builtin_cpu_supports("fma");
  unsigned a = 0, b = 0, c = 0, d = 0;  // clang 14 has no name for F16C
  info.f16c = __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  info.avx512bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  const bool avx_vnni = __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
  info.vnni = avx512 ? __builtin_cpu_supports("avx512vnni") : info.vector_bytes == 32 && avx_vnni;
#elif defined(__aarch64__)
  info.vector_registers = 32;
  info.fma = true;
  info.f16c = true;
#endif
}

int64_t memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const int64_t physical = pages > 0 && page > 0 ? pages * page : int64_t{1} << 30;
  const int64_t limit = cgroup_limits().memory_bytes;
  return limit > 0 ? std::min(physical, limit) : physical;
}

}  // namespace

int count_listed(const std::string& text) {
  int count = 0;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    const int64_t first = parse_size(part), last = parse_size(part.substr(dash + 1));
    count += static_cast<int>(std::max<int64_t>(last - first, 0) + 1);
  }
  return std::max(count, 1);
}

// An even part for each core, within bounds: cores are seldom all busy, and a virtual machine shows
// the cache of a host that has more of them.
int64_t cache_share(const CpuInfo& info, int threads) {
  threads = std::min(threads, info.cores);
  constexpr int64_t kLeast = 4, kMost = 16;
  const int64_t even = info.l3_bytes / info.l3_cores;
  const int64_t of_one = std::clamp(even, kLeast * info.l2_bytes, kMost * info.l2_bytes);
  const int caches = ceil_div(threads, info.l3_cores);
  return std::max(info.l2_bytes, std::min(of_one * threads, info.l3_bytes * caches));
}

const CpuInfo& cpu_info() {
  static const auto& info = *new const CpuInfo([] {
    CpuInfo read;
    read.model = cpuinfo_line("model name");
    if (read.model.empty()) read.model = "unknown CPU";
#if defined(__aarch64__)
    read.features = cpuinfo_line("CPU part") + " " + cpuinfo_line("Features");
#else
    read.features = cpuinfo_line("flags");
#endif
    read.cores = usable_cores();
    read_caches(read);
    read_vectors(read);
    // Measured: their cores wait for main memory where loads do more than add up; others do not.
    if (cpuinfo_line("vendor_id") == "GenuineIntel") read.ahead_bytes = 8192;
    // Zen 4 works on half of a register of AVX-512 at a time.
    if (cpuinfo_line("vendor_id") == "AuthenticAMD" && cpuinfo_line("cpu family") == "25")
      read.step_bytes = 32;
    read.memory_bytes = memory();
    return read;
  }());
  return info;
}

}  // namespace mote
