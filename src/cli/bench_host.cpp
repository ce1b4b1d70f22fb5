// `mote bench host`: how long the host takes from tensor calls to kernel text, on device NULL. Each
// row runs in a process of its own, started cold, without the disk cache. At the end: what one more
// layer of a deep network costs.
#include <mote/jit.h>
#include <mote/models.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"
#include "base/number.h"
#include "cli/bench.h"
#include "engine/realize.h"
#include "nn/training_step.h"
#include "tensor/impl.h"

using namespace mote;

namespace {

struct Measure {
  double build_ms = 0, schedule_ms = 0, lower_ms = 0;
  uint64_t kernels = 0, distinct = 0, nodes = 0;
  double total_ms() const { return build_ms + schedule_ms + lower_ms; }
};

// Times building what `build` returns, and realizing it.
template <class Build>
Measure measure(Build build) {
  using Clock = std::chrono::steady_clock;
  using Ms = std::chrono::duration<double, std::milli>;
  EngineCounts before = engine_counts();
  auto start = Clock::now();
  std::vector<Tensor> wanted = build();
  auto built = Clock::now();
  realize(wanted);
  auto end = Clock::now();
  EngineCounts after = engine_counts();
  Measure m;
  m.build_ms = Ms(built - start).count();
  m.lower_ms = after.lower_ms - before.lower_ms;
  m.schedule_ms = Ms(end - built).count() - m.lower_ms;
  m.kernels = after.plan_kernels;
  m.distinct = after.plan_distinct;
  m.nodes = after.nodes - before.nodes;
  return m;
}

Measure median_of(std::vector<Measure> all) {
  std::ranges::sort(all, {}, &Measure::total_ms);
  return all[all.size() / 2];
}

Tensor input(const Sizes& shape, DType dtype) {
  std::vector<Dim> dims = to_dims(shape);
  int64_t count = 1;
  for (const Dim& d : dims) count *= d.size;
  return make_stored(prim::buffer(device_from("NULL"), dtype, count), dims);
}

template <class Module>
std::vector<Tensor> loss_and_gradients(const Tensor& loss, Module& model) {
  loss.backward();
  std::vector<Tensor> out = {loss};
  for (const Tensor& p : parameters(model))
    if (p.grad().defined()) out.push_back(p.grad());
  return out;
}

// ---- rows

// Training steps, the first one cold.
std::vector<Measure> mnist(int steps) {
  models::MnistNet net({DType::f32, "NULL"});
  optim::Adam adam(parameters(net));
  Tensor images = input({512, 1, 28, 28}, DType::f32), labels = input(512, DType::i64);
  std::vector<Measure> measures;
  for (int i = 0; i < steps; ++i)
    measures.push_back(measure([&] { return training_step(net, adam, images, labels); }));
  return measures;
}
Measure mnist_first() { return mnist(1)[0]; }
Measure mnist_second() {
  std::vector<Measure> steps = mnist(8);
  steps.erase(steps.begin());
  return median_of(std::move(steps));
}

// The same step, captured: what a call costs from the third on.
Measure mnist_replay() {
  models::MnistNet net({DType::f32, "NULL"});
  optim::Adam adam(parameters(net));
  Tensor images = input({512, 1, 28, 28}, DType::f32), labels = input(512, DType::i64);
  auto step = jit([&](const Tensor& x, const Tensor& y) {
    return training_step(net, adam, x, y).back();
  });
  std::vector<Measure> calls;
  for (int i = 0; i < 100; ++i)
    calls.push_back(measure([&] { return std::vector<Tensor>{step(images, labels)}; }));
  calls.erase(calls.begin(), calls.begin() + 2);
  return median_of(std::move(calls));
}

Measure resnet50_train() {
  models::ResNet net = models::resnet50(1000, {DType::f32, "NULL"});
  Tensor images = input({32, 3, 224, 224}, DType::f32), labels = input(32, DType::i64);
  return measure([&] { return loss_and_gradients(net(images).cross_entropy(labels), net); });
}

Measure bert_train(int64_t layers) {
  models::BertConfig config;
  config.layers = layers;
  config.dropout = 0;
  config.options = {DType::f32, "NULL"};
  models::Bert net(config);
  auto ids = [](const Sizes& shape) { return input(shape, DType::i64); };
  models::Bert::Batch batch{ids({4, 512}), ids({4, 512}), ids({4, 512}),
                            ids({4, 76}),  ids({4, 76}),  ids(4)};
  return measure([&] { return loss_and_gradients(net.loss(batch), net); });
}
Measure bert_large_train() { return bert_train(24); }

Measure llama8b_decode() {
  models::LlamaConfig config = models::llama3_8b();
  config.options = {DType::f16, "NULL"};
  models::Llama net(config);
  std::vector<models::KvCache> cache = net.make_cache(1);
  Tensor token = input({1, 1}, DType::i64);
  Variable position("position", 1, config.context - 1);
  std::vector<Measure> tokens;
  for (int64_t at = 1; at <= 8; ++at)
    tokens.push_back(measure([&] {
      std::vector<Tensor> out = {net.decode(token, cache, position.bind(at))};
      for (const Tensor& t : tensors(cache)) out.push_back(t);
      return out;
    }));
  tokens.erase(tokens.begin());
  return median_of(std::move(tokens));
}

Measure llama405b(bool train) {
  models::LlamaConfig config = models::llama3_405b();
  config.options = {DType::bf16, "NULL"};
  models::Llama net(config);
  Tensor tokens = input({1, 8192}, DType::i64), next = input(8192, DType::i64);
  return measure([&] {
    Tensor logits = net(tokens);
    if (!train) return std::vector<Tensor>{logits};
    return loss_and_gradients(logits.flatten(0, 1).to(DType::f32).cross_entropy(next), net);
  });
}
Measure llama405b_forward() { return llama405b(false); }
Measure llama405b_train() { return llama405b(true); }

// Bars: a hundredth of tinygrad's time, its number of kernels, half of its memory.
struct Row {
  const char* name;
  Measure (*run)();  // null: not there yet
  double bar_ms;
  uint64_t bar_kernels;  // 0: none
  double bar_mb;
};
// clang-format off
constexpr Row rows[] = {
    {"mnist-first",       mnist_first,       100,  123,  67.5},
    {"mnist-second",      mnist_second,      2.5,  0,    0   },
    {"mnist-replay",      mnist_replay,      0.03, 0,    0   },
    {"resnet50-train",    resnet50_train,    600,  668,  150 },
    {"bert-large-train",  bert_large_train,  350,  1221, 94  },
    {"llama8b-decode",    llama8b_decode,    30,   456,  47  },
    {"llama405b-forward", llama405b_forward, 450,  1516, 167 },
    {"llama405b-train",   llama405b_train,   3700, 5060, 820 },
};
// clang-format on

// The same network at four depths, for the cost of one more layer.
template <int64_t layers>
Measure transformer() {
  return bert_train(layers);
}
constexpr Row depths[] = {
    {"transformer-12", transformer<12>, 0, 0, 0},
    {"transformer-24", transformer<24>, 0, 0, 0},
    {"transformer-48", transformer<48>, 0, 0, 0},
    {"transformer-96", transformer<96>, 0, 0, 0},
};
constexpr double kMostGrowth = 1.15;  // of a layer's cost, from 12-24 layers to 48-96
constexpr int kRounds = 5;

// ---- a row in its own process

constexpr unsigned kSecondsPerRow = 60;
// What a row's process tells the one that started it.
std::string measured_line(const Measure& m, double peak_mb) {
  return text("build ", fixed_text(m.build_ms, 6), " schedule ", fixed_text(m.schedule_ms, 6),
              " lower ", fixed_text(m.lower_ms, 6), " kernels ", m.kernels, " distinct ",
              m.distinct, " nodes ", m.nodes, " peak ", fixed_text(peak_mb, 6));
}

bool read_measured_line(std::string_view line, Measure& m, double& peak_mb) {
  auto takes = [&](std::string_view name, auto& value) {
    return take_word(line) == name && read_number(take_word(line), value);
  };
  return takes("build", m.build_ms) && takes("schedule", m.schedule_ms) &&
         takes("lower", m.lower_ms) && takes("kernels", m.kernels) &&
         takes("distinct", m.distinct) && takes("nodes", m.nodes) && takes("peak", peak_mb);
}

const Row* find_row(std::string_view name) {
  for (std::span<const Row> table : {std::span<const Row>(rows), std::span<const Row>(depths)})
    for (const Row& row : table)
      if (row.name == name && row.run) return &row;
  fail(ErrorKind::User, text("[bench] there is no row ", name));
}

int run_row(const std::string& name) {
  const Row* row = find_row(name);
  setenv("MOTE_CACHE", "0", 1);
  alarm(kSecondsPerRow);
  Measure m = row->run();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%s\n", measured_line(m, static_cast<double>(usage.ru_maxrss) / 1024).c_str());
  std::fflush(stdout);
  _exit(0);  // tearing down is nobody's time
}

struct Result {
  const Row* row;
  Measure measure;
  double peak_mb = 0;
  std::string problem;  // why there are no figures
  bool holds() const {
    return problem.empty() && measure.total_ms() <= row->bar_ms &&
           (!row->bar_kernels || measure.kernels <= row->bar_kernels) &&
           (row->bar_mb == 0 || peak_mb <= row->bar_mb);
  }
};

std::string last_line(const std::string& text) {
  size_t end = text.find_last_not_of('\n');
  if (end == text.npos) return "";
  size_t begin = text.find_last_of('\n', end);
  return text.substr(begin == text.npos ? 0 : begin + 1, end - (begin == text.npos ? -1 : begin));
}

struct Answer {
  int status = 0;
  std::string said;
};
Answer said_by(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  check(pipe != nullptr, "[bench] cannot start ", command);
  Answer a;
  char buffer[4096];
  while (size_t got = fread(buffer, 1, sizeof buffer, pipe)) a.said.append(buffer, got);
  a.status = pclose(pipe);
  return a;
}

Result start_row(const Row& row) {
  Result r{&row, {}, 0, ""};
  if (!row.run) {
    r.problem = "not there yet";
    return r;
  }
  auto [status, said] = said_by("exec '" + own_path() + "' bench host --row " + row.name + " 2>&1");
  Measure& m = r.measure;
  if (status == 0 && read_measured_line(last_line(said), m, r.peak_mb)) return r;
  if (WIFSIGNALED(status))
    r.problem = WTERMSIG(status) == SIGALRM ? text("took more than ", kSecondsPerRow, " s")
                                            : text("died of signal ", WTERMSIG(status));
  else
    r.problem = last_line(said);
  return r;
}

// ---- output

void print_json(const std::vector<Result>& results) {
  std::printf("[\n");
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    const Measure& m = r.measure;
    const char* end = i + 1 < results.size() ? "," : "";
    if (!r.problem.empty())
      std::printf("  {\"name\": \"%s\", \"build_ms\": null, \"schedule_ms\": null, "
                  "\"lower_ms\": null, \"total_ms\": null, \"kernels\": null, \"distinct\": null, "
                  "\"nodes\": null, \"peak_mb\": null}%s\n",
                  r.row->name, end);
    else
      std::printf("  {\"name\": \"%s\", \"build_ms\": %s, \"schedule_ms\": %s, "
                  "\"lower_ms\": %s, \"total_ms\": %s, \"kernels\": %lu, \"distinct\": %lu, "
                  "\"nodes\": %lu, \"peak_mb\": %s}%s\n",
                  r.row->name, fixed_text(m.build_ms, 3).c_str(),
                  fixed_text(m.schedule_ms, 3).c_str(), fixed_text(m.lower_ms, 3).c_str(),
                  fixed_text(m.total_ms(), 3).c_str(), m.kernels, m.distinct, m.nodes,
                  fixed_text(r.peak_mb, 1).c_str(), end);
  }
  std::printf("]\n");
}

