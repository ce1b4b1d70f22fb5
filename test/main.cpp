// The tests' main program: doctest's, with the long tests (suite "soak") left out unless MOTE_SOAK
// is set, every graph checked between passes (SPEC) unless MOTE_SPEC says otherwise, the slow tests
// named at the end, and a filter that no test passes taken for an error.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iomanip>
#include <ostream>
#include <string>
#include <vector>

#include "test_paths.h"

namespace {

constexpr double slow_seconds = 5;
bool nothing_ran = false;

class RunReporter : public doctest::IReporter {
 public:
  explicit RunReporter(const doctest::ContextOptions& options) : out_(*options.cout) {}

  void test_case_start(const doctest::TestCaseData& test) override { name_ = test.m_name; }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (stats.seconds >= slow_seconds) slow_.push_back({name_, stats.seconds});
  }
  void test_run_end(const doctest::TestRunStats& stats) override {
    nothing_ran = stats.numTestCasesPassingFilters == 0;
    if (nothing_ran) out_ << "no test passes the filters\n";
    for (const auto& [name, seconds] : slow_)
      out_ << "slow: " << std::fixed << std::setprecision(1) << seconds << " s  " << name << "\n";
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  struct Slow {
    std::string name;
    double seconds;
  };
  std::ostream& out_;
  std::string name_;
  std::vector<Slow> slow_;
};

}  // namespace

REGISTER_LISTENER("run", 1, RunReporter);

int main(int argc, char** argv) {
  setenv("MOTE_SPEC", "1", /*overwrite=*/0);
  // Thousands of random kernels would push the user's own out of the compile cache.
  setenv("MOTE_CACHE_DIR", MOTE_BINARY_DIR "/kernel_cache", /*overwrite=*/0);
  doctest::Context context;
  if (!std::getenv("MOTE_SOAK")) context.addFilter("test-suite-exclude", "soak");
  context.applyCommandLine(argc, argv);
  const int failed = context.run();
  return failed || nothing_ran;
}
