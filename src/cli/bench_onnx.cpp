// `mote bench onnx`: both sides of each row in turn.
#include "cli/bench_onnx.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/number.h"
#include "cli/bench.h"
#include "cli/line_child.h"
#include "io/json.h"
#include "onnx/values.h"

namespace mote {

namespace {

using namespace onnx_bench;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kSteadyBar = 0.8, kFirstBar = 1, kColdBar = 3, kMemoryBar = 1.2;
constexpr size_t kStarts = 3, kFewest = 5, kMost = 31;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Figures {
  std::string name, wrong;
  int threads = 1;
  double peer_ms = 0, ms = 0;                  // of a run
  double peer_first = 0, first = 0, cold = 0;  // seconds from the start to the first results
  double peer_memory = 0, memory = 0;          // at most, in MB
  double steady() const { return ms > 0 ? peer_ms / ms : 0; }
  double start() const { return first > 0 ? peer_first / first : 0; }
  double more_memory() const { return peer_memory > 0 ? memory / peer_memory : 0; }
  bool holds() const {
    return wrong.empty() && steady() >= kSteadyBar && start() >= kFirstBar && cold <= kColdBar &&
           more_memory() <= kMemoryBar;
  }
};

double median(std::vector<double> samples) {
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

// A folder for models, results and an empty kernel cache.
struct WorkFolder {
  fs::path path;
  WorkFolder() {
    std::string name = (fs::temp_directory_path() / "mote-bench-XXXXXX").string();
    check(mkdtemp(name.data()), "[bench] cannot make a folder in ",
          fs::temp_directory_path().c_str());
    path = name;
  }
  ~WorkFolder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  WorkFolder(const WorkFolder&) = delete;
};

class Side {
 public:
  Side(const Row& row, const char* name, const std::string& model, int threads) {
    const auto start = Clock::now();
    child_ = std::make_unique<LineChild>(
        std::vector<std::string>{own_path(), "bench", "onnx", "--threads", std::to_string(threads),
                                 "--row", text(row.name, ",", name, ",", model)},
        text("[bench] ", name));
    first_ = seconds_since(start);
  }
  double first() const { return first_; }
  double milliseconds(int64_t times) { return number(text("time ", times)); }
  double megabytes() { return number("memory") / 1024; }
  std::vector<std::vector<double>> results(const std::string& path) {
    ask("results " + path);
    std::ifstream in(path, std::ios::binary);
    std::vector<std::vector<double>> out;
    for (uint64_t count; in.read(reinterpret_cast<char*>(&count), sizeof count);) {
      std::vector<double>& list = out.emplace_back(count);
      in.read(reinterpret_cast<char*>(list.data()),
              static_cast<std::streamsize>(count * sizeof(double)));
    }
    return out;
  }

 private:
  std::string ask(const std::string& line) {
    const std::string answer = child_->ask(line);
    // An error of the child is the program's last line.
    check(answer.find("error") == answer.npos, answer);
    return answer;
  }
  double number(const std::string& line) {
    double out = 0;
    const std::string answer = ask(line);
    check(read_number(answer, out), "[bench] the answer to ", line, " is ", answer);
    return out;
  }
  std::unique_ptr<LineChild> child_;
  double first_ = 0;
};

std::string compare(const std::vector<std::vector<double>>& got,
                    const std::vector<std::vector<double>>& wanted, double tolerance) {
  if (got.size() != wanted.size()) return text(got.size(), " results, wanted ", wanted.size());
  for (size_t o = 0; o < got.size(); ++o) {
    const std::vector<double>&g = got[o], &w = wanted[o];
    if (g.size() != w.size())
      return text("result ", o, " has ", g.size(), " elements, wanted ", w.size());
    double mean = 0;
    for (const double v : w) mean += std::fabs(v) / static_cast<double>(w.size());
    for (size_t i = 0; i < g.size(); ++i) {
      const double off = std::fabs(g[i] - w[i]), most = std::max(std::fabs(w[i]), mean);
      if (!(off <= tolerance * most))
        return text("result ", o, ": element ", i, " is ", g[i], ", wanted ", w[i], ", mean size ",
                    mean);
    }
  }
  return "";
}

void measure(Side& theirs, Side& ours, double seconds, Figures& out) {
  std::vector<double> peer, own;
  // The first runs of ours compile what is replayed from then on.
  auto times_for = [](Side& s) {
    s.milliseconds(3);
    return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(5 / s.milliseconds(1))));
  };
  const int64_t peer_times = times_for(theirs), times = times_for(ours);
  const auto start = Clock::now();
  auto turn = [](Side& s, int64_t count, std::vector<double>& samples) {
    s.milliseconds(1);
    samples.push_back(s.milliseconds(count));
    // Workers that spin after a run have gone to sleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  while (own.size() < kFewest || (own.size() < kMost && seconds_since(start) < seconds)) {
    turn(theirs, peer_times, peer);
    turn(ours, times, own);
  }
  out.peer_ms = median(peer), out.ms = median(own);
}

std::string data_path(const std::string& name) {
  const std::string self = own_path();
  return self.substr(0, self.rfind('/')) + "/../../shared/data/" + name;
}

Figures run_row(const Row& row, int threads, double seconds, const fs::path& folder) {
  Figures f{.name = row.name, .threads = threads};
  try {
    std::string model = data_path(row.file);
    check(fs::exists(model), "there is no ../shared/data/", row.file);
    if (row.lacks_weights) {
      const std::string with = (folder / (row.name + ".onnx")).string();
      if (!fs::exists(with)) write_with_weights(model, with);
      model = with;
    }
    const fs::path cache = folder / text("cache-", row.name, "-", threads);
    fs::create_directory(cache);
    fs::permissions(cache, fs::perms::owner_all);
    setenv("MOTE_CACHE_DIR", cache.c_str(), 1);
    setenv("MOTE_THREADS", std::to_string(threads).c_str(), 1);
    {
      Side cold(row, "mote", model, threads);
      f.cold = cold.first();
      cold.milliseconds(3);  // what later runs need is in the cache as well
    }
    std::vector<double> peer_first, first;
    std::unique_ptr<Side> theirs, ours;
    for (size_t i = 0; i < kStarts; ++i) {
      theirs.reset();
      theirs = std::make_unique<Side>(row, "onnxruntime", model, threads);
      peer_first.push_back(theirs->first());
      ours.reset();
      ours = std::make_unique<Side>(row, "mote", model, threads);
      first.push_back(ours->first());
    }
    f.peer_first = median(peer_first), f.first = median(first);
    measure(*theirs, *ours, seconds, f);
    f.peer_memory = theirs->megabytes(), f.memory = ours->megabytes();
    const std::string file = (folder / "results").string();
    const auto wanted = theirs->results(file);
    f.wrong = compare(ours->results(file), wanted, row.tolerance);
  } catch (const std::exception& error) { f.wrong = error.what(); }
  return f;
}

std::string ratio_text(double v, bool holds) { return fixed_text(v, 2) + (holds ? " " : "!"); }

void print_line(const Figures& f) {
  std::printf("%-13s %d  %9s %9s %7s %8s %8s %7s %7s %7s %7s %7s", f.name.c_str(), f.threads,
              fixed_text(f.peer_ms, 3).c_str(), fixed_text(f.ms, 3).c_str(),
              ratio_text(f.steady(), f.steady() >= kSteadyBar).c_str(),
              fixed_text(f.peer_first * 1e3, 1).c_str(), fixed_text(f.first * 1e3, 1).c_str(),
              ratio_text(f.start(), f.start() >= kFirstBar).c_str(),
              ratio_text(f.cold, f.cold <= kColdBar).c_str(), fixed_text(f.peer_memory, 1).c_str(),
              fixed_text(f.memory, 1).c_str(),
              ratio_text(f.more_memory(), f.more_memory() <= kMemoryBar).c_str());
  std::printf("%s%s\n", f.wrong.empty() ? "" : "  FAILED: ", f.wrong.c_str());
  std::fflush(stdout);
}

void print_json(const std::vector<Figures>& all) {
  std::printf("[\n");
  for (const Figures& f : all) {
    JsonWriter json;
    json.begin('{').key("name").value(f.name).key("threads").value(int64_t{f.threads});
    json.key("peer_ms").value(f.peer_ms).key("ms").value(f.ms);
    json.key("steady").value(f.steady());
    json.key("peer_first_s").value(f.peer_first).key("first_s").value(f.first);
    json.key("first").value(f.start()).key("cold_s").value(f.cold);
    json.key("peer_mb").value(f.peer_memory).key("mb").value(f.memory);
    json.key("memory").value(f.more_memory()).key("wrong").value(f.wrong).end();
    std::printf("  %s%s\n", json.text().c_str(), &f == &all.back() ? "" : ",");
  }
  std::printf("]\n");
}

// "NAME,SIDE,MODEL" of a child.
int run_child(const std::string& words, int threads) {
  const size_t first = words.find(','), second = words.find(',', first + 1);
  check(second != words.npos, "--row: ", words, " is not NAME,SIDE,MODEL");
  for (const Row& row : rows())
    if (row.name == words.substr(0, first))
      return run_side(row, words.substr(first + 1, second - first - 1), words.substr(second + 1),
                      threads);
  fail(ErrorKind::User, text("[bench] no row is called ", words.substr(0, first)));
}

}  // namespace

