// `mote bench`: which part is asked for.
#include "cli/bench.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "cli/commands.h"

namespace mote {

namespace {

constexpr Option options[] = {
    {"json", "", "print JSON"},
    {"check", "", "exit with 1 where a bar is missed"},
    {"row", "NAME", "measure one row in this process", "host"},
    {"tinygrad", "CHECKOUT", "also run tinygrad's MNIST step on its NULL device", "host"},
    {"threads", "N", "threads of both sides (1)", "cpu|wide"},
    {"only", "TEXT", "rows with this in their names, or one of several parted by commas",
     "cpu|cuda|wide"},
    {"seconds", "X", "about how long all rows take together (cpu: 120, wide: 400)", "cpu|wide"},
    {"search", "X", "first search the loops of each kernel for at most so many seconds",
     "cpu|wide"},
    {"seed", "N", "draws the sizes of a third of the rows (1)", "wide"},
    {"limit", "X", "stop our side of a row after so many seconds (30)", "wide"},
    {"results", "FILE", "keep results there; rows that it has are not measured again", "wide"},
    {"processor-time", "", "not the clock's: for one thread on a machine with other work", "wide"}};

int run_bench(const Words& words) {
  if (words.operand(0) == "host") return bench_host(words);
  if (words.operand(0) == "cuda") return bench_cuda(words);
  return words.operand(0) == "cpu" ? bench_cpu(words) : bench_wide(words);
}

}  // namespace

std::string own_path() {
  std::string self(4096, '\0');
  ssize_t n = readlink("/proc/self/exe", self.data(), self.size());
  self.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return self;
}

std::string tool_path(const std::string& name) {
  std::string self = own_path();
  return self.substr(0, self.rfind('/')) + "/../tools/" + name;
}

bool is_among(std::string_view name, std::string_view parts) {
  for (;;) {
    const size_t comma = parts.find(',');
    if (name.find(parts.substr(0, comma)) != name.npos) return true;
    if (comma == parts.npos) return false;
    parts.remove_prefix(comma + 1);
  }
}

void show_progress(const std::string& line, bool json) {
  if (isatty(STDERR_FILENO))
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
  else if (json && !line.empty())
    std::fprintf(stderr, "%s\n", line.c_str());
}

constexpr char more[] =
    "host: the time from tensor calls to kernel text, of known models, against bars.\n"
    "cpu: generated kernels beside OpenBLAS, oneDNN, glibc, PyTorch and plain loops, in turn; the\n"
    "ratio is their time by ours. The launcher ./mote installs them where they are missing.\n"
    "cuda: kernels on the GPU, products beside cuBLAS.\n"
    "wide: operations and models of many shapes (tools/bench_wide.rows) beside PyTorch, in turn.\n"
    "A run that was interrupted is continued by the next one.\n";

const Command bench_command = {
    "bench", "host|cpu|cuda|wide", "host time and kernels, against their bars", options, run_bench,
    more};

}  // namespace mote
