#include "onnx/model.h"

#include <algorithm>
#include <map>
#include <set>

namespace mote::onnx {

namespace {

constexpr size_t most_signatures = 32;
constexpr int64_t few = 16;        // elements of an input that may belong to the key
constexpr size_t most_keyed = 62;  // inputs that have a bit

PortInfo info_of(const Port& p) {
  const Type& t = p.type.kind == Type::Optional && p.type.of ? *p.type.of : p.type;
  return {std::string(p.name), type_text(p.type), t.has_shape, t.dims};
}

bool may_be_keyed(const Value& v) {
  return v.kind == Value::Tensor && !is_float(v.tensor.dtype()) && v.tensor.numel() <= few;
}

void move(Value& v, const std::string& device) {
  if (v.kind == Value::Tensor) v.tensor = v.tensor.to(device);
  for (Value& item : v.items) move(item, device);
}

bool is_plain(const Value& v) { return v.kind == Value::Tensor; }

}  // namespace

ModelCore::ModelCore(File file, Folder folder, std::string device)
    : file_(std::move(file)),
      folder_(std::move(folder)),
      device_(device.empty() ? default_device() : std::move(device)),
      data_(parse_model(file_)) {
  for (const Function& fn : data_.functions) functions_[{fn.domain, fn.name, fn.overload}] = &fn;
  for (Function& fn : data_.functions) resolve(fn.nodes, fn.opsets);
  resolve(data_.graph.nodes, data_.opsets);
  for (const auto& [name, count] : counts_) operators.push_back({name, count});
  if (!missing_.empty()) {
    std::string all;
    for (const std::string& m : missing_) all += "\n  " + m;
    fail_file(file_.name, text("has operators that are not supported:", all));
  }
  load(data_.graph);
  const Scope& own = initializers_.of[&data_.graph];
  for (const Port& p : data_.graph.inputs) {
    if (own.contains(p.name)) continue;
    ports_.push_back(&p);
    inputs.push_back(info_of(p));
  }
  for (const Port& p : data_.graph.outputs) outputs.push_back(info_of(p));
  for (const TensorData& t : data_.graph.initializers)
    parameters += static_cast<int64_t>(byte_size(file_.name, "a tensor", t.dims, 1));
  producer = data_.producer;
}

// Finds each node's operator or function, in subgraphs too, and counts them.
void ModelCore::resolve(std::vector<Node>& nodes, const Opsets& opsets) {
  sort_nodes(nodes);
  for (Node& n : nodes) {
    auto version = opsets.find(n.domain);
    if (version == opsets.end()) version = data_.opsets.find(n.domain);
    const bool known = version != opsets.end() && version != data_.opsets.end();
    n.opset = known ? static_cast<int>(version->second) : 1;
    if (const auto fn = functions_.find({n.domain, n.op, n.overload}); fn != functions_.end())
      n.function = fn->second;
    if (!n.function) n.row = find_op(n.domain, n.op, n.opset);
    const std::string name = text(n.domain, n.domain.empty() ? "" : ".", n.op);
    if (!n.row && !n.function && missing_.size() < 100)
      missing_.push_back(text(node_text(n), " (opset ", n.opset, ")"));
    ++counts_[name];
    for (Attribute& a : n.attributes) {
      if (!a.graph) continue;
      resolve(a.graph->nodes, opsets);
      load(*a.graph);
    }
  }
}

void ModelCore::load(Graph& graph) {
  Scope& scope = initializers_.of[&graph];
  auto add = [&](std::string_view name, Value v) {
    check_file(scope.emplace(name, known_value(std::move(v), 2)).second, file_.name,
               "the initializer ", quoted(name), " appears twice");
  };
  for (const TensorData& t : graph.initializers) add(t.name, make_value(t, file_, folder_));
  for (const SparseData& s : graph.sparse) add(s.values.name, make_value(s, file_, folder_));
}

std::vector<Value> ModelCore::in_order(const std::vector<NamedValue>& named) const {
  std::vector<Value> out(ports_.size());
  for (const NamedValue& n : named) {
    const auto it = std::find_if(ports_.begin(), ports_.end(),
                                 [&](const Port* p) { return p->name == n.name; });
    expect(it != ports_.end(), "the model has no input ", quoted(n.name));
    Value& place = out[static_cast<size_t>(it - ports_.begin())];
    expect(!place.defined(), "the input ", quoted(n.name), " is given twice");
    place = n.value;
  }
  return out;
}

void ModelCore::check_inputs(std::vector<Value>& in) const {
  expect(in.size() <= ports_.size(), "the model has ", ports_.size(), " inputs, but ", in.size(),
         " are given");
  in.resize(ports_.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const Port& p = *ports_[i];
    const bool optional = p.type.kind == Type::Optional;
    expect(in[i].defined() || optional, "the input ", quoted(p.name), " is missing");
    if (in[i].kind != Value::Tensor) continue;
    const Type& t = optional && p.type.of ? *p.type.of : p.type;
    expect(t.kind == Type::Tensor, "the input ", quoted(p.name), " must be a ", type_text(p.type));
    if (const Element* e = find_element(t.element)) {
      expect(e->held == in[i].tensor.dtype(), "the input ", quoted(p.name), " must be ", e->name,
             ", but is ", in[i].tensor.dtype());
      in[i].type = e->type;
    }
    if (!t.has_shape) continue;
    const auto shape = in[i].tensor.shape();
    bool fits = shape.size() == t.dims.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      const int64_t wanted = declared_size(t.dims[d]);
      fits = wanted < 0 || wanted == shape[d];
    }
    std::string wanted;
    for (const std::string& d : t.dims) wanted += (wanted.empty() ? "" : ", ") + d;
    expect(fits, "the input ", quoted(p.name), " must have the shape (", wanted, "), but has ",
           shape);
  }
}