namespace onnx_bench {

const std::vector<Row>& rows() {
  using onnx::kFloat, onnx::kInt64;
  static const std::vector<Row> all = [] {
    std::vector<Row> out = {
        {"mobilenet_qdq",
         "models/mobilenet_qdq/model.onnx",                {{kFloat, {1, 3, 244, 244}, 0, 1}},
         0.25                                                                                                                                        },
        {"silero_vad",
         "models/silero_vad/silero_vad.onnx",              {{kFloat, {1, 576}, -0.1, 0.1}, {kFloat, {2, 1, 128}, 0, 0}, {kInt64, {}, 16000, 0}},
         1e-3                                                                                                                                        },
        {"gtcrn",
         "models/gtcrn/gtcrn_simple.onnx",                 {{kFloat, {1, 257, 1, 2}, -1, 1},
          {kFloat, {2, 1, 16, 16, 33}, 0, 0},
          {kFloat, {2, 3, 1, 1, 16}, 0, 0},
          {kFloat, {2, 1, 33, 16}, 0, 0}},
         1e-3                                                                                                                                        },
        {"ultraface",     "models/ultraface_RFB-320.onnx", {{kFloat, {1, 3, 240, 320}, -1, 1}},                                                  1e-3},
    };
    Row gpt{"gpt2_past", "models/graph_only/gpt2_past.onnx", {{kInt64, {1, 1}, 3, 0}}, 1e-3};
    for (int i = 0; i < 12; ++i)
      gpt.inputs.push_back({
          kFloat, {2, 1, 2, 4, 2},
           -1, 1
      });
    out.push_back(gpt);
    for (const char* name : {"resnet50", "squeezenet", "shufflenet"})
      out.push_back({name,
                     text("onnx/light/light_", name, ".onnx"),
                     {{kFloat, {1, 3, 224, 224}, 0, 1}},
                     1e-3,
                     true});
    return out;
  }();
  return all;
}

}  // namespace onnx_bench

