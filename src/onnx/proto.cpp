#include "onnx/proto.h"

#include <charconv>

namespace mote::onnx {

namespace {

constexpr int deepest = 32;  // graphs in attributes of nodes of graphs, types of types

using Names = std::vector<std::string_view>;

void add_text(const Message& in, const Field& f, const char* name, Names& out) {
  in.add(out) = in.text(f, name);
}

// StringStringEntryProto
std::pair<std::string_view, std::string_view> read_entry(Message in) {
  std::string_view key, value;
  for (Field f; in.next(f);) {
    if (f.number == 1) key = in.text(f, "key");
    if (f.number == 2) value = in.text(f, "value");
  }
  return {key, value};
}

int64_t number_of(const Message& in, std::string_view key, std::string_view text) {
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  in.check(error == std::errc() && stop == text.data() + text.size() && value >= 0,
           "external_data's ", key, " is ", quoted(text));
  return value;
}

void read_external(const Message& in, const Field& f, TensorData& out) {
  const auto [key, value] = read_entry(in.message(f, "external_data", in.what()));
  if (key == "location") out.location = value;
  if (key == "offset") out.offset = number_of(in, key, value);
  if (key == "length") out.length = number_of(in, key, value);
}

TensorData read_tensor(Message in) {
  TensorData t;
  for (Field f; in.next(f);) switch (f.number) {
      case 1: in.integers(f, "dims", t.dims); break;
      case 2: t.type = static_cast<int>(in.integer(f, "data_type")); break;
      case 3: in.check(false, "segments are not supported"); break;
      case 4: in.reals(f, "float_data", t.floats); break;
      case 5: in.integers(f, "int32_data", t.ints); break;
      case 6: in.add(t.strings) = in.bytes(f, "string_data").text(); break;
      case 7: in.integers(f, "int64_data", t.ints); break;
      case 8:
        t.name = in.text(f, "name");
        in.rename(text("the tensor ", quoted(t.name)));
        break;
      case 9: t.raw = in.bytes(f, "raw_data"), t.is_raw = true; break;
      case 10: in.doubles(f, "double_data", t.doubles); break;
      case 11: in.integers(f, "uint64_data", t.ints); break;
      case 13: read_external(in, f, t); break;
      case 14: t.is_external = in.integer(f, "data_location") == 1; break;
      default: break;
    }
  in.check(t.dims.size() <= kMostAxes, "it has ", t.dims.size(), " axes, more than ", kMostAxes);
  return t;
}

SparseData read_sparse(Message in) {
  SparseData s;
  for (Field f; in.next(f);) switch (f.number) {
      case 1: s.values = read_tensor(in.message(f, "values", in.what() + ": values")); break;
      case 2: s.indices = read_tensor(in.message(f, "indices", in.what() + ": indices")); break;
      case 3: in.integers(f, "dims", s.dims); break;
      default: break;
    }
  return s;
}

std::string read_dimension(Message in) {
  std::string out = "?";
  for (Field f; in.next(f);) {
    if (f.number == 1) out = std::to_string(in.integer(f, "dim_value"));
    if (f.number == 2 && !in.text(f, "dim_param").empty()) out = in.text(f, "dim_param");
  }
  return out;
}

void read_tensor_type(Message in, Type& out) {
  for (Field f; in.next(f);) {
    if (f.number == 1) out.element = static_cast<int>(in.integer(f, "elem_type"));
    if (f.number != 2) continue;
    out.has_shape = true;
    Message shape = in.message(f, "shape", in.what());
    for (Field d; shape.next(d);)
      if (d.number == 1) in.add(out.dims) = read_dimension(shape.message(d, "dim", in.what()));
  }
}

Type read_type(Message in, int depth = 0) {
  in.check(depth < deepest, "types are nested more than ", deepest, " deep");
  Type out;
  for (Field f; in.next(f);) {
    if (f.number == 1) {
      out.kind = Type::Tensor;
      read_tensor_type(in.message(f, "tensor_type", in.what()), out);
    } else if (f.number == 4 || f.number == 9) {
      out.kind = f.number == 4 ? Type::Sequence : Type::Optional;
      Message of = in.message(f, "elem_type", in.what());
      for (Field e; of.next(e);) {
        if (e.number != 1) continue;
        in.budget().take(sizeof(Type));
        out.of =
            std::make_shared<Type>(read_type(of.message(e, "elem_type", in.what()), depth + 1));
      }
    } else if (f.number == 5 || f.number == 7 || f.number == 8) {
      out.kind = Type::Other;
    }
  }
  return out;
}

Port read_port(Message in) {
  Port out;
  for (Field f; in.next(f);) {
    if (f.number == 1) {
      out.name = in.text(f, "name");
      in.rename(text("the value ", quoted(out.name)));
    }
    if (f.number == 2) out.type = read_type(in.message(f, "type", in.what()));
  }
  return out;
}

Graph read_graph(Message in, int depth);

template <class T>
std::shared_ptr<T> shared(const Message& in, T value) {
  in.budget().take(sizeof(T));
  return std::make_shared<T>(std::move(value));
}

Attribute read_attribute(Message in, int depth) {
  Attribute a;
  const std::string node = in.what();
  auto part = [&](const Field& f, const char* name) { return in.message(f, name, in.what()); };
  for (Field f; in.next(f);) switch (f.number) {
      case 1:
        a.name = in.text(f, "name");
        in.rename(text(node, ", attribute ", quoted(a.name)));
        break;
      case 2: a.real = in.real(f, "f"); break;
      case 3: a.integer = in.integer(f, "i"); break;
      case 4: a.text = in.bytes(f, "s").text(); break;
      case 5: a.tensor = shared(in, read_tensor(part(f, "t"))); break;
      case 6: a.graph = shared(in, read_graph(part(f, "g"), depth + 1)); break;
      case 7: in.reals(f, "floats", a.reals); break;
      case 8: in.integers(f, "ints", a.integers); break;
      case 9: in.add(a.texts) = in.bytes(f, "strings").text(); break;
      case 14: a.type = shared(in, read_type(part(f, "tp"))); break;
      case 20: a.kind = static_cast<int>(in.integer(f, "type")); break;
      case 21: a.refers_to = in.text(f, "ref_attr_name"); break;
      case 22: a.sparse = shared(in, read_sparse(part(f, "sparse_tensor"))); break;
      default: break;
    }
  return a;
}

Node read_node(Message in, int depth) {
  Node n;
  // The name, which errors in attributes give, may stand after them.
  std::vector<Field> attributes;
  for (Field f; in.next(f);) switch (f.number) {
      case 1: add_text(in, f, "input", n.inputs); break;
      case 2: add_text(in, f, "output", n.outputs); break;
      case 3: n.name = in.text(f, "name"); break;
      case 4: n.op = in.text(f, "op_type"); break;
      case 5: in.add(attributes) = f; break;
      case 7: n.domain = in.text(f, "domain"); break;
      case 8: n.overload = in.text(f, "overload"); break;
      default: break;
    }
  if (n.domain == "ai.onnx") n.domain = {};
  in.check(!n.op.empty(), "a node has no op_type");
  in.rename(node_text(n));
  for (const Field& f : attributes)
    in.add(n.attributes) = read_attribute(in.message(f, "attribute", in.what()), depth);
  return n;
}

Graph read_graph(Message in, int depth) {
  in.check(depth < deepest, "graphs are nested more than ", deepest, " deep");
  Graph g;
  auto part = [&](const Field& f, const char* name) { return in.message(f, name, in.what()); };
  for (Field f; in.next(f);) switch (f.number) {
      case 1: in.add(g.nodes) = read_node(part(f, "node"), depth); break;
      case 2:
        g.name = in.text(f, "name");
        in.rename(text("the graph ", quoted(g.name)));
        break;
      case 5: in.add(g.initializers) = read_tensor(part(f, "initializer")); break;
      case 11: in.add(g.inputs) = read_port(part(f, "input")); break;
      case 12: in.add(g.outputs) = read_port(part(f, "output")); break;
      case 15: in.add(g.sparse) = read_sparse(part(f, "sparse_initializer")); break;
      default: break;
    }
  return g;
}

void read_opset(Message in, Opsets& out) {
  std::string_view domain;
  int64_t version = 0;
  for (Field f; in.next(f);) {
    if (f.number == 1) domain = in.text(f, "domain");
    if (f.number == 2) version = in.integer(f, "version");
  }
  in.check(version >= 0 && version < 1 << 20, "the opset of ", quoted(domain), " is ", version);
  in.budget().take(sizeof(Opsets::value_type) + 4 * sizeof(void*));
  out[domain == "ai.onnx" ? "" : domain] = version;
}

Function read_function(Message in) {
  Function fn;
  auto part = [&](const Field& f, const char* name) { return in.message(f, name, in.what()); };
  for (Field f; in.next(f);) switch (f.number) {
      case 1:
        fn.name = in.text(f, "name");
        in.rename(text("the function ", quoted(fn.name)));
        break;
      case 4: add_text(in, f, "input", fn.inputs); break;
      case 5: add_text(in, f, "output", fn.outputs); break;
      case 7: in.add(fn.nodes) = read_node(part(f, "node"), 0); break;
      case 9: read_opset(part(f, "opset_import"), fn.opsets); break;
      case 10: fn.domain = in.text(f, "domain"); break;
      case 11: in.add(fn.defaults) = read_attribute(part(f, "attribute_proto"), 0); break;
      case 13: fn.overload = in.text(f, "overload"); break;
      default: break;
    }
  if (fn.domain == "ai.onnx") fn.domain = {};
  return fn;
}

}  // namespace

std::string node_text(const Node& node) {
  std::string out =
      text(node.domain, node.domain.empty() ? "" : ".", printable(std::string(node.op)));
  if (!node.name.empty()) return text(out, " ", quoted(node.name));
  return node.outputs.empty() ? out : text(out, " -> ", quoted(node.outputs[0]));
}

ModelData parse_model(const File& file) {
  ModelData m;
  Budget budget(file);
  Message in(budget, file.bytes, "the model");
  bool has_graph = false;
  for (Field f; in.next(f);) switch (f.number) {
      case 1: m.ir_version = in.integer(f, "ir_version"); break;
      case 2: m.producer = in.text(f, "producer_name"); break;
      case 7:
        m.graph = read_graph(in.message(f, "graph", "the graph"), 0);
        has_graph = true;
        break;
      case 8: read_opset(in.message(f, "opset_import", "the model"), m.opsets); break;
      case 25: in.add(m.functions) = read_function(in.message(f, "functions", "a function")); break;
      default: break;
    }
  in.check(has_graph, "there is no graph, so this is not an ONNX file");
  return m;
}

TensorData parse_tensor(const File& file) {
  Budget budget(file);
  return read_tensor({budget, file.bytes, "the tensor"});
}

}  // namespace mote::onnx
