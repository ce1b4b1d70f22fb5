// PyTorch in a child process.
#include <unistd.h>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

std::vector<std::string> torch_words(const std::string& script, std::vector<std::string> words) {
  const std::string path = tool_path(script);
  check(access(path.c_str(), R_OK) == 0, path, " is not there");
  // The system's Python, whose packages the launcher installs.
  const bool has_system = access("/usr/bin/python3", X_OK) == 0;
  words.insert(words.begin(), {has_system ? "/usr/bin/python3" : "python3", path});
  return words;
}

}  // namespace

TorchChild::TorchChild(const std::string& script, const std::vector<std::string>& words)
    : LineChild(torch_words(script, words), "no PyTorch (package python3-torch)") {}

}  // namespace mote::bench
