// `mote bench cpu`: both sides of every row in turn, medians, results compared.
#include "cli/bench_cpu.h"

#include <mote/search.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/flags.h"
#include "base/number.h"
#include "base/threads.h"
#include "cli/bench.h"
#include "cli/bench_cpu_peers.h"
#include "engine/realize.h"

namespace mote {

namespace {

using namespace bench;

struct Figures {
  const Row* row;
  double flops = 0, bytes = 0;
  double ms = 0, peer_ms = 0;  // 0: not measured
  std::string missing;         // why there is no peer
  std::string wrong;           // what is wrong with our side
  double ratio() const { return ms > 0 && peer_ms > 0 ? peer_ms / ms : 0; }
  bool below() const { return !wrong.empty() || (peer_ms > 0 && ratio() < row->bar); }
};

// ---- timing

double milliseconds(const Run& run, int times) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) run();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count() / times;
}

// One side: a sample is a run, or as many as take a millisecond. Before it one warms the caches
// where they matter, and wakes the threads where there are several.
struct Side {
  Run run;
  int times = 1;
  std::vector<double> samples = {};

  explicit Side(const Run& r) : run(r) {
    const double once = milliseconds(run, 1);
    times = std::max(1, static_cast<int>(std::ceil(1 / std::max(once, 1e-3))));
  }
  void take_sample() {
    if (times > 1 || thread_count() > 1) run();
    samples.push_back(milliseconds(run, times));
  }
  double median() {
    std::ranges::sort(samples);
    return samples[samples.size() / 2];
  }
};

constexpr size_t kFewest = 5, kMost = 51;

