// Models whose weights are constants of a shape, with random ones of a useful size instead.
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>

#include "cli/bench_onnx.h"
#include "cli/bench_wide.h"
#include "onnx/proto.h"
#include "onnx/values.h"
#include "onnx/write.h"

namespace mote::onnx_bench {

namespace {

using namespace mote::onnx;

struct Weight {
  std::vector<int64_t> shape;
  double middle = 0, spread = 0.1;  // a bias
};

std::vector<int64_t> integers_of(const TensorData& t) {
  if (!t.is_raw) return t.ints;
  std::vector<int64_t> out(t.raw.size() / sizeof(int64_t));
  std::memcpy(out.data(), t.raw.data(), out.size() * sizeof(int64_t));
  return out;
}

// What ConstantOfShape makes of known shapes, as it is used: factors of products keep the size of
// what they multiply, scales and variances are around 1.
std::map<std::string_view, Weight> weights_of(const Graph& graph) {
  std::map<std::string_view, const TensorData*> known;
  for (const TensorData& t : graph.initializers) known[t.name] = &t;
  std::map<std::string_view, Weight> out;
  for (const onnx::Node& n : graph.nodes)
    if (n.op == "ConstantOfShape" && known.contains(n.inputs.at(0)))
      out[n.outputs.at(0)].shape = integers_of(*known[n.inputs[0]]);
  for (const onnx::Node& n : graph.nodes)
    for (size_t i = 1; i < n.inputs.size(); ++i) {
      const auto found = out.find(n.inputs[i]);
      if (found == out.end()) continue;
      Weight& w = found->second;
      const bool is_norm = n.op == "BatchNormalization";
      if (is_norm && (i == 1 || i == 4)) w.middle = 1, w.spread = 0.5;
      if (is_norm || w.shape.size() < 2) continue;
      const int64_t all =
          std::accumulate(w.shape.begin(), w.shape.end(), int64_t{1}, std::multiplies<>());
      w.spread = std::sqrt(6.0 * static_cast<double>(w.shape[0]) / static_cast<double>(all));
    }
  return out;
}

std::string random_bytes(const Weight& w, uint32_t seed) {
  int64_t count = 1;
  for (const int64_t size : w.shape) count *= size;
  const std::vector<float> list =
      wide::uniform_values(count, seed, static_cast<float>(w.spread), static_cast<float>(w.middle));
  return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(float)};
}

// A copy of a field as it stands.
void copy(const Message& in, const Field& f, MessageWriter& out) {
  if (f.wire == Field::Length)
    out.bytes(f.number, f.bytes.text());
  else
    out.integer(f.number, in.integer(f, "a field"));
}

std::string first_output(Message node) {
  for (Field f; node.next(f);)
    if (f.number == 2) return std::string(node.text(f, "output"));
  return {};
}

}  // namespace

void write_with_weights(const std::string& from, const std::string& to) {
  const File file = open_file(from);
  const ModelData model = parse_model(file);
  const std::map<std::string_view, Weight> weights = weights_of(model.graph);
  check(!weights.empty(), from, " has no weights that are constants");
  Budget budget(file);
  MessageWriter out, graph;
  Message whole(budget, file.bytes, "the model");
  for (Field f; whole.next(f);) {
    if (f.number != 7) {
      copy(whole, f, out);
      continue;
    }
    Message inside = whole.message(f, "graph", "the graph");
    for (Field g; inside.next(g);)
      if (g.number != 1 || !weights.contains(first_output(inside.message(g, "node", "a node"))))
        copy(inside, g, graph);
  }
  uint32_t seed = 0;
  for (const auto& [name, weight] : weights)
    graph.message(5, tensor_message(name, kFloat, weight.shape, random_bytes(weight, ++seed)));
  out.message(7, graph);
  std::ofstream target(to, std::ios::binary);
  target << out.text();
  check(bool(target.flush()), "[bench] cannot write ", to);
}

}  // namespace mote::onnx_bench
