#include "engine/profile.h"

#include <mote/memory.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>

#include "base/number.h"
#include "ir/provenance.h"
#include "tensor/impl.h"

namespace mote {

namespace {

struct Row {
  uint64_t calls = 0;
  double seconds = 0, ops = 0, bytes = 0, compile_ms = 0;
};
using Key = std::tuple<std::string, std::string, std::string>;  // kernel, module, line

// Never destroyed: kernels run until the process is gone.
struct Profile {
  std::mutex mutex;
  std::map<Key, Row> rows;
};
Profile& profile() {
  static auto* all = new Profile;
  return *all;
}

void print_at_exit() {
  if (!profile().rows.empty()) std::fprintf(stderr, "%s", profile_text().c_str());
}

std::string right(const std::string& s, size_t width) {
  return std::string(s.size() < width ? width - s.size() : 0, ' ') + s;
}
std::string left(const std::string& s, size_t width) {
  return s + std::string(s.size() < width ? width - s.size() : 0, ' ');
}

struct Column {
  const char* title;
  size_t width;
};
constexpr Column numbers[] = {
    {"ms",         10},
    {"share",      7 },
    {"calls",      8 },
    {"GFLOPS",     9 },
    {"GB/s",       8 },
    {"compile ms", 12}
};

}  // namespace

void note_kernel_run(const Kernel& kernel, uint32_t id, double seconds) {
  const Provenance by = provenance(id);
  Profile& p = profile();
  std::lock_guard lock(p.mutex);
  static const int registered = std::atexit(print_at_exit);
  (void)registered;
  Row& row = p.rows[{kernel.name, by.module, place(id)}];
  ++row.calls;
  row.seconds += seconds;
  row.ops += kernel.estimate.ops, row.bytes += kernel.estimate.bytes;
  row.compile_ms = kernel.compile_ms;
}

std::string profile_text() {
  Profile& p = profile();
  std::lock_guard lock(p.mutex);
  std::vector<std::pair<Key, Row>> rows(p.rows.begin(), p.rows.end());
  std::ranges::sort(rows, std::greater<>(), [](auto& r) { return r.second.seconds; });
  double total = 0;
  uint64_t calls = 0;
  size_t kernel_width = 6, module_width = 6;
  for (const auto& [key, row] : rows) {
    total += row.seconds, calls += row.calls;
    kernel_width = std::max(kernel_width, std::get<0>(key).size());
    module_width = std::max(module_width, std::get<1>(key).size());
  }
  const MemoryStats memory = memory_stats();
  std::string out = text(
      "profile: ", calls, " kernels ran for ", fixed_text(total * 1e3, 3), " ms, one by one; ",
      counters().kernels_compiled.load(), " compiled in ", fixed_text(counters().lower_ms, 1),
      " ms; at most ", fixed_text(static_cast<double>(memory.peak_bytes) / 1e6, 1), " MB in use\n");
  for (const Column& c : numbers) out += right(c.title, c.width);
  out += "  " + left("kernel", kernel_width) + "  " + left("module", module_width) + "  line\n";
  for (const auto& [key, row] : rows) {
    const std::string cells[] = {fixed_text(row.seconds * 1e3, 3),
                                 fixed_text(100 * row.seconds / total, 1) + "%",
                                 std::to_string(row.calls),
                                 fixed_text(row.ops / row.seconds / 1e9, 1),
                                 fixed_text(row.bytes / row.seconds / 1e9, 1),
                                 fixed_text(row.compile_ms, 1)};
    for (size_t i = 0; i < std::size(numbers); ++i) out += right(cells[i], numbers[i].width);
    out += "  " + left(std::get<0>(key), kernel_width) + "  " +
           left(std::get<1>(key), module_width) + "  " + std::get<2>(key) + "\n";
  }
  return out;
}

void clear_profile() {
  Profile& p = profile();
  std::lock_guard lock(p.mutex);
  p.rows.clear();
}

MemoryStats memory_stats(const std::string& name, Loc where) {
  OuterCall call("memory_stats", where);
  MemoryPool& pool = device(device_from(name)).pool();
  return {pool.live_bytes(), pool.most_used_bytes(), pool.kept_bytes(), pool.allocations()};
}

}  // namespace mote
