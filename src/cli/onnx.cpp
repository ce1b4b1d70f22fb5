// `mote onnx`: what an ONNX model is, whether its own test data comes out, how long a run takes.
#include <mote/images.h>
#include <mote/memory.h>
#include <mote/mote.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/flags.h"
#include "base/number.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "engine/profile.h"
#include "engine/realize.h"
#include "onnx/compare.h"

using namespace mote;
using onnx::Element;

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::string> parts_of(const std::string& list, char between) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(between, at), list.size());
    if (end > at) out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::pair<std::string, std::string> assignment(const std::string& word, const char* option) {
  const size_t equals = word.find('=');
  check(equals != word.npos && equals > 0, "--", option, ": ", word, " is not NAME=VALUE");
  return {word.substr(0, equals), word.substr(equals + 1)};
}

void print_ports(const char* title, const std::vector<onnx::PortInfo>& ports) {
  std::printf("%s\n", title);
  for (const onnx::PortInfo& p : ports) {
    std::string dims;
    for (const std::string& d : p.dims) dims += (dims.empty() ? "" : " x ") + printable(d);
    if (p.has_shape && dims.empty()) dims = "scalar";
    std::printf("  %s  %s  %s\n", printable(p.name).c_str(), p.type.c_str(), dims.c_str());
  }
}

void print_model(const std::string& path, const onnx::ModelCore& model, double load) {
  std::printf("%s: ONNX%s%s, %s parameters, loaded in %s ms\n", printable(path).c_str(),
              model.producer.empty() ? "" : " by ", printable(model.producer).c_str(),
              std::to_string(model.parameters).c_str(), fixed_text(1e3 * load, 1).c_str());
  print_ports("inputs", model.inputs);
  print_ports("outputs", model.outputs);
  std::vector<onnx::OpCount> ops = model.operators;
  std::sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) {
    return a.count != b.count ? a.count > b.count : a.name < b.name;
  });
  std::printf("operators\n ");
  for (const onnx::OpCount& op : ops)
    std::printf(" %s %lld", printable(op.name).c_str(), static_cast<long long>(op.count));
  std::printf("\n");
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

// "1x3x224" of an input, "8" of a name among the sizes.
Shapes shapes_of(const Words& words) {
  Shapes out;
  for (const std::string& word : parts_of(words.text("shape"), ',')) {
    const auto [name, sizes] = assignment(word, "shape");
    for (const std::string& size : parts_of(sizes, 'x')) {
      std::string_view rest = size;
      const bool read = take_number(rest, out[name].emplace_back());
      check(read && rest.empty(), "--shape: ", word, " is not NAME=SIZE or NAME=SIZExSIZE...");
    }
  }
  return out;
}

// The sizes of an input: numbers as declared, others as given by --shape, else 1.
std::vector<int64_t> shape_of(const onnx::PortInfo& port, const Shapes& given) {
  if (const auto whole = given.find(port.name); whole != given.end()) return whole->second;
  std::vector<int64_t> out;
  for (const std::string& d : port.dims) {
    std::string_view rest = d;
    int64_t size = 1;
    const auto named = given.find(d);
    if (named != given.end())
      size = named->second.at(0);
    else if (!take_number(rest, size) || !rest.empty())
      size = 1;
    out.push_back(size);
  }
  return out;
}

onnx::Value random_value(const onnx::Port& port, const std::vector<int64_t>& shape) {
  const Element& e = onnx::element_of(port.type.element);
  if (is_float(e.held)) return {randn(shape).to(e.held), e.type};
  return {zeros(shape, e.held), e.type};
}

bool is_picture(const std::string& file) {
  for (const char* end : {".png", ".jpg", ".jpeg"})
    if (file.ends_with(end)) return true;
  return false;
}

std::vector<double> numbers_of(const Words& words, const char* option) {
  std::vector<double> out;
  for (const std::string& word : parts_of(words.text(option), ',')) {
    check(read_number(word, out.emplace_back()), "--", option, ": ", word, " is not a number");
  }
  return out;
}

