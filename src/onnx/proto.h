// What an ONNX file says, as plain structs: names are views of the file, which the model keeps.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "onnx/wire.h"

namespace mote::onnx {

// TensorProto. The elements are in exactly one of the lists, or in another file.
struct TensorData {
  std::string_view name;
  int type = 0;  // as ONNX numbers element types
  std::vector<int64_t> dims;
  Bytes raw;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<double> doubles;
  std::vector<std::string_view> strings;
  bool is_raw = false, is_external = false;
  std::string_view location;  // of an external one
  int64_t offset = 0, length = -1;
};

struct SparseData {
  TensorData values, indices;
  std::vector<int64_t> dims;
};

struct Type {
  enum Kind : uint8_t { None, Tensor, Sequence, Optional, Other } kind = None;
  int element = 0;
  bool has_shape = false;
  std::vector<std::string> dims;  // "3", "batch" or "?"
  std::shared_ptr<Type> of;       // a sequence or an optional
};

struct Graph;

struct Attribute {
  std::string_view name, refers_to;  // of the function whose body this is
  int kind = 0;                      // AttributeType
  float real = 0;
  int64_t integer = 0;
  std::string_view text;
  std::vector<float> reals;
  std::vector<int64_t> integers;
  std::vector<std::string_view> texts;
  std::shared_ptr<TensorData> tensor;
  std::shared_ptr<SparseData> sparse;
  std::shared_ptr<Graph> graph;
  std::shared_ptr<Type> type;
};

struct OpRow;
struct Function;

struct Node {
  std::string_view name, op, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<Attribute> attributes;
  int opset = 0;               // of its domain, where it stands
  const OpRow* row = nullptr;  // one of these two, once resolved
  const Function* function = nullptr;
};

struct Port {
  std::string_view name;
  Type type;
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<TensorData> initializers;
  std::vector<SparseData> sparse;
  std::vector<Port> inputs, outputs;
};

using Opsets = std::map<std::string_view, int64_t>;

struct Function {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  Opsets opsets;
};

struct ModelData {
  int64_t ir_version = 0;
  std::string_view producer;
  Opsets opsets;
  Graph graph;
  std::vector<Function> functions;
};

// Device errors that name the node and the field. The structs refer to the file's bytes.
ModelData parse_model(const File& file);
TensorData parse_tensor(const File& file);

// Puts nodes behind those whose outputs they use, as ONNX asks for and not every file has it; else
// the order stays. Names that no node gives come from around.
void sort_nodes(std::vector<Node>& nodes);
std::string node_text(const Node& node);  // "Conv 'conv1'"

}  // namespace mote::onnx
