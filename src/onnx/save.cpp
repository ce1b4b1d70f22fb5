// Writing what a function of tensors does as an ONNX model. The function runs once on the example
// inputs. Methods that tell of their call (tensor/recorded.h) become one operator each, whatever
// graph they are made of. Between them stand nodes of the tensor graph, most of which are ONNX
// operators too. What does not depend on the inputs is computed and becomes an initializer.
#include <mote/onnx.h>

#include <algorithm>
#include <map>
#include <numbers>
#include <set>
#include <unordered_map>

#include "ir/eval.h"
#include "ir/provenance.h"
#include "onnx/values.h"
#include "onnx/write.h"
#include "runtime/output_file.h"
#include "tensor/recorded.h"

namespace mote::onnx {

namespace {

constexpr int64_t kOpset = 20, kIrVersion = 9;
using Numbers = std::vector<int64_t>;
using GraphNode = mote::Node;  // of the tensor graph

int type_number(DType d) { return d == DType::index ? int{kInt64} : type_of(d); }

Numbers shape_of(UOp node) {
  Numbers out;
  for (const Dim& d : node->shape->dims) {
    expect(!d.is_symbolic(), "sizes that are variables cannot be saved");
    out.push_back(d.size);
  }
  return out;
}

struct OpName {
  Op op;
  const char* name;
};
constexpr OpName elementwise_ops[] = {
    {Op::Neg,   "Neg"  },
    {Op::Exp,   "Exp"  },
    {Op::Log,   "Log"  },
    {Op::Sin,   "Sin"  },
    {Op::Cos,   "Cos"  },
    {Op::Tanh,  "Tanh" },
    {Op::Erf,   "Erf"  },
    {Op::Sqrt,  "Sqrt" },
    {Op::Add,   "Add"  },
    {Op::Mul,   "Mul"  },
    {Op::Div,   "Div"  },
    {Op::IDiv,  "Div"  },
    {Op::Max,   "Max"  },
    {Op::Min,   "Min"  },
    {Op::Lt,    "Less" },
    {Op::Eq,    "Equal"},
    {Op::Where, "Where"}
};
constexpr OpName bit_ops[] = {
    {Op::And, "And"},
    {Op::Or,  "Or" },
    {Op::Xor, "Xor"}
};

// Of an operator that works element by element; "": it is something else.
std::string elementwise_name(UOp n) {
  for (const auto& [op, name] : elementwise_ops)
    if (n->op == op) return name;
  for (const auto& [op, name] : bit_ops)
    if (n->op == op) return n->dtype == DType::boolean ? name : text("Bitwise", name);
  return "";
}

UOp without_expand(UOp n) {
  while (n->is(Op::Expand)) n = n->src(0);
  return n;
}

// Of an elementwise operator: ONNX repeats them itself, and has Sub for a + -b.
struct Operands {
  std::vector<UOp> list;
  bool subtracts = false;
};
Operands operands(UOp n) {
  Operands out;
  std::vector<Numbers> shapes;
  for (GraphNode* s : n->src())
    shapes.push_back(shape_of(out.list.emplace_back(without_expand(s))));
  if (broadcast_shapes(shapes) != shape_of(n)) out.list.assign(n->src().begin(), n->src().end());
  out.subtracts = n->is(Op::Add) && out.list[1]->is(Op::Neg);
  if (out.subtracts) out.list[1] = out.list[1]->src(0);
  return out;
}

// A node of the file being made.
class NodeWriter {
 public:
  explicit NodeWriter(const char* op) : op_(op) { message_.bytes(4, op); }
  NodeWriter& in(const std::string& name) {
    message_.bytes(1, name);
    return *this;
  }
  NodeWriter& integer(const char* name, int64_t v) {
    return add(name, 2, MessageWriter().integer(3, v));
  }
  NodeWriter& real(const char* name, double v) {
    return add(name, 1, MessageWriter().real(2, static_cast<float>(v)));
  }
  NodeWriter& text(const char* name, const char* v) {
    return add(name, 3, MessageWriter().bytes(4, v));
  }
  NodeWriter& ints(const char* name, std::span<const int64_t> v) {
    MessageWriter a;
    for (const int64_t i : v) a.integer(8, i);
    return add(name, 7, a);
  }
  const char* op() const { return op_; }

