// ONNX Runtime, opened at run time and called through its C interface: what models are compared
// with. Nothing of mote runs in here, so that a process that only uses this shows what ONNX Runtime
// takes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mote {

// Elements in row-major order, with the type as ONNX numbers it.
struct PlainTensor {
  int type = 1;
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

// Why there is none, or "". It is looked for among the system's libraries and where the launcher
// installs it: ~/.cache/mote-peers.
std::string onnx_runtime_missing();

class RuntimeModel {
 public:
  RuntimeModel(const std::string& path, int threads);
  ~RuntimeModel();
  RuntimeModel(const RuntimeModel&) = delete;

  // Kept for runs; in the file's order.
  void set_inputs(std::vector<PlainTensor> inputs);
  // Results stay until the next run. `take` copies them.
  void run();
  std::vector<PlainTensor> take() const;

 private:
  void drop_outputs();
  using Handle = void*;
  Handle options_ = nullptr, session_ = nullptr, memory_ = nullptr;
  std::vector<std::string> input_names_, output_names_;
  std::vector<PlainTensor> data_;
  std::vector<Handle> inputs_, outputs_;
};

}  // namespace mote
