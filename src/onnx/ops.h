// The table of operators. An operator is a function from a call to its outputs, composed of tensor
// methods. It is written once for a device: where everything that goes in is small and known before
// the run, the same function runs on the host (interpreted), which is how shapes are computed.
#pragma once
#include <mote/mote.h>

#include <span>

#include "onnx/values.h"
#include "tensor/impl.h"

namespace mote::onnx {

class Runner;
class Call;
using Outputs = std::vector<Value>;
using OpFunction = Outputs (*)(Call&);

struct OpRow {
  std::string_view name;
  int since;  // the first opset of this row; the next row of the name begins where it ends
  OpFunction run;
  std::string_view domain = "";
  bool varies = false;       // other results from the same inputs: random numbers
  bool has_graphs = false;   // its outputs may depend on more than its inputs
  bool keeps_exact = false;  // also takes and gives f64 where an input is exact
};

// What a dequantised tensor is, or what was computed from some: whole numbers and their scale, or
// the value in f64. Kept beside the f32 value and computed only if used: products are then sums of
// whole numbers, and what is quantised again is rounded once, as a quantised kernel rounds it.
struct Exact : Counted {
  Value whole, scale;  // the scale is 1 element, or broadcasts along one axis
  Value narrow;  // of at most 16 bits; the whole numbers are these less `zero`. Or there is none
  int64_t zero = 0;
  Value wide;  // instead of these
};

// One table per family.
using OpTable = std::span<const OpRow>;
OpTable math_ops();
OpTable activation_ops();
OpTable reduce_ops();
OpTable shape_ops();
OpTable index_ops();
OpTable select_ops();
OpTable cast_ops();
OpTable quantized_ops();
OpTable linear_ops();
OpTable conv_ops();
OpTable pool_ops();
OpTable norm_ops();
OpTable loss_ops();
OpTable recurrent_ops();
OpTable attention_ops();
OpTable image_ops();
OpTable detection_ops();
OpTable signal_ops();
OpTable sequence_ops();
OpTable control_ops();
OpTable random_ops();
OpTable text_ops();
OpTable contrib_ops();

// The row for an opset; null where there is none.
const OpRow* find_op(std::string_view domain, std::string_view name, int opset);

// One node at work. Errors of the methods used name the node.
class Call {
 public:
  Call(Runner& runner, const Node& node, std::vector<const Value*> in, bool on_host)
      : runner_(runner), node_(node), in_(std::move(in)), on_host_(on_host) {}

  // Inputs. An optional one that is left out is not there.
  size_t count() const { return in_.size(); }
  bool has(size_t i) const { return i < in_.size() && in_[i] && in_[i]->defined(); }
  const Value& value(size_t i) const;
  Tensor x(size_t i) const;         // on the device of the call; an error where it is no tensor
  Tensor maybe(size_t i) const;     // undefined where it is left out
  std::vector<Tensor> all() const;  // every input
  int type(size_t i) const { return type_of(value(i)); }
  // The numbers in an input. Where it is not known before the run this waits for it.
  std::vector<int64_t> ints(size_t i) const;
  std::vector<double> reals(size_t i) const;
  std::vector<double> reals(const Tensor& t) const { return read<double>(t); }
  std::vector<int64_t> ints(const Tensor& t) const { return read<int64_t>(t); }
  int64_t integer(size_t i) const;
  double real(size_t i) const;
  // An input that was an attribute in earlier opsets; empty where it is neither.
  std::vector<int64_t> ints(size_t i, std::string_view attribute) const;