 private:
  friend class Exporter;
  NodeWriter& add(const char* name, int kind, const MessageWriter& value) {
    MessageWriter a;
    a.bytes(1, name).append(value).integer(20, kind);
    message_.message(5, a);
    return *this;
  }
  const char* op_;
  MessageWriter message_;
};

class Exporter {
 public:
  Exporter(const CallRecorder& recorder, const std::vector<Tensor>& inputs,
           const std::vector<Tensor>& outputs)
      : recorder_(recorder) {
    for (const Tensor& t : inputs) depends_.insert(flat_of(t).get());
    for (const Tensor& t : outputs) results_.push_back(node_of(t));
    for (const uint32_t place_id : recorder.draws) miss("random numbers", place_id);
    visit_all();
    for (size_t i = 0; i < inputs.size(); ++i) add_input(inputs[i], i);
    for (UOp node : order_)
      if (depends_.contains(node.get()) && !names_.contains(node.get()))
        names_[node.get()] = emit(node);
    check(missing_.empty(), "these have no ONNX operator: ", missing_text());
    for (size_t i = 0; i < results_.size(); ++i) add_output(results_[i], i);
  }

  // The model; elements of initializers follow one another in `data` where they are in a file of
  // their own of this name.
  std::string model(const std::string& data_file, std::string* data) const;
  int64_t initializer_bytes() const {
    int64_t all = 0;
    for (const Initializer& i : initializers_) all += static_cast<int64_t>(i.bytes.size());
    return all;
  }

 private:
  struct Initializer {
    std::string name;
    int type;
    Numbers shape;
    std::string bytes;
  };

  // The flat buffer that a tensor is in.
  static Ref flat_of(const Tensor& t) {
    Ref node = node_of(t);
    while (node->is(Op::Reshape)) node = Ref(node->src(0));
    ensure(node->is(Op::Buffer), "an input is not in memory");
    return node;
  }

  // What a node is computed from, for this file.
  std::vector<UOp> sources(UOp n) const {
    std::vector<UOp> out;
    if (const RecordedCall* call = recorded_call(recorder_, n)) {
      for (const Ref& r : call->operands)
        if (r) out.push_back(r.get());
      return out;
    }
    if (n->is(Op::Buffer)) return {};
    if (is_same(n)) return {n->src(0)};
    if (!elementwise_name(n).empty()) return operands(n).list;
    for (GraphNode* s : n->src()) out.emplace_back(s);
    return out;
  }
  // Says something about its first source only.
  static bool is_same(UOp n) {
    return n->is(Op::Given) || n->is(Op::Contiguous) || n->is(Op::Detach) || n->is(Op::Check);
  }

  void visit_all();
  void add_input(const Tensor& t, size_t i);
  void add_output(UOp result, size_t i);

  std::string constant(UOp node);
  std::string value(UOp node) {
    const auto it = names_.find(node.get());
    return it != names_.end() ? it->second : constant(node);
  }
  std::string initializer(int type, Numbers shape, std::string bytes);
  std::string ints_constant(const Numbers& list);
  std::string add(NodeWriter node);
  std::string miss(std::string_view what, uint32_t place_id);
  std::string miss(UOp node) { return miss(mote::name(node->op), node->provenance); }
  std::string missing_text() const {
    std::string all;
    for (const std::string& m : missing_) all += "\n  " + m;
    return all;
  }

