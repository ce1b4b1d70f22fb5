// `mote bench`: which part is asked for.
#include "cli/bench.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "cli/commands.h"

namespace mote {

namespace {

// clang-format off
constexpr Option options[] = {
    {"json", "", "print JSON"},
    {"check", "", "exit with status 1 if a bar is missed"},
    {"row", "NAME", "measure one row in this process (onnx: NAME,SIDE,MODEL)", "host|onnx"},
    {"tinygrad", "CHECKOUT", "also run tinygrad's MNIST step on its NULL device", "host"},
    {"threads", "N", "threads for both sides (1; onnx: 1 and 2)", "cpu|wide|onnx"},
    {"only", "TEXT", "rows whose names contain TEXT, or one of several texts separated by commas",
     "cpu|cuda|wide|onnx"},
    {"seconds", "X", "approximate time for all rows (cpu: 120, wide: 400, onnx: 60)",
     "cpu|wide|onnx"},
    {"search", "X", "first search the loops of each kernel for up to X seconds", "cpu|wide"},
    {"seed", "N", "seed for the sizes of a third of the rows (1)", "wide"},
    {"limit", "X", "stop mote's side of a row after X seconds (30)", "wide"},
    {"results", "FILE", "keep results in FILE; rows found there are not measured again", "wide"},
    {"processor-time", "", "measure processor time: for one thread on a busy machine", "wide"},
};
// clang-format on

int run_bench(const Words& words) {
  if (words.operand(0) == "host") return bench_host(words);
  if (words.operand(0) == "cuda") return bench_cuda(words);
  if (words.operand(0) == "onnx") return bench_onnx(words);
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
    "host: time from tensor calls to kernel text for known models, compared with bars.\n"
    "cpu:  generated kernels and their peers (OpenBLAS, oneDNN, glibc, PyTorch, plain loops), run\n"
    "      in turns. The ratio is the peer's time divided by mote's. The launcher ./mote installs\n"
    "      missing peers.\n"
    "cuda: kernels on the GPU; products are compared with cuBLAS.\n"
    "wide: operations and models of many shapes (tools/bench_wide.rows) and PyTorch, run in "
    "turns.\n"
    "      An interrupted run is resumed by the next one.\n"
    "onnx: models in ONNX files and ONNX Runtime, run in turns: steady runs, the time from the\n"
    "      start of a process to its first results with and without a kernel cache, and memory.\n";

const Command bench_command = {
    "bench", "host|cpu|cuda|wide|onnx", "measure host time and kernels, beside other libraries",
    options, run_bench, more};

}  // namespace mote