// Workers of the libraries keep spinning for up to 70 ms after a call.
void let_others_sleep() {
  if (thread_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

void measure(const Sides& sides, double seconds, Figures& out) {
  for (int i = 0; i < 2; ++i) sides.ours.run();  // called, then captured
  for (const Run& peer : sides.peers) peer();
  std::vector<Side> all;
  let_others_sleep();
  all.emplace_back(sides.ours.run);
  for (const Run& peer : sides.peers) all.emplace_back(peer);
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  size_t rounds = 0;
  for (; rounds < kFewest || (rounds < kMost && std::chrono::steady_clock::now() < end); ++rounds)
    for (Side& side : all) {
      let_others_sleep();
      side.take_sample();
    }
  out.ms = all[0].median();
  for (size_t i = 1; i < all.size(); ++i) {
    const double ms = all[i].median();
    if (out.peer_ms == 0 || ms < out.peer_ms) out.peer_ms = ms;
  }
}

// The row's kernels are those compiled since the caches were cleared.
void search_row(const Sides& sides, double seconds) {
  clear_caches();
  sides.ours.run();
  search(seconds);
}

Figures run_row(const Row& row, double seconds, double search_seconds) {
  Figures f{&row};
  try {
    Sides sides = row.make();
    if (search_seconds > 0) search_row(sides, search_seconds);
    f.flops = sides.flops, f.bytes = sides.bytes, f.missing = sides.missing;
    measure(sides, seconds, f);
    if (sides.check && !sides.peers.empty()) f.wrong = sides.check();
  } catch (const std::exception& error) {
    f.wrong = error.what();
  }
  return f;
}

// ---- output

std::string number_or(double v, int digits, const char* otherwise) {
  return v > 0 ? fixed_text(v, digits) : otherwise;
}

std::string verdict_on(const Figures& f) {
  if (!f.wrong.empty()) return "FAILED: " + f.wrong;
  if (!f.missing.empty()) return f.missing;
  return f.below() ? "below" : "holds";
}

void print_header() {
  std::printf("%-27s %10s %8s %7s  %-26s %10s %6s %5s\n", "row", "ms", "GFLOPS", "GB/s", "peer",
              "ms", "ratio", "bar");
}

void print_line(const Figures& f) {
  auto rate = [&](double work) { return f.ms > 0 ? work / f.ms / 1e6 : 0; };
  std::printf("%-27s %10s %8s %7s  %-26s %10s %6s %5s  %s\n", f.row->name.c_str(),
              number_or(f.ms, 4, "-").c_str(), number_or(rate(f.flops), 1, "-").c_str(),
              number_or(rate(f.bytes), 1, "-").c_str(), f.row->peer.c_str(),
              number_or(f.peer_ms, 4, "-").c_str(), number_or(f.ratio(), 2, "-").c_str(),
              fixed_text(f.row->bar, 2).c_str(), verdict_on(f).c_str());
  std::fflush(stdout);
}

void print_json(const std::vector<Figures>& all) {
  std::printf("[\n");
  for (const Figures& f : all) {
    const bool right = f.wrong.empty() && f.ms > 0;
    auto value = [&](double v, int digits) { return number_or(right ? v : 0, digits, "null"); };
    std::printf(
        "  {\"name\": \"%s\", \"ms\": %s, \"gflops\": %s, \"gbs\": %s, \"peer\": \"%s\", "
        "\"peer_ms\": %s, \"ratio\": %s, \"bar\": %s}%s\n",
        f.row->name.c_str(), value(f.ms, 5).c_str(), value(f.flops / f.ms / 1e6, 3).c_str(),
        value(f.bytes / f.ms / 1e6, 3).c_str(), f.row->peer.c_str(), value(f.peer_ms, 5).c_str(),
        value(f.ratio(), 4).c_str(), fixed_text(f.row->bar, 2).c_str(),
        &f == &all.back() ? "" : ",");
  }
  std::printf("]\n");
}

void print_summary(const std::vector<Figures>& all, FILE* to) {
  size_t below = 0, failed = 0, alone = 0;
  for (const Figures& f : all) {
    below += f.below();
    failed += !f.wrong.empty();
    alone += f.wrong.empty() && f.peer_ms == 0;
  }
  std::fprintf(to, "%zu rows, %zu below their bar", all.size(), below);
  if (failed > 0) std::fprintf(to, ", of which %zu failed", failed);
  if (alone > 0) std::fprintf(to, ", %zu without a peer", alone);
  std::fprintf(to, "\n");
}

// What one thread's multiply-adds reach, and how that grows: rows of more threads count where it
// does. And what a replay costs beside its kernels, which is part of every row's time.
void print_probe(int threads) {
  constexpr double kGrowthThatCounts = 0.9;  // of the number of threads
  const double one = fma_gflops(1);
  std::fprintf(stderr, "multiply-adds in registers: %s GFLOPS on one thread",
               fixed_text(one, 1).c_str());
  if (threads > 1) {
    const double many = fma_gflops(threads);
    std::fprintf(stderr, ", %s on %d: %s times%s", fixed_text(many, 1).c_str(), threads,
                 fixed_text(many / one, 2).c_str(),
                 many / one >= kGrowthThatCounts * threads ? "" : ", too little for rows to count");
  }
  FlagScope quiet(Flag::DEBUG, 0);  // what it prints is for the rows
  Captured little =
      capture([](const std::vector<Tensor>& in) { return in[0] + 1; }, {random(16).tensor({16})});
  for (int i = 0; i < 100; ++i) little.run();
  std::fprintf(stderr, "; a replay: %s us\n",
               fixed_text(milliseconds(little.run, 1000) * 1e3, 2).c_str());
}

}  // namespace

std::vector<bench::Row> bench::all_rows() {
  std::vector<Row> rows;
  add_matrix_rows(rows);
  add_linalg_rows(rows);
  add_stream_rows(rows);
  add_norm_rows(rows);
  add_conv_rows(rows);
  add_attention_rows(rows);
  add_copy_rows(rows);
  add_model_rows(rows);
  add_math_rows(rows);
  add_variable_rows(rows);
  return rows;
}

int bench_cpu(const Words& words) {
  const int threads = static_cast<int>(std::max<int64_t>(1, words.integer("threads", 1)));
  setenv("MOTE_THREADS", std::to_string(threads).c_str(), 1);
  set_thread_count(threads);
  set_peer_threads(threads);
  const bool json = words.has("json");
  std::vector<Row> rows = all_rows();
  const std::string only = words.text("only");
  if (!only.empty()) std::erase_if(rows, [&](const Row& r) { return !is_among(r.name, only); });
  check(!rows.empty(), "[bench] no row has ", only, " in its name");
  print_probe(threads);
  const double seconds = words.number("seconds", 120) / static_cast<double>(rows.size());
  std::vector<Figures> all;
  if (!json) print_header();
  for (const Row& row : rows) {
    show_progress(text(all.size() + 1, " of ", rows.size(), ": ", row.name), json);
    all.push_back(run_row(row, seconds, words.number("search", 0)));
    show_progress("", json);
    if (!json)
      print_line(all.back());
    else if (std::string verdict = verdict_on(all.back()); verdict != "holds")
      std::fprintf(stderr, "%s: %s\n", row.name.c_str(), verdict.c_str());
  }
  if (json) print_json(all);
  print_summary(all, json ? stderr : stdout);
  const bool failed = std::ranges::any_of(all, [](auto& f) { return !f.wrong.empty(); });
  const bool below = std::ranges::any_of(all, &Figures::below);
  return failed || (words.has("check") && below) ? 1 : 0;
}

}  // namespace mote