std::string ModelCore::key_of(const std::vector<Value>& in) const {
  std::string key;
  for (size_t i = 0; i < in.size(); ++i) {
    key += text(static_cast<int>(in[i].kind), ":", in[i].type);
    if (in[i].kind == Value::Tensor) key += text(in[i].tensor.shape());
    if (i < most_keyed && in_key_ >> i & 1) key += text("=", in[i].tensor.to_vector<int64_t>());
    key += ';';
  }
  return key;
}

// The inputs as the graph sees them: those of the key are known.
std::vector<Value> ModelCore::bound(const std::vector<Value>& in, Signature& s) const {
  s.keyed.resize(in.size());
  std::vector<Value> out(data_.graph.inputs.size());
  for (size_t i = 0; i < in.size(); ++i) {
    Value v = in[i];
    const uint64_t bit = uint64_t{1} << std::min(i, most_keyed);
    if (i < most_keyed && in_key_ & bit) {
      if (!s.keyed[i].level) {
        v.tensor = v.tensor.to(kHost).clone();
        s.keyed[i] = known_value(std::move(v), 1);
      }
      v = s.keyed[i];
    } else {
      v.inputs = i < most_keyed && may_be_keyed(v) ? bit : uint64_t{1} << 63;
    }
    const auto at = static_cast<size_t>(ports_[i] - data_.graph.inputs.data());
    out[at] = std::move(v);
  }
  return out;
}

Outputs ModelCore::execute(std::vector<Value> in, Signature& s) {
  if (!s.trace.complete) s.trace = {};
  Runner runner(initializers_, folded_, device_, s.trace);
  runner.may_specialize = signatures_.size() < most_signatures;
  Outputs out = runner.run(data_.graph, std::move(in), nullptr);
  s.interprets |= runner.depends_on_data || !std::all_of(out.begin(), out.end(), is_plain);
  if (!s.interprets) s.trace.complete = true;
  // Results leave where they were asked for.
  for (Value& v : out)
    if (v.kind == Value::Tensor && v.level) v.tensor = runner.place(v, false);
  return out;
}

namespace {

void collect(const std::vector<Value>& values, std::vector<Tensor>& out) {
  for (const Value& v : values) {
    if (v.kind == Value::Tensor) out.push_back(v.tensor);
    collect(v.items, out);
  }
}

}  // namespace

std::vector<Value> ModelCore::interpret(const std::vector<Value>& in, Signature& s) {
  Outputs out = execute(bound(in, s), s);
  std::vector<Tensor> all;
  collect(out, all);
  realize(all);
  return out;
}

std::vector<Value> ModelCore::replay(const std::vector<Value>& in, Signature& s) {
  std::vector<Tensor> arguments;
  for (const Value& v : in) arguments.push_back(v.tensor);
  if (!s.jit)
    s.jit = std::make_unique<Jit<Captured>>([this, &s, in](const std::vector<Tensor>& now) {
      std::vector<Value> values = in;
      for (size_t i = 0; i < values.size(); ++i) values[i].tensor = now[i];
      const Outputs out = execute(bound(values, s), s);
      std::vector<Tensor> results;
      if (!s.interprets) s.outputs = out;
      for (const Value& v : out)
        if (!v.level) results.push_back(v.tensor);
      return results;
    });
  const std::vector<Tensor> results = (*s.jit)(arguments);
  std::vector<Value> out = s.outputs;
  size_t next = 0;
  for (Value& v : out) {
    if (!v.level)
      v.tensor = results[next++];
    else
      v.tensor = v.tensor.clone();
  }
  return out;
}

std::vector<Value> ModelCore::run(std::vector<Value> in) {
  std::lock_guard lock(mutex_);
  check_inputs(in);
  bool plain = true;
  for (Value& v : in) {
    move(v, device_);
    plain &= is_plain(v);
  }
  for (;;) {
    if (signatures_.size() >= most_signatures && !signatures_.contains(key_of(in)))
      signatures_.clear();
    std::shared_ptr<Signature>& s = signatures_[key_of(in)];
    if (!s) {
      s = std::make_shared<Signature>();
      s->interprets = !plain;
    }
    const std::shared_ptr<Signature> held = s;
    try {
      if (held->interprets) return interpret(in, *held);
      std::vector<Value> out;
      // The first run finds out whether another one can be captured.
      if (!held->trace.complete) return interpret(in, *held);
      return replay(in, *held);
    } catch (const Specialize& wanted) {
      in_key_ |= wanted.inputs;
      signatures_.clear();
    }
  }
}

Model::Model(const std::string& path, const ModelOptions& options, Loc where) {
  OuterCall call("onnx::Model", where);
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  core_ = Held<ModelCore>(new ModelCore(open_file(path), Folder{folder}, options.device));
}

const std::vector<PortInfo>& Model::inputs() const { return core_->inputs; }
const std::vector<PortInfo>& Model::outputs() const { return core_->outputs; }
const std::vector<OpCount>& Model::operators() const { return core_->operators; }
int64_t Model::parameters() const { return core_->parameters; }
const std::string& Model::producer() const { return core_->producer; }

std::vector<Value> Model::run(const std::vector<Value>& inputs, Loc where) const {
  ProgramCall call("onnx::Model::run", where);
  return core_->run(inputs);
}

std::vector<NamedValue> Model::run(const std::vector<NamedValue>& inputs, Loc where) const {
  ProgramCall call("onnx::Model::run", where);
  std::vector<Value> values = core_->run(core_->in_order(inputs));
  std::vector<NamedValue> out;
  for (size_t i = 0; i < values.size(); ++i)
    out.push_back({core_->outputs[i].name, std::move(values[i])});
  return out;
}

}  // namespace mote::onnx
