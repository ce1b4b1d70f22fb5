// A loaded model: the file's structs with each node's operator found, weights that wait on DISK,
// and what has been captured for each key.
#pragma once
#include <array>
#include <map>

#include "onnx/run.h"

namespace mote::onnx {

using Captured = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Runs with equal keys: shapes, dtypes, and the values of inputs that shapes depend on.
struct Signature {
  Trace trace;
  std::vector<Value> keyed;    // the inputs whose values belong to the key
  bool interprets = false;     // sizes depend on data, or values are no tensors
  std::vector<Value> outputs;  // of the first run; tensors that are not known are results of jit
  std::unique_ptr<Jit<Captured>> jit;
};

class ModelCore : public Counted {
 public:
  ModelCore(File file, Folder folder, std::string device);

  std::vector<Value> run(std::vector<Value> inputs);
  std::vector<Value> in_order(const std::vector<NamedValue>& inputs) const;

  const ModelData& data() const { return data_; }
  int64_t file_bytes() const { return static_cast<int64_t>(file_.bytes.size()); }
  const std::vector<const Port*>& ports() const { return ports_; }

  std::vector<PortInfo> inputs, outputs;
  std::vector<OpCount> operators;
  int64_t parameters = 0;
  std::string producer;

 private:
  void resolve(std::vector<Node>& nodes, const Opsets& opsets);
  void load(Graph& graph);
  void check_inputs(std::vector<Value>& inputs) const;
  std::string key_of(const std::vector<Value>& inputs) const;
  std::vector<Value> bound(const std::vector<Value>& inputs, Signature& s) const;
  std::vector<Value> interpret(const std::vector<Value>& inputs, Signature& s);
  std::vector<Value> replay(const std::vector<Value>& inputs, Signature& s);
  Outputs execute(std::vector<Value> inputs, Signature& s);

  File file_;
  Folder folder_;
  std::string device_;
  ModelData data_;
  std::vector<const Port*> ports_;  // inputs without an initialiser
  Initializers initializers_;
  Folded folded_;
  std::map<std::array<std::string_view, 3>, const Function*> functions_;  // domain, name, overload
  std::map<std::string, int64_t> counts_;                                 // of operators
  std::vector<std::string> missing_;
  uint64_t in_key_ = 0;  // inputs whose values belong to the key
  std::unordered_map<std::string, std::shared_ptr<Signature>> signatures_;
  std::mutex mutex_;  // runs take turns
};

}  // namespace mote::onnx