// In the input's size and layout (channels first or last), times --scale, normalised.
onnx::Value picture_from(const Words& words, const std::string& file,
                         const std::vector<int64_t>& shape) {
  check(shape.size() == 4, "--input: ", file, " is a picture, but the input has ", shape.size(),
        " axes");
  const bool last = shape[3] == 1 || shape[3] == 3;
  const size_t height = last ? 1 : 2;
  const int64_t channels = shape[last ? 3 : 1];
  check(channels == 1 || channels == 3, "--input: ", file, " is a picture, but the input has ",
        channels, " channels");
  Tensor x = load_image(file, channels).unsqueeze(0).to(float32);
  x = transforms::resize(x, {shape[height], shape[height + 1]}) * words.number("scale", 1.0 / 255);
  const std::vector<double> mean = numbers_of(words, "mean"), std = numbers_of(words, "std");
  if (!mean.empty() || !std.empty()) {
    const auto count = static_cast<size_t>(channels);
    x = transforms::normalize(x, mean.empty() ? std::vector<double>(count, 0) : mean,
                              std.empty() ? std::vector<double>(count, 1) : std);
  }
  return {(last ? x.permute({0, 2, 3, 1}) : x).contiguous()};
}

// A file, or a number.
onnx::Value value_from(const std::string& file, const onnx::Port& port) {
  std::string_view rest = file;
  if (double number = 0; take_number(rest, number) && rest.empty()) {
    const Element& e = onnx::element_of(port.type.element);
    return {full({}, number, DType::f64).to(e.held), e.type};
  }
  if (file.ends_with(".npy")) return {load_npy(file)};
  return onnx::parse_value(open_file(file), port.type);
}

std::vector<onnx::Value> inputs_of(const Words& words, const onnx::ModelCore& model) {
  std::map<std::string, std::string> files;
  const Shapes shapes = shapes_of(words);
  for (const std::string& word : parts_of(words.text("input"), ','))
    files.insert(assignment(word, "input"));
  std::vector<onnx::Value> out;
  for (size_t i = 0; i < model.ports().size(); ++i) {
    const onnx::Port& port = *model.ports()[i];
    const auto file = files.find(std::string(port.name));
    if (file != files.end() && is_picture(file->second))
      out.push_back(picture_from(words, file->second, shape_of(model.inputs[i], shapes)));
    else if (file != files.end() && file->second != "random")
      out.push_back(value_from(file->second, port));
    else if (port.type.kind == onnx::Type::Tensor)
      out.push_back(random_value(port, shape_of(model.inputs[i], shapes)));
    else
      out.emplace_back();
    if (file != files.end()) files.erase(file);
  }
  check(files.empty(), "the model has no input ", files.empty() ? "" : files.begin()->first);
  return out;
}

std::string summary(const onnx::Value& v) {
  if (v.kind == onnx::Value::Sequence) return text("sequence of ", v.items.size());
  if (v.kind != onnx::Value::Tensor) return "";
  std::string out = text(v.tensor.shape());
  if (v.tensor.numel() == 0) return out;
  const auto list = v.tensor.to_vector<double>();
  const auto [least, most] = std::minmax_element(list.begin(), list.end());
  return text(out, " of ", onnx::element_of(onnx::type_of(v)).name, ", ", *least, " to ", *most);
}

// What a run has taken since `before`.
void print_work(const Words& words, const onnx::ModelCore& model, const EngineCounts& before) {
  const EngineCounts now = engine_counts();
  const MemoryStats memory = memory_stats(words.text("device", default_device()));
  std::printf("ran %llu kernels, %llu of them new; peak memory %s, model file %s\n",
              static_cast<unsigned long long>(now.kernels_run - before.kernels_run),
              static_cast<unsigned long long>(now.kernels_compiled - before.kernels_compiled),
              size_text(memory.peak_bytes).c_str(), size_text(model.file_bytes()).c_str());
}

// Of one run: the table's head and the first rows.
void print_slowest(const std::vector<onnx::Value>& inputs, onnx::ModelCore& model) {
  constexpr int lines = 2 + 10;
  clear_profile();
  {
    FlagScope measured(Flag::PROFILE, 1);
    model.run(inputs);
  }
  const std::string all = profile_text();
  clear_profile();
  size_t end = 0;
  for (int i = 0; i < lines && end < all.size(); ++i)
    end = std::min(all.find('\n', end), all.size() - 1) + 1;
  std::printf("slowest kernels of one run, with the first of their nodes\n%s",
              all.substr(0, end).c_str());
}

