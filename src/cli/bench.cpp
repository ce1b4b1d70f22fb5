// `mote bench`: which part is asked for.
#include "cli/bench.h"

#include <unistd.h>

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
    {"threads", "N", "threads of both sides (1)", "cpu"},
    {"only", "TEXT", "rows with this in their names, or (cpu) with one of several parted by commas",
     "cpu|cuda"},
    {"seconds", "X", "about how long all rows take together (120)", "cpu"},
    {"search", "X", "first search the loops of each kernel for at most so many seconds", "cpu"}};

int run_bench(const Words& words) {
  if (words.operand(0) == "cuda") return bench_cuda(words);
  return words.operand(0) == "host" ? bench_host(words) : bench_cpu(words);
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

constexpr char more[] =
    "host: the time from tensor calls to kernel text, of known models, against bars.\n"
    "cpu: generated kernels beside OpenBLAS, oneDNN, glibc, PyTorch and plain loops, in turn; the\n"
    "ratio is their time by ours. The launcher ./mote installs them where they are missing.\n"
    "cuda: kernels on the GPU, products beside cuBLAS.\n";

const Command bench_command = {
    "bench", "host|cpu|cuda", "host time and kernels, against their bars", options, run_bench,
    more};

}  // namespace mote