void print_header() {
  std::printf("%-18s %9s %9s %9s %9s %8s  %7s %7s %8s %9s %7s %6s\n", "row", "build ms", "schedule",
              "lower", "total", "bar", "kernels", "bar", "distinct", "nodes", "peak MB", "bar");
}

void print_line(const Result& r) {
  const Measure& m = r.measure;
  if (!r.problem.empty()) {
    std::printf("%-18s %s\n", r.row->name, r.problem.c_str());
  } else {
    auto bar = [](double n) { return n > 0 ? text(n) : std::string("-"); };
    std::printf("%-18s %9s %9s %9s %9s %8s  %7lu %7s %8lu %9lu %7s %6s  %s\n", r.row->name,
                fixed_text(m.build_ms, 2).c_str(), fixed_text(m.schedule_ms, 2).c_str(),
                fixed_text(m.lower_ms, 2).c_str(), fixed_text(m.total_ms(), 2).c_str(),
                bar(r.row->bar_ms).c_str(), m.kernels,
                bar(static_cast<double>(r.row->bar_kernels)).c_str(), m.distinct, m.nodes,
                fixed_text(r.peak_mb, 1).c_str(), bar(r.row->bar_mb).c_str(),
                r.holds() ? "holds" : "MISSED");
  }
  std::fflush(stdout);
}