int bench_onnx(const Words& words) {
  const auto asked = static_cast<int>(words.integer("threads", 0));
  if (words.has("row")) return run_child(words.text("row"), std::max(asked, 1));
  check(onnx_runtime_missing().empty(), "[bench] ", onnx_runtime_missing(),
        ": the launcher ./mote installs it");
  const std::string only = words.text("only");
  std::vector<Row> chosen = rows();
  std::erase_if(chosen, [&](const Row& r) { return !only.empty() && !is_among(r.name, only); });
  check(!chosen.empty(), "[bench] no row is called ", only);
  const std::vector<int> counts = asked ? std::vector<int>{asked} : std::vector<int>{1, 2};
  const double seconds =
      words.number("seconds", 60) / static_cast<double>(chosen.size() * counts.size());
  const bool json = words.has("json");
  if (!json)
    std::printf("%-13s %s  %9s %9s %7s %8s %8s %7s %7s %7s %7s %7s\n", "row", "t", "ORT ms",
                "mote ms", "ratio", "ORT 1st", "mote", "ratio", "cold s", "ORT MB", "mote",
                "times");
  const WorkFolder folder;
  std::vector<Figures> all;
  for (const Row& row : chosen)
    for (const int threads : counts) {
      show_progress(text(row.name, ", ", threads, " threads"), json);
      all.push_back(run_row(row, threads, seconds, folder.path));
      show_progress("", json);
      if (!json) print_line(all.back());
    }
  if (json) print_json(all);
  const bool right = std::ranges::all_of(all, [](const Figures& f) { return f.wrong.empty(); });
  const bool hold = std::ranges::all_of(all, [](const Figures& f) { return f.holds(); });
  return right && (hold || !words.has("check")) ? 0 : 1;
}

}  // namespace mote
