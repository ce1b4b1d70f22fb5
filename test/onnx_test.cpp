// ONNX models: the conformance suite's cases, and what the importer says about bad files.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <random>

#include "test/amount.h"
#include "test/onnx_cases.h"

using namespace mote;
using namespace mote::test;

namespace {

struct Count {
  int passed = 0, all = 0;
};

void report(const std::string& device, const std::vector<std::string>& failures,
            const std::map<std::string, Count>& groups) {
  for (const std::string& f : failures) std::printf("%s\n", f.c_str());
  for (const auto& [group, count] : groups)
    std::printf("%s on %s: %d of %d\n", group.c_str(), device.c_str(), count.passed, count.all);
  std::fflush(stdout);
}

void run_all(const std::string& device) {
  std::map<std::string, Count> groups;
  std::vector<std::string> failures;
  for (const OnnxCase& c : onnx_cases()) {
    if (is_left_out(c.name)) continue;
    Count& count = groups[c.name.substr(0, c.name.find('/'))];
    ++count.all;
    const std::string wrong = run_case(c, device);
    count.passed += wrong.empty();
    if (!wrong.empty()) failures.push_back(c.name + ": " + wrong);
  }
  report(device, failures, groups);
  CHECK(failures.empty());
}

}  // namespace

TEST_SUITE("soak") {
  TEST_CASE("onnx: every case of the conformance suite on CPU") { run_all("CPU"); }
  TEST_CASE("onnx: every case of the conformance suite on INTERP") { run_all("INTERP"); }
}