  // Attributes.
  int opset() const { return node_.opset; }
  const Node& node() const { return node_; }
  const Attribute* attribute(std::string_view name) const;  // null where it is left out
  bool has(std::string_view name) const { return attribute(name) != nullptr; }
  int64_t i(std::string_view name, int64_t otherwise) const;
  // What counts or divides: from 1 to 65536.
  int64_t count_of(std::string_view name, int64_t otherwise) const;
  double f(std::string_view name, double otherwise) const;
  std::string s(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> is(std::string_view name) const;
  std::vector<double> fs(std::string_view name) const;
  std::vector<std::string> ss(std::string_view name) const;
  const Graph& graph(std::string_view name) const;

  // Whether an output is asked for.
  bool wants(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  size_t wanted() const { return node_.outputs.size(); }

  // A tensor of these numbers, made once and kept for the runs that follow.
  template <class T>
  Tensor constant(const std::vector<T>& list, const Sizes& shape) const {
    return keep([&] { return from_data(list, shape, {.device = device()}); });
  }
  Tensor constant(const std::vector<int64_t>& list) const {
    return constant(list, Sizes({list.size()}));
  }
  Options options(DType dtype) const { return {dtype, device()}; }
  std::string device() const;
  // Whole numbers that are known before the run, whatever the inputs are: a shape.
  Value known(const std::vector<int64_t>& list, const Sizes& shape) const;
  Value known_bool(bool b) const;
  // A value that is not an input: an element of a sequence, or what a graph gave.
  Tensor place(const Value& v) const { return place(v, on_host_); }
  Tensor place(const Value& v, bool on_host) const;
  std::vector<int64_t> ints_of(const Value& v) const;
  // Said by what counts elements: no captured list can stand for this run.
  void depends_on_data() const;
  // A graph attribute run with these inputs; it sees the values around the node.
  Outputs run(const Graph& graph, std::vector<Value> inputs) const;
  bool on_host() const { return on_host_; }
  // The exact f64 value of an input; the tensor as it is where there is none.
  Tensor wide(size_t i) const;
  // An operator that is linear in two exact inputs: f(a, b, zero) of their whole numbers, those of a
  // plus `zero`, which is also what a is padded with. total(b) is the sum of b that each result has.
  // `axis` of input 1 may have scales of its own, which are along `out_axis` of the result.
  // Undefined where it is not so.
  template <class F, class Total>
  Tensor exact_product(int64_t axis, int64_t out_axis, F f, Total total) const {
    const Tensor scale = product_scale(axis, out_axis);
    if (!scale.defined()) return {};
    const Exact &a = *in_[0]->exact, &b = *in_[1]->exact;
    if (!is_narrow_product(axis))
      return f(place(a.whole), place(b.whole), 0).cast(DType::f64) * scale;
    const Tensor weight = place(b.narrow).cast(DType::i32);
    Tensor sum = f(place(a.narrow).cast(DType::i32), weight, a.zero);
    if (a.zero != 0) sum = sum - keep([&] { return total(weight) * a.zero; });
    return sum.cast(DType::f64) * scale;
  }
  void use_wide() { uses_wide_ = true; }

 private:
  template <class T>
  std::vector<T> read(const Tensor& t) const;
  template <class T>
  std::vector<T> read(const Value& v) const;
  template <class Make>
  Tensor keep(Make make) const {
    if (const Tensor* kept = kept_constant()) return *kept;
    return keep_constant(make());
  }
  Tensor product_scale(int64_t axis, int64_t out_axis) const;
  bool is_narrow_product(int64_t axis) const;
  const Tensor* kept_constant() const;
  Tensor keep_constant(Tensor t) const;

  Runner& runner_;
  const Node& node_;
  std::vector<const Value*> in_;
  bool on_host_, uses_wide_ = false;
};

// An axis counted from the front.
int64_t axis_of(int64_t axis, int64_t rank);
// Sizes and products of parts of a shape.
int64_t product(std::span<const int64_t> sizes);
std::vector<int64_t> iota(int64_t count, int64_t from = 0);
// Which elements of two lists of strings meet when their shapes are broadcast.
struct Broadcast {
  Broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b);
  std::vector<int64_t> shape;
  std::vector<size_t> a, b;
};
// A float result with its f64 value.
Value exact_value(const Tensor& wide, DType dtype);
// As many outputs as are given, from tensors.
inline Outputs outputs(const std::vector<Tensor>& list) { return {list.begin(), list.end()}; }

// Another operator's function with its own attributes: contrib ops that are a standard one.
template <auto Method>
Outputs unary(Call& c) {
  return {(c.x(0).*Method)(MOTE_HERE)};
}
template <auto Method>
Outputs binary(Call& c) {
  const Tensor b = c.x(1);
  return {(c.x(0).*Method)(b, MOTE_HERE)};
}

}  // namespace mote::onnx
