// Models in ONNX files, and functions of tensors written as such.
//
//   onnx::Model model("mobilenet.onnx");
//   Tensor scores = model.run({{"input", image}})[0].value.tensor;
//
// Loading maps the file and copies nothing; weights are copied to the device when a run first needs
// them. A file is not trusted: a malformed one is an error that names the node and the field, data
// in other files is read only from the model's own folder, and operators that mote lacks are
// reported all at once before anything runs.
//
// The shapes of the inputs may change from run to run. For each list of shapes the nodes whose
// outputs follow from constants and shapes run once, on the host. The others are a jit (jit.h), and
// from the fourth run on the captured list runs. Inputs with few integers that shapes or
// conditions depend on count as shapes. A model in which sizes or conditions depend on other values
// runs node by node each time.
// Copies of a Model share its weights and its captured lists. Threads may share a model; their runs
// take turns.
#pragma once
#include <mote/tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace mote::onnx {

struct Places;
struct Exact;
class ModelCore;

// What handles share; without std::shared_ptr, whose header is heavy.
struct Counted;
void retain(Counted* p);
void release(Counted* p);  // null is nothing
template <class T>
class Held {
 public:
  Held() = default;
  explicit Held(T* p) : p_(p) { retain(p_); }
  Held(const Held& o) : p_(o.p_) { retain(p_); }
  Held(Held&& o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  Held& operator=(Held o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Held() { release(p_); }
  T& operator*() const { return *static_cast<T*>(p_); }
  T* operator->() const { return static_cast<T*>(p_); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  Counted* p_ = nullptr;
};

// What passes between nodes: a tensor, strings, a sequence of values, or nothing (an optional
// without a value). Element types that mote lacks are held in the next wider dtype that has all
// their values: 4-bit integers in i8 and u8, 4- and 8-bit floats in f16 and f32.
struct Value {
  enum Kind : uint8_t { None, Tensor, Strings, Sequence } kind = None;
  int type = 0;  // of the elements, as ONNX numbers them; 0: what the dtype says
  mote::Tensor tensor;
  std::vector<int64_t> shape;        // of strings
  std::vector<std::string> strings;  // row-major
  std::vector<Value> items;          // of a sequence

  // Not inline: there would be a copy of their code in every operator.
  Value();
  Value(mote::Tensor t, int element = 0);
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();
  bool defined() const { return kind != None; }

  // While a model runs: known before it runs, from constants (2) or from them and shapes (1), and
  // then where it is; otherwise which inputs it depends on, a bit for each that is small.
  uint8_t level = 0;
  uint64_t inputs = 0;
  Held<Places> places;
  Held<Exact> exact;  // of a float made of quantised values: before it was rounded
};

struct NamedValue {
  std::string name;
  Value value;
};

// An input or an output, as the file declares it.
struct PortInfo {
  std::string name, type;  // "f32", "int4", "seq(f32)"
  bool has_shape = false;
  std::vector<std::string> dims;  // "3", "batch" or "?"
};

struct OpCount {
  std::string name;  // with its domain unless that is ONNX's own
  int64_t count = 0;
};

struct ModelOptions {
  std::string device = {};  // the default device
};

class Model {
 public:
  explicit Model(const std::string& path, const ModelOptions& = {}, Loc = MOTE_HERE);

  const std::vector<PortInfo>& inputs() const;  // without those that have an initialiser
  const std::vector<PortInfo>& outputs() const;
  const std::vector<OpCount>& operators() const;  // those of functions and subgraphs too
  int64_t parameters() const;                     // elements of initialisers
  const std::string& producer() const;

  // All outputs in the file's order. Inputs are moved to the device; their dtypes must fit.
  std::vector<NamedValue> run(const std::vector<NamedValue>& inputs, Loc = MOTE_HERE) const;
  // The same from values in the order of inputs().
  std::vector<Value> run(const std::vector<Value>& inputs, Loc = MOTE_HERE) const;

 private:
  Held<ModelCore> core_;
};

// ---- saving

struct SaveOptions {
  // Weights that have more bytes together are in a file of their own: PATH.data, beside PATH.
  int64_t external_above = int64_t{1} << 31;
};
using SavedFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Runs f once on the example inputs and writes what it does as an ONNX model (opset 20). A method
// for which ONNX has an operator is one node: conv2d is a Conv, however it is computed. What f
// computes from other tensors is an initializer. Shapes are those of the examples. An error that
// names the methods and lines where ONNX lacks what f uses; random numbers are among it, so modules
// must not be training. Inputs are called input_0, ..., results output_0, ...
void save(const std::string& path, const SavedFunction& f,
          const std::vector<Tensor>& example_inputs, const SaveOptions& = {}, Loc = MOTE_HERE);

// f is a module or a function of one to three tensors that gives one tensor or a vector of them.
template <class F>
requires(!std::is_convertible_v<F, SavedFunction>) void save(
    const std::string& path, F&& f, const std::vector<Tensor>& example_inputs,
    const SaveOptions& options = {}, Loc where = MOTE_HERE) {
  auto listed = [&](auto result) -> std::vector<Tensor> { return {result}; };
  const SavedFunction on_list = [&](const std::vector<Tensor>& in) {
    if constexpr (std::is_invocable_v<F&, Tensor, Tensor, Tensor>)
      return listed(f(in.at(0), in.at(1), in.at(2)));
    else if constexpr (std::is_invocable_v<F&, Tensor, Tensor>)
      return listed(f(in.at(0), in.at(1)));
    else
      return listed(f(in.at(0)));
  };
  save(path, on_list, example_inputs, options, where);
}

}  // namespace mote::onnx
