// `mote bench wide`: every row on both sides in turn, medians, results compared.
#include "cli/bench_wide.h"

#include <mote/jit.h>
#include <mote/search.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/number.h"
#include "base/threads.h"
#include "cli/bench.h"
#include "cli/bench_cpu_peers.h"
#include "engine/realize.h"
#include "runtime/device.h"

namespace mote {

namespace {

using namespace wide;
using bench::TorchChild;
using Clock = std::chrono::steady_clock;

struct Settings {
  int threads;
  double seconds;       // to measure a row
  double limit;         // for our side of one
  bool processor_time;  // instead of the clock's
  double search;        // seconds, before a row's first run
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// ---- the other side

class Torch {
 public:
  explicit Torch(int threads) : path_(text("/tmp/mote-wide-", getpid())) {
    // Its workers sleep as soon as they have nothing to do.
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("GOMP_SPINCOUNT", "0", 1);
    setenv("KMP_BLOCKTIME", "0", 1);
    setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
    child_.emplace("bench_wide.py", std::vector<std::string>{std::to_string(threads), path_});
  }
  ~Torch() { std::remove(path_.c_str()); }

  void start(const Row& row) {
    const std::string answer = child_->ask("row " + row.program);
    check(answer == "ok", "PyTorch answers: ", answer);
  }
  double milliseconds(int times, bool processor_time) {
    const std::string answer = child_->ask("time " + std::to_string(times));
    const size_t space = answer.find(' ');
    double ms = 0;
    const bool read =
        space != answer.npos &&
        read_number(processor_time ? answer.substr(space + 1) : answer.substr(0, space), ms);
    check(read, "PyTorch answers: ", answer);
    return ms;
  }
  std::string results_path() const { return path_; }

 private:
  std::string path_;
  std::optional<TorchChild> child_;
};

// ---- our side

struct Ours {
  std::shared_ptr<Script> script;
  std::function<std::vector<Tensor>()> call;
  std::vector<Tensor> results;

