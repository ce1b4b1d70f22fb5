// The golden cases of test/goldens/*.gold.gz, made by tools/make_goldens.py (which documents the
// format) and its relatives: an op, its attributes and inputs, and the outputs and gradients PyTorch
// gives.
#pragma once
#include <mote/dtype.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace mote::test {

struct GoldenTensor {
  DType dtype = DType::none;
  std::vector<int64_t> shape;
  std::string bytes;  // row-major elements
  int64_t numel() const;
};

using Attr =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

struct GoldenInput {
  std::string role;  // "weight", "bias", ...; empty: the next positional argument
  GoldenTensor value;
};
struct GoldenOutput {
  GoldenTensor value;
  std::optional<GoldenTensor> weight;  // the loss is the sum of value * weight over such outputs
};

struct GoldenCase {
  std::string name, op;
  std::map<std::string, Attr> attrs;
  std::vector<GoldenInput> inputs;
  std::vector<GoldenOutput> outputs;
  std::vector<std::optional<GoldenTensor>> gradients;  // of the loss; none, or one per input
  bool is_variant() const { return name.find('@') != std::string::npos; }
  std::string attrs_text() const;  // "dim=[0, 2], keepdim=1"
};

struct GoldenFile {
  std::string header;  // versions and seed
  std::vector<GoldenCase> cases;
};

// Throws std::runtime_error naming the file and the offset if it is missing or malformed.
GoldenFile read_goldens(const std::string& path);
// The cases of several files of test/goldens.
GoldenFile read_goldens(std::initializer_list<const char*> names);

}  // namespace mote::test