void run_model(const Words& words, onnx::ModelCore& model) {
  const std::vector<onnx::Value> inputs = inputs_of(words, model);
  for (const onnx::Value& v : inputs)
    if (v.kind == onnx::Value::Tensor) Tensor(v.tensor).realize();  // no part of the run
  const EngineCounts before = engine_counts();
  Clock::time_point start = Clock::now();
  const std::vector<onnx::Value> out = model.run(inputs);
  std::string last;
  for (size_t i = 0; i < out.size(); ++i)
    last += "  " + printable(model.outputs[i].name) + "  " + summary(out[i]) + "\n";
  std::printf("first run %s ms\n%s", fixed_text(1e3 * seconds_since(start), 1).c_str(),
              last.c_str());
  print_work(words, model, before);
  const int64_t count = words.integer("bench", 0);
  if (count == 0) return;
  for (int warm = 0; warm < 2; ++warm) model.run(inputs);  // the second is captured
  std::vector<double> times;
  for (int64_t i = 0; i < count; ++i) {
    start = Clock::now();
    for (const onnx::Value& v : model.run(inputs))
      if (v.kind == onnx::Value::Tensor && v.tensor.numel() > 0) {
        std::vector<char> bytes(static_cast<size_t>(v.tensor.nbytes()));
        v.tensor.copy_out(bytes.data(), v.tensor.nbytes());
      }
    times.push_back(seconds_since(start));
  }
  std::sort(times.begin(), times.end());
  std::printf("steady %s ms (median of %lld), least %s ms\n",
              fixed_text(1e3 * times[times.size() / 2], 3).c_str(), static_cast<long long>(count),
              fixed_text(1e3 * times[0], 3).c_str());
  print_slowest(inputs, model);
}

std::vector<File> numbered(const fs::path& folder, const char* name) {
  std::vector<File> out;
  for (size_t i = 0;; ++i) {
    const fs::path path = folder / (name + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return out;
    out.push_back(open_file(path.string()));
  }
}

// Each test_data_set_N of a folder; the exit status.
int check_model(const std::string& folder, onnx::ModelCore& model) {
  int failed = 0, sets = 0;
  for (;; ++sets) {
    const fs::path path = fs::path(folder) / ("test_data_set_" + std::to_string(sets));
    if (!fs::exists(path)) break;
    const std::string wrong =
        onnx::check(model, {numbered(path, "input_"), numbered(path, "output_")});
    std::printf("test_data_set_%d: %s\n", sets, wrong.empty() ? "passed" : wrong.c_str());
    failed += !wrong.empty();
  }
  check(sets > 0, "--check: ", folder, " has no test_data_set_0");
  return failed > 0;
}

int run_onnx(const Words& words) {
  const std::string path = words.operand(0);
  const Clock::time_point start = Clock::now();
  const size_t slash = path.rfind('/');
  onnx::ModelCore model(open_file(path), {slash == path.npos ? "." : path.substr(0, slash + 1)},
                        words.text("device"));
  print_model(path, model, seconds_since(start));
  if (words.has("check")) return check_model(words.text("check"), model);
  if (words.has("input") || words.has("shape") || words.has("bench")) run_model(words, model);
  return 0;
}

// clang-format off
constexpr Option options[] = {
    {"input",  "NAME=VALUE,...", "inputs: a .npy or .pb file, a picture, a number, or random"},
    {"scale",  "X",              "multiply picture values, which are 0 to 255, by this (1/255)"},
    {"mean",   "A,B,C",          "then subtract these from the channels"},
    {"std",    "A,B,C",          "then divide the channels by these"},
    {"shape",  "NAME=SIZE,...",  "sizes left open: of a name (batch=8) or an input (x=1x3x8x8)"},
    {"bench",  "N",              "run this many times and print the times", "", {1, 1e6}},
    {"device", "NAME",           "device to compute on (CPU)"},
    {"check",  "FOLDER",         "run its test_data_set_N and compare the outputs"},
};
// clang-format on

}  // namespace

const Command mote::onnx_command = {
    "onnx",
    "FILE",
    "show an ONNX model; run, time or check it",
    options,
    run_onnx,
    "Without options nothing runs. Inputs that are not given are random numbers, or zeros if they\n"
    "are integers."};
