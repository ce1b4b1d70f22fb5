// If, Loop and Scan, driven by the host. What is known before the run costs nothing in a captured
// one: the loop is unrolled into it.
#include <algorithm>

#include "onnx/ops.h"
#include "onnx/run.h"

namespace mote::onnx {

namespace {

bool truth(Call& c, const Value& v) {
  const std::vector<int64_t> list = c.ints_of(v);
  expect(list.size() == 1, "a condition has ", list.size(), " elements");
  return list[0] != 0;
}

Outputs if_op(Call& c) {
  return c.run(c.graph(truth(c, c.value(0)) ? "then_branch" : "else_branch"), {});
}

// The values of all rounds along a new axis; known where all are.
Value stacked(Call& c, const std::vector<Value>& rounds, int64_t axis, bool reverse) {
  expect(!rounds.empty(), "a loop without rounds has nothing to stack");
  int level = 2;
  int64_t elements = 0;
  for (const Value& v : rounds) {
    expect(v.kind == Value::Tensor, "a scanned output is not a tensor");
    level = std::min<int>(level, v.level);
    elements += v.tensor.numel();
  }
  const bool on_host = level > 0 && elements <= kHostElements;
  std::vector<Tensor> all;
  for (const Value& v : rounds) all.push_back(c.place(v, on_host));
  if (reverse) std::reverse(all.begin(), all.end());
  Value out(stack(all, axis), rounds[0].type);
  if (level == 0) return out;
  out = known_value(std::move(out), level);
  (on_host ? out.places->on_host : out.places->on_device) = out.tensor;
  out.places->source = {};
  return out;
}

// Of a loop that did not run: what the body declares, with no rounds.
Value no_rounds(Call& c, const Type& type) {
  std::vector<int64_t> shape = {0};
  for (const std::string& d : type.dims) shape.push_back(std::max<int64_t>(declared_size(d), 0));
  const Element& e = element_of(type.element ? type.element : int{kFloat});
  return Value(zeros(shape, c.options(e.held)), e.type);
}

// Rounds that are known are unrolled; others are the program's own affair, within reason.
constexpr int64_t most_unrolled = 1 << 16, most_rounds = 1 << 24;

Outputs loop(Call& c) {
  const Graph& body = c.graph("body");
  const int64_t most = c.has(0) ? c.integer(0) : INT64_MAX;
  Value condition = c.has(1) ? c.value(1) : Value();
  std::vector<Value> carried;
  for (size_t i = 2; i < c.count(); ++i) carried.push_back(c.has(i) ? c.value(i) : Value());
  expect(body.outputs.size() > carried.size() && body.inputs.size() == carried.size() + 2,
         "the body has ", body.inputs.size(), " inputs and ", body.outputs.size(), " outputs");
  std::vector<std::vector<Value>> scanned(body.outputs.size() - 1 - carried.size());
  for (int64_t i = 0; i < most; ++i) {
    if (condition.defined() && !truth(c, condition)) break;
    const int64_t bound = !condition.defined() || condition.level > 0 ? most_unrolled : most_rounds;
    expect(i < bound, "the loop takes more than ", bound, " rounds");
    std::vector<Value> in = {c.known({i}, Sizes()),
                             condition.defined() ? condition : c.known_bool(true)};
    in.insert(in.end(), carried.begin(), carried.end());
    Outputs out = c.run(body, std::move(in));
    // Without a first condition the body's still counts.
    condition = out[0];
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = out[k + 1];
    for (size_t k = 0; k < scanned.size(); ++k)
      scanned[k].push_back(std::move(out[k + 1 + carried.size()]));
  }
  Outputs out = carried;
  for (size_t k = 0; k < scanned.size(); ++k)
    out.push_back(scanned[k].empty() ? no_rounds(c, body.outputs[k + 1 + carried.size()].type)
                                     : stacked(c, scanned[k], 0, false));
  return out;
}

int64_t nth(const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 0; }

// Before opset 9 there was a batch in front, and lengths as the first input.
Outputs scan(Call& c, size_t first) {
  const Graph& body = c.graph("body");
  const auto inputs = static_cast<size_t>(c.i("num_scan_inputs", 0));
  expect(c.count() >= first + inputs, "there are ", c.count(), " inputs");
  const size_t states = c.count() - first - inputs;
  expect(body.outputs.size() >= states, "the body has ", body.outputs.size(), " outputs");
  const auto in_axes = c.is("scan_input_axes"), in_back = c.is("scan_input_directions");
  const auto out_axes = c.is("scan_output_axes"), out_back = c.is("scan_output_directions");
  std::vector<Value> carried;
  for (size_t i = 0; i < states; ++i) carried.push_back(c.value(first + i));
  std::vector<Tensor> along;
  int64_t rounds = -1;
  for (size_t i = 0; i < inputs; ++i) {
    const Tensor t = c.x(first + states + i);
    along.push_back(t.movedim({axis_of(nth(in_axes, i), t.dim())}, {0}));
    expect(rounds < 0 || rounds == along[i].size(0), "the scanned inputs have different lengths");
    rounds = along[i].size(0);
  }
  std::vector<std::vector<Value>> scanned(body.outputs.size() - states);
  for (int64_t r = 0; r < rounds; ++r) {
    std::vector<Value> in = carried;
    for (size_t i = 0; i < inputs; ++i)
      in.push_back(along[i].select(0, nth(in_back, i) ? rounds - 1 - r : r));
    Outputs out = c.run(body, std::move(in));
    for (size_t k = 0; k < states; ++k) carried[k] = out[k];
    for (size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(std::move(out[states + k]));
  }
  Outputs out = carried;
  for (size_t k = 0; k < scanned.size(); ++k)
    out.push_back(scanned[k].empty()
                      ? no_rounds(c, body.outputs[states + k].type)
                      : stacked(c, scanned[k], nth(out_axes, k), nth(out_back, k) != 0));
  return out;
}

Outputs scan_9(Call& c) { return scan(c, 0); }

// Each batch by itself, its results stacked.
Outputs scan_8(Call& c) {
  expect(!c.has(0), "sequence_lens is not supported");
  const Graph& body = c.graph("body");
  const auto inputs = static_cast<size_t>(c.i("num_scan_inputs", 0));
  const auto back = c.is("directions");
  const size_t states = c.count() - 1 - inputs;
  std::vector<std::vector<Value>> batches(body.outputs.size());
  for (int64_t b = 0; b < c.x(1).size(0); ++b) {
    std::vector<Value> carried;
    for (size_t i = 0; i < states; ++i) carried.push_back(c.x(1 + i).select(0, b));
    std::vector<std::vector<Value>> scanned(body.outputs.size() - states);
    const int64_t rounds = c.x(1 + states).size(1);
    for (int64_t r = 0; r < rounds; ++r) {
      std::vector<Value> in = carried;
      for (size_t i = 0; i < inputs; ++i)
        in.push_back(c.x(1 + states + i).select(0, b).select(0, nth(back, i) ? rounds - 1 - r : r));
      Outputs out = c.run(body, std::move(in));
      for (size_t k = 0; k < states; ++k) carried[k] = out[k];
      for (size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(out[states + k]);
    }
    for (size_t k = 0; k < states; ++k) batches[k].push_back(carried[k]);
    for (size_t k = 0; k < scanned.size(); ++k)
      batches[states + k].push_back(stacked(c, scanned[k], 0, false));
  }
  Outputs out;
  for (const auto& list : batches) out.push_back(stacked(c, list, 0, false));
  return out;
}

constexpr OpRow rows[] = {
    {"If",   1, if_op,  "", false, true},
    {"Loop", 1, loop,   "", false, true},
    {"Scan", 8, scan_8, "", false, true},
    {"Scan", 9, scan_9, "", false, true},
};

}  // namespace

OpTable control_ops() { return rows; }

}  // namespace mote::onnx
