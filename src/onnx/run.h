// Running a graph: values by name, node by node. What is known before a run is computed on the host
// and kept in a trace, in the order of execution; a run with the same key skips those nodes.
#pragma once
#include <mote/jit.h>

#include <functional>
#include <mutex>
#include <unordered_map>

#include "onnx/ops.h"

namespace mote::onnx {

constexpr int64_t kHostElements = 4096;  // what is larger is computed on the device, also constants
constexpr const char* kHost = "INTERP";

// Where a known value is; made when first needed. A captured run may not read tensors, so what was
// read of one is kept.
struct Places : Counted {
  Tensor source, on_host, on_device;
  std::optional<std::vector<int64_t>> integers;
  std::optional<std::vector<double>> reals;
};

// What a run did, for runs with the same key.
struct Trace {
  struct Step {
    bool known = false;
    Outputs outputs;                          // of a known node
    size_t next_step = 0, next_constant = 0;  // after it and its graphs
  };
  std::vector<Step> steps;
  std::vector<Tensor> constants;
  bool complete = false;
};

// Thrown where sizes or conditions depend on inputs with few whole numbers: their values shall be
// part of the key.
struct Specialize {
  uint64_t inputs;
};

using Scope = std::unordered_map<std::string_view, Value>;

// The values of one graph or function body that is running.
struct Frame {
  Scope values;
  Frame* outer = nullptr;          // a subgraph sees these
  const Node* function = nullptr;  // whose attributes a function's body refers to
  const Function* body = nullptr;
  Frame* function_frame = nullptr;  // where that node stands
};

struct Initializers {
  std::unordered_map<const Graph*, Scope> of;  // every graph's, subgraphs among them
};

// The outputs of nodes of the main graph that follow from constants: the same for every run.
using Folded = std::unordered_map<const Node*, Outputs>;

class Runner {
 public:
  // A complete trace is followed; another one is written.
  Runner(const Initializers& initializers, Folded& folded, std::string device, Trace& trace)
      : initializers_(initializers),
        folded_(folded),
        device_(std::move(device)),
        trace_(trace),
        follows_(trace.complete) {}

  Outputs run(const Graph& graph, std::vector<Value> inputs, Frame* outer);

  Tensor place(const Value& v, bool on_host);
  std::string device(bool on_host) const { return on_host ? kHost : device_; }
  const std::string& device() const { return device_; }
  const Attribute* attribute(const Node& node, std::string_view name) const;
  Frame* frame() const { return frame_; }
  // Before numbers of a value that is not known are read.
  void note_read(const Value& v);
  void note_data();
  bool may_specialize = true;
  bool depends_on_data = false;

  const Tensor* next_constant();
  Tensor keep_constant(Tensor t);
  bool follows() const { return follows_; }

 private:
  struct Inside;
  void run_node(const Node& node);
  Outputs run_function(const Node& node, const std::vector<const Value*>& in);
  Outputs evaluate(const Node& node, const std::vector<const Value*>& in);
  Outputs call(const Node& node, const std::vector<const Value*>& in, bool on_host,
               bool wide = false);
  Outputs compute(const Node& node, const std::vector<const Value*>& in);
  const Value* find(std::string_view name) const;
  void check_outputs(const Node& node, const Outputs& out) const;

  const Initializers& initializers_;
  Folded& folded_;
  std::string device_;
  Trace& trace_;
  bool follows_;
  size_t step_ = 0, constant_ = 0;
  int depth_ = 0;
  Frame* frame_ = nullptr;
};

// Everything on the model's device or known; a value that is known for all runs has level 2.
Value known_value(Value v, int level);

}  // namespace mote::onnx