// ---- beside tinygrad

struct Peer {
  std::string name;
  double ms;
};

// Its rows, measured now with the checkout at `path`.
std::vector<Peer> time_tinygrad(const std::string& path) {
  std::string script = tool_path("bench_tinygrad.py");
  Answer a = said_by("exec python3 '" + script + "' '" + path + "'");
  check(a.status == 0, "[bench] ", script, " failed with ", path);
  std::vector<Peer> peers;
  std::string_view rest = a.said;
  for (Peer p; !(p.name = take_word(rest)).empty() && read_number(take_word(rest), p.ms);)
    peers.push_back(p);
  return peers;
}

void print_ratios(const std::vector<Result>& results, const std::vector<Peer>& peers) {
  for (const Peer& p : peers)
    for (const Result& r : results)
      if (r.row->name == p.name && r.problem.empty())
        std::printf("%-18s %s ms, tinygrad %s ms: %s times\n", r.row->name,
                    fixed_text(r.measure.total_ms(), 2).c_str(), fixed_text(p.ms, 2).c_str(),
                    fixed_text(p.ms / r.measure.total_ms(), 0).c_str());
}

// ---- one more layer

// The quickest of a few processes: the others were held up by something else.
Measure time_depth(const Row& depth) {
  std::vector<Measure> all;
  for (int i = 0; i < 5; ++i) {
    Result r = start_row(depth);
    check(r.problem.empty(), "[bench] ", depth.name, ": ", r.problem);
    all.push_back(r.measure);
  }
  return *std::ranges::min_element(all, {}, &Measure::total_ms);
}

