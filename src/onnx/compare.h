// Holding results against stored ones, as ONNX's own suite does.
#pragma once
#include "onnx/model.h"

namespace mote::onnx {

struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};

// What differs first: type, shape or an element; empty where nothing does. Integers must be equal.
std::string difference(const Value& got, const Value& wanted, const Tolerance& = {});

// One data set: the bytes of input_0.pb, ... and output_0.pb, ...
struct DataSet {
  std::vector<File> inputs, outputs;
};
// Runs the model on it; what differs, as above, with the output's name.
std::string check(ModelCore& model, const DataSet& set, const Tolerance& = {});

}  // namespace mote::onnx
