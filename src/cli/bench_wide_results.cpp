// The results of `mote bench wide`: kept in a file as they come, printed, summed up.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "base/build_id.h"
#include "base/error.h"
#include "base/number.h"
#include "cli/bench_wide.h"
#include "io/json.h"

namespace mote::wide {

namespace {

constexpr double kCap = 2;  // of a ratio in the mean: one row must not pay for many
// What issue 13 asks for.
constexpr double kMeanBar = 1.3, kLeast = 0.5, kLow = 0.8, kLowShare = 0.05, kModelBar = 1;

struct Summary {
  size_t rows = 0, measured = 0, failed = 0, least = 0, low = 0, below = 0;
  double logs = 0;
  void add(const Figures& f) {
    ++rows;
    failed += !f.wrong.empty();
    if (f.ratio() <= 0) return;
    ++measured;
    least += f.ratio() < kLeast, low += f.ratio() < kLow, below += f.ratio() < 1;
    logs += std::log(std::min(f.ratio(), kCap));
  }
  double mean() const { return measured ? std::exp(logs / static_cast<double>(measured)) : 0; }
  std::string text() const {
    std::string out = mote::text(rows, " rows: geometric mean ", fixed_text(mean(), 3),
                                 " with ratios capped at 2; below 0.5: ", least,
                                 ", below 0.8: ", low, ", below 1.0: ", below);
    if (failed > 0) out += mote::text(", FAILED: ", failed);
    return out;
  }
};

Summary summary_of(const std::vector<Figures>& all) {
  Summary out;
  for (const Figures& f : all) out.add(f);
  return out;
}

std::string number_or_dash(double v, int digits) { return v > 0 ? general_text(v, digits) : "-"; }

}  // namespace

// ---- the file

Results::Results(const std::string& path, int threads)
    : path_(path), before_(text(build_id(), '\t', threads, '\t')) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    // build, threads, name, program | PyTorch's ms, ours, over, wrong
    std::vector<std::string> parts;
    for (size_t at = 0, end; at <= line.size(); at = end + 1) {
      end = std::min(line.find('\t', at), line.size());
      parts.push_back(line.substr(at, end - at));
    }
    Figures f;
    if (parts.size() != 8 || !read_number(parts[4], f.peer_ms) || !read_number(parts[5], f.ms))
      continue;
    f.over = parts[6] == "over", f.wrong = parts[7];
    found_[text(parts[0], '\t', parts[1], '\t', parts[2], '\t', parts[3])] = f;
  }
}

std::string Results::key(const Row& row) const {
  return text(before_, row.name, '\t', row.program);
}

const Figures* Results::find(const Row& row) const {
  auto it = found_.find(key(row));
  return it == found_.end() ? nullptr : &it->second;
}

void Results::add(const Figures& f) {
  std::string wrong = f.wrong;
  std::ranges::replace_if(
      wrong, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  std::ofstream file(path_, std::ios::app);
  file << key(f.row) << '\t' << shortest_text(f.peer_ms) << '\t' << shortest_text(f.ms) << '\t'
       << (f.over ? "over" : "") << '\t' << wrong << '\n';
  check(bool(file.flush()), "[bench] cannot write ", path_);
}

void Results::remove() { std::remove(path_.c_str()); }

// ---- output

void print_line(const Figures& f) {
  std::printf(
      "%-28s %11s %11s %8s  %s%s%s\n", f.row.name.c_str(), number_or_dash(f.peer_ms, 4).c_str(),
      number_or_dash(f.ms, 4).c_str(), number_or_dash(f.ratio(), 3).c_str(),
      f.wrong.empty() ? "" : "FAILED: ",
      f.wrong.empty() ? (f.over ? "stopped" : "") : f.wrong.c_str(),
      f.row.drawn ? text(f.wrong.empty() && !f.over ? "" : " ", f.row.program).c_str() : "");
  std::fflush(stdout);
}

void print_json(const std::vector<Figures>& all) {
  std::printf("[\n");
  for (const Figures& f : all) {
    JsonWriter json;
    json.begin('{').key("name").value(f.row.name).key("class").value(f.row.kind);
    json.key("program").value(f.row.program).key("peer_ms").value(f.peer_ms).key("ms").value(f.ms);
    json.key("ratio")
        .value(f.ratio())
        .key("stopped")
        .value(f.over)
        .key("wrong")
        .value(f.wrong)
        .end();
    std::printf("  %s%s\n", json.text().c_str(), &f == &all.back() ? "" : ",");
  }
  std::printf("]\n");
}

void print_summary(const std::vector<Figures>& all, FILE* to) {
  std::map<std::string, Summary> by_kind;
  for (const Figures& f : all) by_kind[f.row.kind].add(f);
  std::fprintf(to, "\n%-28s %5s %6s %6s %6s %6s %6s\n", "class", "rows", "mean", "<0.5", "<0.8",
               "<1", "failed");
  for (const auto& [kind, s] : by_kind)
    std::fprintf(to, "%-28s %5zu %6s %6zu %6zu %6zu %6zu\n", kind.c_str(), s.rows,
                 fixed_text(s.mean(), 2).c_str(), s.least, s.low, s.below, s.failed);
  std::fprintf(to, "\n%s\n", summary_of(all).text().c_str());
}

bool holds(const std::vector<Figures>& all) {
  const Summary s = summary_of(all);
  const bool models_hold = std::ranges::all_of(
      all, [](const Figures& f) { return f.row.kind != "models" || f.ratio() >= kModelBar; });
  const double low_share = static_cast<double>(s.low) / static_cast<double>(s.rows);
  return s.failed == 0 && s.mean() >= kMeanBar && s.least == 0 && low_share <= kLowShare &&
         models_hold;
}

}  // namespace mote::wide