  explicit Ours(const Row& row) : script(std::make_shared<Script>(row.program)) {
    script->prepare();
    auto f = [s = script] { return s->run(); };
    auto compiled = std::make_shared<Jit<decltype(f)>>(jit(f));
    call = [compiled] { return (*compiled)(); };
  }
  void run() {
    results.clear();  // so that a replay writes where the one before it did
    results = call();
    device("CPU").synchronize();
  }
  double milliseconds(int times, bool processor_time) {
    const auto start = Clock::now();
    const double used = processor_seconds();
    for (int i = 0; i < times; ++i) run();
    const double took = processor_time ? processor_seconds() - used : seconds_since(start);
    return took * 1e3 / times;
  }
};

// Ends a row whose call does not return: what is known of it goes to the file, and the program
// starts again, where it continues behind this row.
class Watch {
 public:
  Watch(double limit, std::function<void()> at_end)
      : thread_([this, limit, at_end] {
          std::unique_lock lock(mutex_);
          if (!over_.wait_for(lock, std::chrono::duration<double>(limit), [&] { return done_; }))
            at_end();
        }) {}
  ~Watch() {
    {
      std::scoped_lock lock(mutex_);
      done_ = true;
    }
    over_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
  std::thread thread_;
};

std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> out;
  for (std::string word; std::getline(file, word, '\0');) out.push_back(word);
  return out;
}
[[noreturn]] void start_again() {
  std::vector<std::string> words = own_words();
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  execv(own_path().c_str(), argv.data());
  _exit(127);
}

// ---- measuring

double median(std::vector<double>& samples) {
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}
// So many runs take so many milliseconds.
int times_for(double ms, double all) {
  return std::max(1, static_cast<int>(std::ceil(all / std::max(ms, 1e-3))));
}

constexpr size_t kFewest = 3, kMost = 31;
constexpr double kSample = 2;
// A side finds its data in the caches as it left them itself, not as the other one did: it runs for
// so long before each sample, for caches change hands within a few rounds. Calls that take longer
// than kLong milliseconds do not find much of it anyway.
constexpr double kWarm = 4, kLong = 50;

struct Side {
  std::function<double(int)> milliseconds;  // of each of so many calls
  int times, before;
  std::vector<double> samples = {};
  explicit Side(std::function<double(int)> f) : milliseconds(std::move(f)) {
    milliseconds(1);
    const double ms = milliseconds(1);
    times = times_for(ms, kSample), before = ms < kLong ? times_for(ms, kWarm) : 0;
  }
  void measure(bool wakes) {
    if (before || wakes) milliseconds(std::max(before, 1));
    samples.push_back(milliseconds(times));
  }
};

void measure(Torch& torch, Ours& ours, const Settings& set, Figures& out) {
  const bool cpu = set.processor_time, wakes = set.threads > 1;
  Side theirs([&](int times) { return torch.milliseconds(times, cpu); });
  Side own([&](int times) { return ours.milliseconds(times, cpu); });
  const auto start = Clock::now();
  while (own.samples.size() < kFewest ||
         (own.samples.size() < kMost && seconds_since(start) < set.seconds)) {
    theirs.measure(wakes), own.measure(wakes);
    if (seconds_since(start) > 10 * set.seconds) break;  // one round of a slow row must do
  }
  out.ms = median(own.samples), out.peer_ms = median(theirs.samples);
}

Figures run_row(const Row& row, Torch& torch, const Settings& set, Results& results) {
  Figures f;
  f.row = row;
  try {
    torch.start(row);
    auto give_up = [&] {
      f.peer_ms = torch.milliseconds(1, set.processor_time);
      f.ms = set.limit * 1e3, f.over = true;
      results.add(f);
      start_again();
    };
    Ours ours(row);
    if (set.search > 0) {
      realize(ours.script->run());
      search(set.search);
    }
    for (int i = 0; i < 3; ++i) {  // called, captured, replayed
      Watch watch(set.limit, give_up);
      ours.run();
    }
    f.wrong = compare_results(torch.results_path(), ours.results, *ours.script);
    measure(torch, ours, set, f);
  } catch (const std::exception& error) { f.wrong = error.what(); }
  return f;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  check(bool(file), "[bench] cannot read ", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Row> chosen_rows(const Words& words) {
  const std::string path = tool_path("bench_wide.rows");
  std::vector<Row> rows =
      read_rows(read_file(path), path, static_cast<uint64_t>(words.integer("seed", 1)));
  const std::string only = words.text("only");
  if (!only.empty())
    std::erase_if(rows, [&](const Row& r) {
      return !is_among(r.name, only) && !is_among(r.kind, only);
    });
  check(!rows.empty(), "[bench] no row and no class is called ", only);
  return rows;
}

std::string default_results(int threads) {
  const std::string self = own_path();
  return text(self.substr(0, self.rfind('/')), "/bench_wide.", threads, ".tsv");
}

}  // namespace

int bench_wide(const Words& words) {
  const int threads = static_cast<int>(std::max<int64_t>(1, words.integer("threads", 1)));
  setenv("MOTE_THREADS", std::to_string(threads).c_str(), 1);
  set_thread_count(threads);
  const std::vector<Row> rows = chosen_rows(words);
  const double seconds = words.number("seconds", 400) / static_cast<double>(rows.size());
  const Settings set{threads, seconds, words.number("limit", 30), words.has("processor-time"),
                     words.number("search", 0)};
  check(threads == 1 || !set.processor_time, "[bench] --processor-time is for one thread");
  Results results(words.text("results", default_results(threads)), threads);
  std::optional<Torch> torch;
  std::vector<Figures> all;
  const bool json = words.has("json");
  if (!json) std::printf("%-28s %11s %11s %8s\n", "row", "PyTorch ms", "mote ms", "ratio");
  for (const Row& row : rows) {
    show_progress(text(all.size() + 1, " of ", rows.size(), ": ", row.name), json);
    if (const Figures* before = results.find(row)) {
      all.push_back(*before);
      all.back().row = row;
    } else {
      if (!torch) torch.emplace(threads);
      all.push_back(run_row(row, *torch, set, results));
      clear_caches();  // rows do not share kernels, nor memory
      results.add(all.back());
    }
    show_progress("", json);
    if (!json) print_line(all.back());
  }
  if (!words.has("results")) results.remove();
  if (json) print_json(all);
  print_summary(all, json ? stderr : stdout);
  const bool failed = std::ranges::any_of(all, [](auto& f) { return !f.wrong.empty(); });
  return failed || (words.has("check") && !holds(all)) ? 1 : 0;
}

}  // namespace mote
