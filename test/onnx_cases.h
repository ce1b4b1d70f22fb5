// ONNX's conformance cases, read from the archives of the shared data.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "onnx/compare.h"

namespace mote::test {

struct OnnxCase {
  std::string name;  // "node/test_abs"
  File model;
  std::vector<onnx::DataSet> sets;
};

// All cases of node, simple, pytorch-converted and pytorch-operator, by name; empty, after a line
// that says so, where the data is absent.
std::vector<OnnxCase> onnx_cases();
// What is not mote's: strings, classic machine learning, training, image files, random numbers.
bool is_left_out(const std::string& name);
// Empty where all outputs are right.
std::string run_case(const OnnxCase& c, const std::string& device);

}  // namespace mote::test
