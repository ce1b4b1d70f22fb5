// `mote bench onnx`: other people's models beside ONNX Runtime.
//
// Each side is a process of its own: it loads the model, runs it once, says so, and then times runs
// when it is told to. So what a start takes and how much memory is needed can be seen from outside.
#pragma once
#include <mote/tensor.h>

#include "cli/onnx_runtime.h"

namespace mote::onnx_bench {

struct Input {
  int type;  // as ONNX numbers it: kFloat or kInt64
  std::vector<int64_t> shape;
  double low, high;  // floats are spread over this; integers are the first
};

struct Row {
  std::string name, file;  // below ../shared/data
  std::vector<Input> inputs;
  double tolerance;            // of an output, relative to it and to the mean of all
  bool lacks_weights = false;  // they are constants there; random ones are written into a copy
};
const std::vector<Row>& rows();

// The same numbers for both sides.
std::vector<PlainTensor> inputs_of(const Row& row);
Tensor tensor_of(const PlainTensor& t);

// The model with random initialisers in place of ConstantOfShape nodes (bench_onnx_weights.cpp).
void write_with_weights(const std::string& from, const std::string& to);

// The child: `side` is "mote" or "onnxruntime".
int run_side(const Row& row, const std::string& side, const std::string& model, int threads);

}  // namespace mote::onnx_bench
