#include "onnx/run.h"

#include <algorithm>
#include <set>

#include "ir/provenance.h"
#include "runtime/device.h"

namespace mote::onnx {

namespace {

constexpr uint64_t other_inputs = uint64_t{1} << 63;
constexpr int deepest = 256;  // functions that call functions, and graphs in graphs

int level_of(const std::vector<const Value*>& in) {
  int level = 2;
  for (const Value* v : in)
    if (v && v->defined()) level = std::min<int>(level, v->level);
  return level;
}

uint64_t inputs_of(const std::vector<const Value*>& in) {
  uint64_t all = 0;
  for (const Value* v : in)
    if (v) all |= v->inputs;
  return all;
}

bool is_small(const Value& v) {
  if (v.kind == Value::Sequence) return std::all_of(v.items.begin(), v.items.end(), is_small);
  return v.kind != Value::Tensor || v.tensor.numel() <= kHostElements;
}

void mark_known(Value& v, int level, bool on_host) {
  v.level = static_cast<uint8_t>(level);
  if (v.exact)
    for (Value* part : {&v.exact->whole, &v.exact->narrow, &v.exact->scale, &v.exact->wide})
      if (part->defined()) mark_known(*part, level, on_host);
  for (Value& item : v.items)
    if (!item.level) mark_known(item, level, on_host);
  if (v.kind != Value::Tensor || v.places) return;
  v.places = Held<Places>(new Places);
  (on_host ? v.places->on_host : v.places->on_device) = v.tensor;
}

// Float results of integers' dtype, and the like, follow the first input where it is held in a
// wider dtype.
void set_type(Value& v, const std::vector<const Value*>& in) {
  if (v.kind != Value::Tensor || v.type) return;
  v.type = type_of(v.tensor.dtype());
  if (in.empty() || !in[0] || in[0]->kind != Value::Tensor) return;
  const Element* first = find_element(type_of(*in[0]));
  if (first && first->is_held() && first->held == v.tensor.dtype()) v.type = first->type;
}

}  // namespace

Value known_value(Value v, int level) {
  v.level = static_cast<uint8_t>(level);
  if (v.kind == Value::Tensor && !v.places) {
    v.places = Held<Places>(new Places);
    v.places->source = v.tensor;
  }
  return v;
}

Tensor Runner::place(const Value& v, bool on_host) {
  if (!v.places) return v.tensor;
  Places& p = *v.places;
  Tensor& wanted = on_host ? p.on_host : p.on_device;
  if (wanted.defined()) return wanted;
  if (kHost == device_ && (p.on_host.defined() || p.on_device.defined()))
    return wanted = p.on_host.defined() ? p.on_host : p.on_device;
  Tensor from = p.source.defined() ? p.source : p.on_host.defined() ? p.on_host : p.on_device;
  if (!p.source.defined()) from.realize();  // each device by itself
  ensure(!follows_, "a captured run needs a value that its first run did not");
  wanted = from.to(device(on_host));
  wanted.realize();
  return wanted;
}

void Runner::note_data() {
  ensure(!follows_, "a captured run counts elements");
  depends_on_data = true;
}

void Runner::note_read(const Value& v) {
  if (v.level) return;
  if (may_specialize && v.inputs && !(v.inputs & other_inputs)) throw Specialize{v.inputs};
  note_data();
}

const Tensor* Runner::next_constant() {
  if (!follows_) return nullptr;
  ensure(constant_ < trace_.constants.size(), "a captured run makes more constants");
  return &trace_.constants[constant_++];
}

Tensor Runner::keep_constant(Tensor t) {
  t.realize();
  trace_.constants.push_back(t);
  return t;
}

const Value* Runner::find(std::string_view name) const {
  if (name.empty()) return nullptr;
  for (Frame* f = frame_; f; f = f->outer)
    if (const auto it = f->values.find(name); it != f->values.end()) return &it->second;
  fail_call("the value ", quoted(name),
            " is used, but no input, initializer or earlier node produces it");
}

const Attribute* Runner::attribute(const Node& node, std::string_view name) const {
  auto in = [](const std::vector<Attribute>& list, std::string_view n) -> const Attribute* {
    for (const Attribute& a : list)
      if (a.name == n) return &a;
    return nullptr;
  };
  const Attribute* a = in(node.attributes, name);
  const Frame* f = frame_;
  // The attribute of the node that called the function, which may refer to one of its own.
  while (a && !a->refers_to.empty()) {
    while (f && !f->body) f = f->outer;
    if (!f) return nullptr;
    const std::string_view outer = a->refers_to;
    a = in(f->function->attributes, outer);
    if (!a) return in(f->body->defaults, outer);
    f = f->function_frame;
  }
  return a;
}

// While a graph or a function runs, names are looked up in its frame first.
struct Runner::Inside {
  Runner& runner;
  Frame* before;
  Inside(Runner& r, Frame& frame) : runner(r), before(r.frame_) {
    expect(r.depth_ + 1 < deepest, "graphs and functions are nested more than ", deepest, " deep");
    r.frame_ = &frame, ++r.depth_;
  }
  ~Inside() { runner.frame_ = before, --runner.depth_; }
};

Outputs Runner::run(const Graph& graph, std::vector<Value> inputs, Frame* outer) {
  Frame frame{.outer = outer};
  if (const auto it = initializers_.of.find(&graph); it != initializers_.of.end())
    frame.values = it->second;
  expect(inputs.size() <= graph.inputs.size(), "the graph ", quoted(graph.name), " has ",
         graph.inputs.size(), " inputs, but is given ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() || !frame.values.contains(graph.inputs[i].name))
      frame.values[graph.inputs[i].name] = std::move(inputs[i]);
  Inside inside(*this, frame);
  for (const Node& node : graph.nodes) run_node(node);
  Outputs out;
  for (const Port& p : graph.outputs) {
    const Value* v = find(p.name);
    out.push_back(v ? *v : Value());
  }
  return out;
}

Outputs Runner::run_function(const Node& node, const std::vector<const Value*>& in) {
  const Function& fn = *node.function;
  expect(in.size() <= fn.inputs.size(), "the function ", quoted(fn.name), " has ", fn.inputs.size(),
         " inputs, but is given ", in.size());
  Frame frame{.function = &node, .body = &fn, .function_frame = frame_};
  for (size_t i = 0; i < fn.inputs.size(); ++i)
    frame.values[fn.inputs[i]] = i < in.size() && in[i] ? *in[i] : Value();
  Inside inside(*this, frame);
  for (const Node& n : fn.nodes) run_node(n);
  Outputs out;
  for (const std::string_view name : fn.outputs) {
    const Value* v = find(name);
    out.push_back(v ? *v : Value());
  }
  return out;
}

namespace {

// Errors of f name the node; said once, by the innermost.
template <class F>
auto within(const Node& node, F f) {
  try {
    return f();
  } catch (const Error& e) {
    const std::string_view what = e.what();
    if (what.find("[onnx ") != what.npos) throw;
    throw Error(e.kind(), text("[onnx ", node_text(node), "] ", what));
  }
}

// A text for each node that has run, kept for ever: what was made by a kernel says so after the
// model is gone.
const char* kept_text(const Node& node) {
  static auto* mutex = new std::mutex;
  static auto* texts = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  return texts->insert(node_text(node)).first->c_str();
}

}  // namespace

void Runner::run_node(const Node& node) {
  Outputs out = within(node, [&] {
    std::vector<const Value*> in;
    for (const std::string_view name : node.inputs) in.push_back(find(name));
    Outputs made = node.function ? run_function(node, in) : evaluate(node, in);
    check_outputs(node, made);
    return made;
  });
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty())
      frame_->values[node.outputs[i]] = i < out.size() ? std::move(out[i]) : Value();
}

void Runner::check_outputs(const Node& node, const Outputs& out) const {
  for (size_t i = out.size(); i < node.outputs.size(); ++i)
    expect(node.outputs[i].empty(), "there is no output ", i);
  const int64_t room = mote::device(device_).memory_bytes();
  for (const Value& v : out)
    expect(v.kind != Value::Tensor || v.tensor.nbytes() <= room, "an output of shape ",
           v.kind == Value::Tensor ? v.tensor.shape() : std::vector<int64_t>(),
           " does not fit the ", room, " bytes of memory");
}

Outputs Runner::evaluate(const Node& node, const std::vector<const Value*>& in) {
  const size_t step = step_++;
  if (follows_) {
    ensure(step < trace_.steps.size(), "a captured run takes more steps");
    const Trace::Step& known = trace_.steps[step];
    if (!known.known) return compute(node, in);
    step_ = known.next_step, constant_ = known.next_constant;
    return known.outputs;
  }
  trace_.steps.emplace_back();
  Outputs out;
  const bool may_fold = depth_ == 1 && !node.row->has_graphs && !node.row->varies;
  if (const auto it = folded_.find(&node); may_fold && it != folded_.end())
    out = it->second;
  else
    out = compute(node, in);
  auto has_level = [](int least) {
    return [least](const Value& v) { return !v.defined() || v.level >= least; };
  };
  if (!std::all_of(out.begin(), out.end(), has_level(1))) return out;
  trace_.steps[step] = {true, out, step_, trace_.constants.size()};
  if (may_fold && std::all_of(out.begin(), out.end(), has_level(2))) folded_[&node] = out;
  return out;
}

Outputs Runner::compute(const Node& node, const std::vector<const Value*>& in) {
  // A subgraph may use values around it that are not known: its own nodes say what is.
  const bool opaque = node.row->varies || node.row->has_graphs;
  const int level = opaque ? 0 : level_of(in);
  auto small = [](const Value* v) { return !v || is_small(*v); };
  bool on_host = level > 0 && std::all_of(in.begin(), in.end(), small);
  Outputs out = call(node, in, on_host);
  if (on_host && device_ != kHost && !std::all_of(out.begin(), out.end(), is_small))
    out = call(node, in, on_host = false);
  auto is_exact = [](const Value* v) { return v && v->exact; };
  if (node.row->keeps_exact && std::any_of(in.begin(), in.end(), is_exact)) {
    const Outputs wide = call(node, in, on_host, true);
    for (size_t i = 0; i < out.size(); ++i) {
      if (wide[i].kind != Value::Tensor || wide[i].tensor.dtype() != DType::f64) continue;
      out[i] = exact_value(wide[i].tensor, out[i].tensor.dtype());
    }
  }
  for (Value& v : out) {
    set_type(v, in);
    if (v.level) continue;
    if (level > 0)
      mark_known(v, level, on_host);
    else if (!v.inputs)
      v.inputs = opaque ? other_inputs : inputs_of(in);
  }
  return out;
}

Outputs Runner::call(const Node& node, const std::vector<const Value*>& in, bool on_host,
                     bool wide) {
  Call c(*this, node, in, on_host);
  if (wide) c.use_wide();
  // What it makes is this node's in profiles and in errors of kernels.
  const ModuleScope module(kept_text(node));
  return node.row->run(c);
}

}  // namespace mote::onnx