// Whether a layer costs as much in a deep network as in a shallow one. Interleaved, so that what
// else the machine does meets all depths alike.
bool bench_layers(bool quiet) {
  constexpr size_t n = std::size(depths);
  std::vector<Measure> runs[n];
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < n; ++i) runs[i].push_back(time_depth(depths[i]));
  double ms[n];
  for (size_t i = 0; i < n; ++i) ms[i] = median_of(runs[i]).total_ms();
  const double shallow = (ms[1] - ms[0]) / 12, deep = (ms[3] - ms[2]) / 48;
  const uint64_t distinct = runs[1][0].distinct;
  const bool same = distinct == runs[2][0].distinct && distinct == runs[3][0].distinct;
  const bool holds = deep <= kMostGrowth * shallow && same;
  if (!quiet)
    std::printf("one more layer of 12, 24, 48, 96 (%s, %s, %s, %s ms): %s ms at 12-24, "
                "%s ms at 48-96, %s times (bar %s); distinct kernels "
                "%lu, %lu, %lu, %lu  %s\n",
                fixed_text(ms[0], 1).c_str(), fixed_text(ms[1], 1).c_str(),
                fixed_text(ms[2], 1).c_str(), fixed_text(ms[3], 1).c_str(),
                fixed_text(shallow, 3).c_str(), fixed_text(deep, 3).c_str(),
                fixed_text(deep / shallow, 2).c_str(), fixed_text(kMostGrowth, 2).c_str(),
                runs[0][0].distinct, distinct, runs[2][0].distinct, runs[3][0].distinct,
                holds ? "holds" : "MISSED");
  return holds;
}

// ---- the command

int bench_rows(bool json, bool must_hold, const std::string& tinygrad) {
  std::vector<Result> results;
  if (!json) print_header();
  for (const Row& row : rows) {
    results.push_back(start_row(row));
    const Result& r = results.back();
    if (!json) print_line(r);
    else if (row.run && !r.problem.empty())
      std::fprintf(stderr, "%s: %s\n", row.name, r.problem.c_str());
  }
  if (json) print_json(results);
  bool held =
      std::ranges::all_of(results, [](const Result& r) { return !r.row->run || r.holds(); });
  if (!json || must_hold) held &= bench_layers(json);
  if (!json && !tinygrad.empty()) print_ratios(results, time_tinygrad(tinygrad));
  return must_hold && !held ? 1 : 0;
}

}  // namespace

int mote::bench_host(const Words& words) {
  if (words.has("row")) return run_row(words.text("row"));
  return bench_rows(words.has("json"), words.has("check"), words.text("tinygrad"));
}