  std::string emit(UOp node);
  std::string emit_call(UOp node, const RecordedCall& call);
  std::string emit_conv(const RecordedCall& call, const char* op);
  std::string emit_pool(const RecordedCall& call, const char* op);
  std::string emit_norm(UOp node, const RecordedCall& call);
  std::string emit_movement(UOp node);
  std::string emit_elementwise(UOp node, const std::string& name);
  std::string emit_reduce(UOp node);
  std::string operand(const RecordedCall& call, size_t i) { return value(call.operands[i].get()); }
  std::string filled(const Numbers& shape, DType dtype, double v);

  const CallRecorder& recorder_;
  std::vector<Ref> results_;
  std::vector<UOp> order_;
  std::set<const GraphNode*> depends_;
  std::unordered_map<const GraphNode*, std::string> names_;
  std::vector<Initializer> initializers_;
  std::vector<Ref> made_;  // nodes made on the way
  MessageWriter graph_;
  std::set<std::string> missing_;
  std::map<std::string, int> counts_;
};

// Sources first.
void Exporter::visit_all() {
  std::set<const GraphNode*> seen;
  std::vector<std::pair<UOp, bool>> stack;
  for (const Ref& r : results_) stack.emplace_back(r.get(), false);
  while (!stack.empty()) {
    const auto [n, is_back] = stack.back();
    stack.pop_back();
    if (is_back) {
      const std::vector<UOp> from = sources(n);
      if (std::ranges::any_of(from, [&](UOp s) { return depends_.contains(s.get()); }))
        depends_.insert(n.get());
      order_.push_back(n);
    } else if (seen.insert(n.get()).second) {
      stack.emplace_back(n, true);
      const std::vector<UOp> from = sources(n);
      for (size_t i = from.size(); i-- > 0;) stack.emplace_back(from[i], false);
    }
  }
}

std::string bytes_of(const Tensor& t) {
  const Tensor here = t.to("CPU").contiguous().realize();
  std::string bytes(static_cast<size_t>(here.nbytes()), '\0');
  if (!bytes.empty()) here.copy_out(bytes.data(), here.nbytes());
  return bytes;
}

std::string Exporter::initializer(int type, Numbers shape, std::string bytes) {
  const std::string name = text("constant_", initializers_.size());
  initializers_.push_back({name, type, std::move(shape), std::move(bytes)});
  return name;
}

std::string Exporter::constant(UOp node) {
  Tensor t;
  if (node->is(Op::Const)) {
    const DType d = node->dtype == DType::index ? DType::i64 : node->dtype;
    const Scalar s = scalar_of(node);
    t = is_float(d) ? full({}, s.f, {.dtype = DType::f64}).to(d) : full({}, s.i, {.dtype = d});
  } else {
    Ref held(node);
    if (node->dtype == DType::index) held = prim::cast(held, DType::i64);
    t = make_value(held, node->device ? node->device : kDefaultDevice);
  }
  return names_[node.get()] = initializer(type_number(node->dtype), shape_of(node), bytes_of(t));
}

std::string Exporter::ints_constant(const Numbers& list) {
  std::string bytes(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(int64_t));
  return initializer(kInt64, {static_cast<int64_t>(list.size())}, std::move(bytes));
}

std::string Exporter::filled(const Numbers& shape, DType dtype, double v) {
  return initializer(type_number(dtype), shape, bytes_of(full(shape, v, {.dtype = dtype})));
}

MessageWriter port(const std::string& name, int type, const Numbers& sizes) {
  MessageWriter shape, tensor, kind, out;
  for (const int64_t s : sizes) shape.message(1, MessageWriter().integer(1, s));
  tensor.integer(1, type).message(2, shape);
  kind.message(1, tensor);
  out.bytes(1, name).message(2, kind);
  return out;
}

void Exporter::add_input(const Tensor& t, size_t i) {
  const std::string name = "input_" + std::to_string(i);
  graph_.message(11, port(name, type_number(t.dtype()), t.shape()));
  const Ref flat = flat_of(t), whole = node_of(t);
  made_.push_back(flat), made_.push_back(whole);
  names_[whole.get()] = name;
  // Most of what reads memory shapes it, from whatever shape.
  auto reads_flat = [&](UOp n) {
    return !n->is(Op::Reshape) && std::ranges::any_of(sources(n), [&](UOp s) { return s == flat; });
  };
  const bool is_read_flat =
      std::ranges::any_of(order_, reads_flat) || std::ranges::count(results_, flat) > 0;
  names_[flat.get()] = is_read_flat && whole != flat
                           ? add(NodeWriter("Reshape").in(name).in(ints_constant({-1})))
                           : name;
}

void Exporter::add_output(UOp result, size_t i) {
  const std::string name = "output_" + std::to_string(i);
  NodeWriter node("Identity");
  node.in(value(result));
  node.message_.bytes(2, name);
  graph_.message(1, node.message_);
  graph_.message(12, port(name, type_number(result->dtype), shape_of(result)));
}

std::string Exporter::add(NodeWriter node) {
  const std::string name = text(node.op(), "_", counts_[node.op()]++);
  node.message_.bytes(2, name).bytes(3, name);
  graph_.message(1, node.message_);
  return name;
}

std::string Exporter::miss(std::string_view what, uint32_t place_id) {
  const Provenance& from = provenance(place_id);
  const std::string where = place(place_id);
  missing_.insert(text(what, *from.method ? text(" of ", from.method) : std::string(),
                       where.empty() ? "" : ", called at ", where));
  return "missing";
}

std::string Exporter::emit(UOp n) {
  if (const RecordedCall* call = recorded_call(recorder_, n)) return emit_call(n, *call);
  if (is_same(n)) return value(n->src(0));
  if (has(n->op, Movement)) return emit_movement(n);
  if (const std::string name = elementwise_name(n); !name.empty()) return emit_elementwise(n, name);
  switch (n->op) {
    case Op::Cast:
      return add(NodeWriter("Cast").in(value(n->src(0))).integer("to", type_number(n->dtype)));
    case Op::Reduce: return emit_reduce(n);
    case Op::MulAdd: {
      const std::string product = add(NodeWriter("Mul").in(value(n->src(0))).in(value(n->src(1))));
      return add(NodeWriter("Add").in(product).in(value(n->src(2))));
    }
    case Op::Exp2: {
      const std::string scaled =
          add(NodeWriter("Mul").in(value(n->src(0))).in(filled({}, n->dtype, std::numbers::ln2)));
      return add(NodeWriter("Exp").in(scaled));
    }
    case Op::Log2: {
      const std::string log = add(NodeWriter("Log").in(value(n->src(0))));
      return add(NodeWriter("Mul").in(log).in(filled({}, n->dtype, std::numbers::log2e)));
    }
    default: return miss(n);
  }
}

std::string Exporter::emit_elementwise(UOp n, const std::string& name) {
  const Operands from = operands(n);
  NodeWriter node(from.subtracts ? "Sub" : name.c_str());
  for (UOp s : from.list) node.in(value(s));
  return add(std::move(node));
}

std::string Exporter::emit_reduce(UOp n) {
  const auto op = static_cast<Op>(n->ints(0));
  const char* name = op == Op::Add   ? "ReduceSum"
                     : op == Op::Mul ? "ReduceProd"
                     : op == Op::Max ? "ReduceMax"
                     : op == Op::Min ? "ReduceMin"
                                     : nullptr;
  if (!name || n->dtype == DType::boolean) return miss(n);
  const Numbers axes(n->ints().begin() + 1, n->ints().end());
  return add(NodeWriter(name).in(value(n->src(0))).in(ints_constant(axes)));
}

std::string Exporter::emit_movement(UOp n) {
  const std::string x = value(n->src(0));
  const Numbers ints(n->ints().begin(), n->ints().end());
  auto every_second = [&](size_t from) {
    Numbers out;
    for (size_t i = from; i < ints.size(); i += 2) out.push_back(ints[i]);
    return out;
  };
  switch (n->op) {
    case Op::Reshape: return add(NodeWriter("Reshape").in(x).in(ints_constant(shape_of(n))));
    case Op::Expand: return add(NodeWriter("Expand").in(x).in(ints_constant(shape_of(n))));
    case Op::Permute: return add(NodeWriter("Transpose").in(x).ints("perm", ints));
    case Op::Pad: {
      Numbers amounts = every_second(0), after = every_second(1);
      amounts.insert(amounts.end(), after.begin(), after.end());
      return add(NodeWriter("Pad").in(x).in(ints_constant(amounts)));
    }
    case Op::Shrink:
      return add(NodeWriter("Slice")
                     .in(x)
                     .in(ints_constant(every_second(0)))
                     .in(ints_constant(every_second(1))));
    case Op::Flip: {
      const Numbers last(ints.size(), -1), front(ints.size(), INT64_MIN);
      return add(NodeWriter("Slice")
                     .in(x)
                     .in(ints_constant(last))
                     .in(ints_constant(front))
                     .in(ints_constant(ints))
                     .in(ints_constant(last)));
    }
    default: return miss(n);
  }
}

// ---- calls

std::string Exporter::emit_conv(const RecordedCall& call, const char* op) {
  const std::span<const int64_t> all = call.ints;
  const size_t axes = shape_of(call.operands[0].get()).size() - 2;
  auto list = [&](size_t i, size_t count) { return all.subspan(1 + i * axes, count * axes); };
  NodeWriter node(op);
  node.in(operand(call, 0)).in(operand(call, 1));
  if (call.operands[2]) node.in(operand(call, 2));
  node.integer("group", all[0]).ints("strides", list(0, 1)).ints("dilations", list(1, 1));
  node.ints("pads", list(2, 2));
  if (all.size() > 1 + 4 * axes) node.ints("output_padding", list(4, 1));
  return add(std::move(node));
}

std::string Exporter::emit_pool(const RecordedCall& call, const char* op) {
  const std::span<const int64_t> all = call.ints;
  const size_t axes = all.size() / 5;
  NodeWriter node(op);
  node.in(operand(call, 0)).ints("kernel_shape", all.first(axes));
  node.ints("strides", all.subspan(axes, axes)).ints("pads", all.subspan(3 * axes));
  const auto dilations = all.subspan(2 * axes, axes);
  if (std::ranges::any_of(dilations, [](int64_t d) { return d != 1; }))
    node.ints("dilations", dilations);
  if (op == std::string_view("AveragePool")) node.integer("count_include_pad", 1);
  return add(std::move(node));
}

// Of a batch: (x, mean, variance, weight, bias); of a layer: (x, weight, bias).
std::string Exporter::emit_norm(UOp n, const RecordedCall& call) {
  const bool is_batch = call.what == std::string_view("batch_norm");
  const Numbers shape = shape_of(n);
  const Numbers sizes =
      is_batch ? Numbers{shape[1]} : Numbers(shape.end() - call.ints[0], shape.end());
  const size_t weight = is_batch ? 3 : 1;
  NodeWriter node(is_batch ? "BatchNormalization" : "LayerNormalization");
  node.in(operand(call, 0));
  node.in(call.operands[weight] ? operand(call, weight) : filled(sizes, n->dtype, 1));
  if (call.operands[weight + 1])
    node.in(operand(call, weight + 1));
  else if (is_batch)
    node.in(filled(sizes, n->dtype, 0));
  if (is_batch) node.in(operand(call, 1)).in(operand(call, 2));
  if (!is_batch) node.integer("axis", -call.ints[0]);
  return add(std::move(node.real("epsilon", call.real)));
}

std::string Exporter::emit_call(UOp n, const RecordedCall& call) {
  const std::string_view what = call.what;
  const DType from = call.operands[0]->dtype;
  auto with_axis = [&](const char* op, int64_t axis) {
    NodeWriter node(op);
    for (size_t i = 0; i < call.operands.size(); ++i) node.in(operand(call, i));
    return add(std::move(node.integer("axis", axis)));
  };
  std::string out;
  if (what == "conv") out = emit_conv(call, "Conv");
  if (what == "conv_transpose") out = emit_conv(call, "ConvTranspose");
  if (what == "max_pool") out = emit_pool(call, "MaxPool");
  if (what == "avg_pool") out = emit_pool(call, "AveragePool");
  if (what == "batch_norm" || what == "layer_norm") out = emit_norm(n, call);
  if (what == "softmax") out = with_axis("Softmax", call.ints[0]);
  if (what == "log_softmax") out = with_axis("LogSoftmax", call.ints[0]);
  if (what == "cat") out = with_axis("Concat", call.ints[0]);
  if (what == "index_select") out = with_axis("Gather", call.ints[0]);
  if (what == "gather") out = with_axis("GatherElements", call.ints[0]);
  if (what == "relu") out = add(NodeWriter("Relu").in(operand(call, 0)));
  if (what == "sigmoid") out = add(NodeWriter("Sigmoid").in(operand(call, 0)));
  if (what == "matmul") out = add(NodeWriter("MatMul").in(operand(call, 0)).in(operand(call, 1)));
  if (what == "gelu")
    out = add(NodeWriter("Gelu")
                  .in(operand(call, 0))
                  .text("approximate", call.ints[0] ? "tanh" : "none"));
  if (what == "mean")
    out = add(NodeWriter("ReduceMean")
                  .in(operand(call, 0))
                  .in(ints_constant({call.ints.begin() + 1, call.ints.end()}))
                  .integer("keepdims", call.ints[0]));
  ensure(!out.empty(), "the call ", what, " has no operator");
  if (from == n->dtype || what == "index_select" || what == "gather") return out;
  return add(NodeWriter("Cast").in(out).integer("to", type_number(n->dtype)));
}

// ---- the file

std::string Exporter::model(const std::string& data_file, std::string* data) const {
  MessageWriter graph = graph_;
  graph.bytes(2, "mote");
  for (const Initializer& i : initializers_) {
    if (!data) {
      graph.message(5, tensor_message(i.name, i.type, i.shape, i.bytes));
      continue;
    }
    MessageWriter t;
    t.integers(1, i.shape).integer(2, i.type).bytes(8, i.name).integer(14, 1);
    data->resize((data->size() + 63) / 64 * 64);
    auto entry = [&](const char* key, const std::string& v) {
      t.message(13, MessageWriter().bytes(1, key).bytes(2, v));
    };
    entry("location", data_file), entry("offset", std::to_string(data->size()));
    entry("length", std::to_string(i.bytes.size()));
    *data += i.bytes;
    graph.message(5, t);
  }
  MessageWriter opset, out;
  opset.bytes(1, "").integer(2, kOpset);
  out.integer(1, kIrVersion).bytes(2, "mote").message(7, graph).message(8, opset);
  return out.text();
}

}  // namespace

void save(const std::string& path, const SavedFunction& f,
          const std::vector<Tensor>& example_inputs, const SaveOptions& options, Loc where) {
  std::vector<Tensor> inputs, outputs;
  {
    OuterCall call("onnx::save", where);
    for (const Tensor& t : example_inputs) {
      expect_defined(t, "an example input");
      inputs.push_back(t.clone().contiguous().realize());
    }
  }
  CallRecorder recorder;
  outputs = f(inputs);  // outside, for its calls are the program's
  OuterCall call("onnx::save", where);
  for (const Tensor& t : outputs) expect_defined(t, "a result");
  const Exporter exporter(recorder, inputs, outputs);
  const bool is_external = exporter.initializer_bytes() > options.external_above;
  const std::string data_path = path + ".data";
  std::string data;
  const std::string model =
      exporter.model(data_path.substr(data_path.rfind('/') + 1), is_external ? &data : nullptr);
  auto write = [](const std::string& to, const std::string& bytes) {
    OutputFile file(to);
    file.write(bytes);
    file.commit();
  };
  if (is_external) write(data_path, data);
  write(path, model);
}

}  // namespace mote::onnx
