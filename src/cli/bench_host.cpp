// `mote bench host`: how long the host takes from tensor calls to kernel text, on device NULL. Each
// row runs in a process of its own, started cold, without the disk cache.
#include <mote/models.h>
#include <mote/optim.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "cli/commands.h"
#include "engine/realize.h"
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

Measure mnist(int step) {
  models::MnistNet net({DType::f32, "NULL"});
  optim::Adam adam(parameters(net));
  Tensor images = input({512, 1, 28, 28}, DType::f32), labels = input(512, DType::i64);
  Measure m;
  for (int i = 0; i < step; ++i)
    m = measure([&] {
      adam.zero_grad();
      Tensor loss = net(images).cross_entropy(labels);
      loss.backward();
      adam.step();
      std::vector<Tensor> out = tensors(net);
      for (const Tensor& t : tensors(adam)) out.push_back(t);
      out.push_back(loss);
      return out;
    });
  return m;
}
Measure mnist_first() { return mnist(1); }
Measure mnist_second() { return mnist(2); }

Measure resnet50_train() {
  models::ResNet net = models::resnet50(1000, {DType::f32, "NULL"});
  Tensor images = input({32, 3, 224, 224}, DType::f32), labels = input(32, DType::i64);
  return measure([&] { return loss_and_gradients(net(images).cross_entropy(labels), net); });
}

Measure bert_large_train() {
  models::BertConfig config;
  config.dropout = 0;
  config.options = {DType::f32, "NULL"};
  models::Bert net(config);
  auto ids = [](const Sizes& shape) { return input(shape, DType::i64); };
  models::Bert::Batch batch{ids({4, 512}), ids({4, 512}), ids({4, 512}),
                            ids({4, 76}),  ids({4, 76}),  ids(4)};
  return measure([&] { return loss_and_gradients(net.loss(batch), net); });
}

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
  std::ranges::sort(tokens, {}, &Measure::total_ms);
  return tokens[tokens.size() / 2];
}

Measure llama405b(bool train) {
  models::LlamaConfig config = models::llama3_405b();
  config.joint = true;
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
    {"mnist-replay",      nullptr,           0.03, 0,    0   },
    {"resnet50-train",    resnet50_train,    600,  668,  150 },
    {"bert-large-train",  bert_large_train,  350,  1221, 94  },
    {"llama8b-decode",    llama8b_decode,    30,   456,  47  },
    {"llama405b-forward", llama405b_forward, 450,  1516, 167 },
    {"llama405b-train",   llama405b_train,   3700, 5060, 820 },
};
// clang-format on

// ---- a row in its own process

constexpr unsigned kSecondsPerRow = 60;
constexpr char kFormat[] =
    "build %lf schedule %lf lower %lf kernels %lu distinct %lu nodes %lu peak %lf";

int run_row(const char* name) {
  setenv("MOTE_CACHE", "0", 1);
  alarm(kSecondsPerRow);
  for (const Row& row : rows) {
    if (std::strcmp(row.name, name) != 0 || !row.run) continue;
    Measure m = row.run();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("build %f schedule %f lower %f kernels %lu distinct %lu nodes %lu peak %f\n",
                m.build_ms, m.schedule_ms, m.lower_ms, m.kernels, m.distinct, m.nodes,
                static_cast<double>(usage.ru_maxrss) / 1024);
    std::fflush(stdout);
    _exit(0);  // tearing down is nobody's time
  }
  fail(ErrorKind::User, text("[bench] there is no row ", name));
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

Result start_row(const Row& row) {
  Result r{&row, {}, 0, ""};
  if (!row.run) {
    r.problem = "not there yet";
    return r;
  }
  std::string self(4096, '\0');
  ssize_t n = readlink("/proc/self/exe", self.data(), self.size());
  self.resize(n > 0 ? static_cast<size_t>(n) : 0);
  std::string command = "exec '" + self + "' bench host --row " + row.name + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  check(pipe != nullptr, "[bench] cannot start ", self);
  std::string said;
  char buffer[4096];
  while (size_t got = fread(buffer, 1, sizeof buffer, pipe)) said.append(buffer, got);
  int status = pclose(pipe);
  Measure& m = r.measure;
  int read = std::sscanf(last_line(said).c_str(), kFormat, &m.build_ms, &m.schedule_ms, &m.lower_ms,
                         &m.kernels, &m.distinct, &m.nodes, &r.peak_mb);
  if (status == 0 && read == 7) return r;
  if (WIFSIGNALED(status))
    r.problem = WTERMSIG(status) == SIGALRM ? text("took more than ", kSecondsPerRow, " s")
                                            : text("died of signal ", WTERMSIG(status));
  else
    r.problem = last_line(said);
  return r;
}

// ---- output

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + "\"";
}

void print_json(const std::vector<Result>& results) {
  std::printf("[\n");
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    const Measure& m = r.measure;
    const char* end = i + 1 < results.size() ? "," : "";
    if (!r.problem.empty())
      std::printf("  {\"name\": \"%s\", \"build_ms\": null, \"schedule_ms\": null, "
                  "\"lower_ms\": null, \"total_ms\": null, \"kernels\": null, \"distinct\": null, "
                  "\"nodes\": null, \"peak_mb\": null, \"problem\": %s}%s\n",
                  r.row->name, quoted(r.problem).c_str(), end);
    else
      std::printf("  {\"name\": \"%s\", \"build_ms\": %.3f, \"schedule_ms\": %.3f, "
                  "\"lower_ms\": %.3f, \"total_ms\": %.3f, \"kernels\": %lu, \"distinct\": %lu, "
                  "\"nodes\": %lu, \"peak_mb\": %.1f}%s\n",
                  r.row->name, m.build_ms, m.schedule_ms, m.lower_ms, m.total_ms(), m.kernels,
                  m.distinct, m.nodes, r.peak_mb, end);
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
    std::printf("%-18s %9.2f %9.2f %9.2f %9.2f %8s  %7lu %7s %8lu %9lu %7.1f %6s  %s\n",
                r.row->name, m.build_ms, m.schedule_ms, m.lower_ms, m.total_ms(),
                bar(r.row->bar_ms).c_str(), m.kernels,
                bar(static_cast<double>(r.row->bar_kernels)).c_str(), m.distinct, m.nodes,
                r.peak_mb, bar(r.row->bar_mb).c_str(), r.holds() ? "holds" : "MISSED");
  }
  std::fflush(stdout);
}

int bench_host(bool json, bool must_hold) {
  std::vector<Result> results;
  if (!json) print_header();
  for (const Row& row : rows) {
    results.push_back(start_row(row));
    if (!json) print_line(results.back());
  }
  if (json) print_json(results);
  bool held =
      std::ranges::all_of(results, [](const Result& r) { return !r.row->run || r.holds(); });
  return must_hold && !held ? 1 : 0;
}

}  // namespace

int run_bench(Arguments args) {
  bool json = false, must_hold = false;
  const char* usage = "usage: mote bench host [--json] [--check]\n";
  if (args.count == 0 || std::strcmp(args.values[0], "host") != 0) {
    std::fputs(usage, stderr);
    return 2;
  }
  for (int i = 1; i < args.count; ++i) {
    std::string_view word = args.values[i];
    if (word == "--row" && i + 1 < args.count) return run_row(args.values[i + 1]);
    if (word != "--json" && word != "--check") {
      std::fputs(usage, stderr);
      return 2;
    }
    (word == "--json" ? json : must_hold) = true;
  }
  return bench_host(json, must_hold);
}
