// One side of a row, in a process of its own.
#include <mote/mote.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>

#include "base/number.h"
#include "cli/bench_onnx.h"
#include "cli/bench_wide.h"
#include "onnx/values.h"
#include "runtime/device.h"

namespace mote::onnx_bench {

namespace {

using Clock = std::chrono::steady_clock;

struct Side {
  std::function<void()> run;  // until the results are in the host's memory
  std::function<std::vector<std::vector<double>>()> results;
};

template <class T>
std::vector<double> numbers_as(const PlainTensor& t) {
  std::vector<T> list(t.bytes.size() / sizeof(T));
  std::memcpy(list.data(), t.bytes.data(), t.bytes.size());
  return {list.begin(), list.end()};
}

std::vector<double> numbers(const PlainTensor& t) {
  if (t.type == onnx::kFloat) return numbers_as<float>(t);
  check(t.type == onnx::kInt64, "[bench] a result has the type ", t.type);
  return numbers_as<int64_t>(t);
}

Side runtime_side(const Row& row, const std::string& path, int threads) {
  auto model = std::make_shared<RuntimeModel>(path, threads);
  model->set_inputs(inputs_of(row));
  return {[=] { model->run(); },
          [=] {
            std::vector<std::vector<double>> out;
            for (const PlainTensor& t : model->take()) out.push_back(numbers(t));
            return out;
          }};
}

Side mote_side(const Row& row, const std::string& path) {
  const onnx::Model model(path);
  std::vector<onnx::Value> inputs;
  for (const PlainTensor& t : inputs_of(row)) inputs.emplace_back(tensor_of(t));
  auto results = std::make_shared<std::vector<onnx::Value>>();
  return {[=] {
            results->clear();
            *results = model.run(inputs);
            device("CPU").synchronize();
          },
          [=] {
            std::vector<std::vector<double>> out;
            for (const onnx::Value& v : *results) out.push_back(v.tensor.to_vector<double>());
            return out;
          }};
}

// The most memory that this process has had, in kB.
std::string peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) {
      const size_t first = line.find_first_of("0123456789");
      return line.substr(first, line.find(' ', first) - first);
    }
  return "0";
}

void write_results(const std::vector<std::vector<double>>& all, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  for (const std::vector<double>& list : all) {
    const uint64_t count = list.size();
    out.write(reinterpret_cast<const char*>(&count), sizeof count);
    out.write(reinterpret_cast<const char*>(list.data()),
              static_cast<std::streamsize>(count * sizeof(double)));
  }
}

std::string answer(const Side& side, const std::string& line) {
  if (line == "memory") return peak_memory();
  if (line.starts_with("results ")) {
    write_results(side.results(), line.substr(8));
    return "ok";
  }
  int64_t times = 0;
  const bool read = line.starts_with("time ") && read_number(line.substr(5), times) && times > 0;
  check(read, "[bench] what is ", line, "?");
  const auto start = Clock::now();
  for (int64_t i = 0; i < times; ++i) side.run();
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  return shortest_text(took * 1e3 / static_cast<double>(times));
}

}  // namespace

Tensor tensor_of(const PlainTensor& t) {
  const std::vector<double> list = numbers(t);
  if (t.type == onnx::kFloat)
    return from_data(std::vector<float>(list.begin(), list.end()), t.shape);
  return from_data(std::vector<int64_t>(list.begin(), list.end()), t.shape);
}

std::vector<PlainTensor> inputs_of(const Row& row) {
  std::vector<PlainTensor> out;
  for (const Input& in : row.inputs) {
    int64_t count = 1;
    for (const int64_t size : in.shape) count *= size;
    PlainTensor t{in.type, in.shape, {}};
    auto keep = [&](const auto& list) {
      t.bytes.resize(list.size() * sizeof list[0]);
      std::memcpy(t.bytes.data(), list.data(), t.bytes.size());
    };
    const auto spread = static_cast<float>((in.high - in.low) / 2);
    if (in.type == onnx::kFloat)
      keep(wide::uniform_values(count, static_cast<uint32_t>(out.size() + 1), spread,
                                static_cast<float>(in.low) + spread));
    else
      keep(std::vector<int64_t>(static_cast<size_t>(count), static_cast<int64_t>(in.low)));
    out.push_back(std::move(t));
  }
  return out;
}

int run_side(const Row& row, const std::string& side, const std::string& model, int threads) {
  const Side it = side == "mote" ? mote_side(row, model) : runtime_side(row, model, threads);
  it.run();
  std::printf("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%s\n", answer(it, line).c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace mote::onnx_bench
