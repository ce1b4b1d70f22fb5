// Models that are broken: each gives an error that names what is wrong and where, soon and without
// taking much memory.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <chrono>
#include <fstream>

#include "onnx/model.h"
#include "test/error_of.h"
#include "test/file_builders.h"

using namespace mote;
using namespace mote::test;

namespace {

// What loading and a run on zeros say; "" where all is well.
std::string outcome(const std::string& bytes) {
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  try {
    onnx::ModelCore model({"m.onnx", Bytes(std::span(copy))}, {}, "INTERP");
    std::vector<onnx::Value> in;
    for (const onnx::Port* p : model.ports()) {
      std::vector<int64_t> shape;
      for (const std::string& d : p->type.dims) shape.push_back(onnx::declared_size(d));
      in.emplace_back(zeros(shape, {onnx::element_of(p->type.element).held, "INTERP"}));
    }
    for (onnx::Value& v : model.run(in))
      if (v.kind == onnx::Value::Tensor) v.tensor.realize();
    return "";
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::Internal) return text("internal: ", e.what());
    return e.what();
  }
}

int64_t peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes >> 10;
    }
  return 0;
}

// Outcomes, with how long they took together in mind.
class Bounds {
 public:
  ~Bounds() {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    CHECK_MESSAGE(took.count() < 60, "took " << took.count() << " s");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const int64_t more = peak_megabytes() - before_;
    CHECK_MESSAGE(more < 256, more << " MB more");
#endif
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t before_ = peak_megabytes();
};

std::string named(const std::string& op, const std::string& in, const std::string& more = "",
                  const std::string& out = "y") {
  return onnx_node(op, in, out, pb(3, "here") + more);
}
std::string ints_tensor(const std::string& name, const std::vector<int64_t>& list) {
  std::string raw;
  for (const int64_t v : list) raw += le<int64_t>(v);
  return pb(5, onnx_tensor(name, 7, {static_cast<int64_t>(list.size())}, raw));
}
std::string ints_attribute(const char* name, const std::vector<int64_t>& list) {
  std::string out = pb(1, name) + pb_int(20, 7);
  for (const int64_t v : list) out += pb_int(8, static_cast<uint64_t>(v));
  return pb(5, out);
}
std::string int_attribute(const char* name, int64_t v) {
  return pb(5, pb(1, name) + pb_int(3, static_cast<uint64_t>(v)) + pb_int(20, 2));
}
const std::string x23 = pb(11, onnx_port("x", 1, {2, 3}));
const std::string gives_y = pb(12, onnx_port("y", 1, {}));

}  // namespace

TEST_CASE("onnx: a file cut anywhere is refused or is whole") {
  const Bounds bounds;
  const std::string whole =
      onnx_model(named("Add", "x w", int_attribute("axis", 1)) + onnx_node("Neg", "y", "z") +
                 pb(5, onnx_tensor("w", 1, {3}, std::string(12, '\0'))) + x23 + gives_y +
                 pb(12, onnx_port("z", 1, {2, 3})));
  REQUIRE(outcome(whole) == "");
  int refused = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string what = outcome(cut(whole, size));
    CAPTURE(size);
    CAPTURE(what);
    CHECK(what.find("internal") == what.npos);
    if (what.empty()) continue;  // all that is missing is the opset's last fields
    ++refused;
    CHECK(what.find("m.onnx") != what.npos);
  }
  CHECK(refused > 100);
  CHECK(refused >= static_cast<int>(whole.size()) - 12);
}

// A number where bytes belong, and the other way round.
TEST_CASE("onnx: fields of the wrong kind are named") {
  const Bounds bounds;
  struct Field {
    unsigned number;
    const char* name;
    bool is_number;
  };
  // clang-format off
  const std::vector<Field> node = {{1, "input", false},  {2, "output", false},
                                   {3, "name", false},   {4, "op_type", false},
                                   {5, "attribute", false}, {7, "domain", false}},
                           attribute = {{1, "name", false}, {3, "i", true},
                                        {4, "s", false}, {5, "t", false},
                                        {6, "g", false}, {9, "strings", false},
                                        {20, "type", true}, {21, "ref_attr_name", false}},
                           tensor = {{2, "data_type", true}, {8, "name", false},
                                     {9, "raw_data", false}, {6, "string_data", false},
                                     {13, "external_data", false}, {14, "data_location", true}},
                           port = {{1, "name", false}, {2, "type", false}},
                           function = {{1, "name", false}, {4, "input", false},
                                       {7, "node", false}, {10, "domain", false}};
  // clang-format on
  auto wrong = [](const Field& f) {
    return f.is_number ? pb(f.number, "ab") : pb_int(f.number, 7);
  };
  auto check_field = [&](const Field& f, const std::string& bytes) {
    const std::string what = outcome(bytes);
    CAPTURE(what);
    CHECK_MESSAGE(what.find(std::string(f.name) + " is not") != what.npos, f.name);
  };
  for (const Field& f : node) check_field(f, onnx_model(pb(1, pb(4, "Add") + wrong(f))));
  for (const Field& f : attribute)
    check_field(f, onnx_model(pb(1, pb(4, "Add") + pb(5, wrong(f)))));
  for (const Field& f : tensor) check_field(f, onnx_model(pb(5, wrong(f))));
  for (const Field& f : port) check_field(f, onnx_model(pb(11, wrong(f))));
  for (const Field& f : function) check_field(f, onnx_model("") + pb(25, wrong(f)));
}

TEST_CASE("onnx: what a node cannot do is said with its name") {
  const Bounds bounds;
  struct Row {
    std::string graph;
    const char* why;  // part of the error, besides the node
  };
  const int64_t huge = int64_t{1} << 40;
  const std::string branch = onnx_node("Identity", "x", "b") + pb(12, onnx_port("b", 1, {}));
  auto graph_attribute = [](const char* name, const std::string& graph) {
    return pb(5, pb(1, name) + pb(6, graph) + pb_int(20, 5));
  };
  const std::string round = onnx_node("Identity", "go", "on") + onnx_node("Identity", "v", "w") +
                            pb(11, onnx_port("i", 7, {})) + pb(11, onnx_port("go", 9, {})) +
                            pb(11, onnx_port("v", 1, {2, 3})) + pb(12, onnx_port("on", 9, {})) +
                            pb(12, onnx_port("w", 1, {2, 3}));
  std::string deep = branch;
  for (int i = 0; i < 40; ++i)
    deep = onnx_node("If", "yes", "b", graph_attribute("then_branch", deep)) +
           pb(12, onnx_port("b", 1, {}));
  // clang-format off
  const Row rows[] = {
      {named("MatMul", "x x"), "differ"},
      {named("Add", "x w") + ints_tensor("w", {1, 2}), "x"},
      {named("Add", "x"), "input 1 is missing"},
      {named("Add", "x gone"), "'gone'"},
      {named("Conv", "x x"), "axes"},
      {named("Concat", "x x", int_attribute("axis", 5)), "axis"},
      {named("Concat", "x x"), "axis is missing"},
      {named("Unsqueeze", "x w") + ints_tensor("w", {1, 1}), "axis 1 twice"},
      {named("Gather", "x x"), "integers"},
      {named("GatherElements", "x x"), "integers"},
      {named("And", "x x"), "bools"},
      {named("Transpose", "x", ints_attribute("perm", {0, 0})), ""},
      {named("Transpose", "x", ints_attribute("perm", {0, 7})), ""},
      {named("Reshape", "x w") + ints_tensor("w", {4, 4}), ""},
      {named("Reshape", "x w") + ints_tensor("w", {-1, -1}), ""},
      {named("Reshape", "x w") + ints_tensor("w", {-5}), ""},
      {named("Reshape", "x w") + ints_tensor("w", {huge, huge}), ""},
      {named("Squeeze", "x w") + ints_tensor("w", {1}), ""},
      {named("Unsqueeze", "x w") + ints_tensor("w", {9}), ""},
      {named("Gather", "x w") + ints_tensor("w", {5}), ""},
      {named("Gather", "x w", int_attribute("axis", -3)) + ints_tensor("w", {0}), "axis"},
      {named("Slice", "x x x"), ""},
      {named("Slice", "x a a s") + ints_tensor("a", {0}) + ints_tensor("s", {3}), ""},
      {named("Slice", "x a a t z") + ints_tensor("a", {0}) + ints_tensor("t", {0}) +
           ints_tensor("z", {0}),
       ""},
      {named("Split", "x w") + ints_tensor("w", {5, 5}), ""},
      {named("Expand", "x w") + ints_tensor("w", {huge, 2, 3}), "does not fit"},
      {named("Expand", "x w") + ints_tensor("w", {4, 4}), ""},
      {named("Tile", "x w") + ints_tensor("w", {huge, huge}), ""},
      {named("Tile", "x w") + ints_tensor("w", {-1, 1}), ""},
      {named("Tile", "x w") + ints_tensor("w", {1}), ""},
      {named("Pad", "x w") + ints_tensor("w", {huge, 0, huge, 0}), ""},
      {named("Pad", "x w") + ints_tensor("w", {1}), ""},
      {named("ConstantOfShape", "w") + ints_tensor("w", {huge}), ""},
      {named("ConstantOfShape", "w") + ints_tensor("w", {-1}), ""},
      {named("ConstantOfShape", "w") + ints_tensor("w", {huge, huge, huge}), ""},
      {named("Range", "a b c") + pb(5, onnx_tensor("a", 7, {}, le<int64_t>(0))) +
           pb(5, onnx_tensor("b", 7, {}, le<int64_t>(huge))) +
           pb(5, onnx_tensor("c", 7, {}, le<int64_t>(1))),
       ""},
      {named("Range", "a a a") + pb(5, onnx_tensor("a", 7, {}, le<int64_t>(0))), ""},
      {named("OneHot", "i d v") + ints_tensor("i", {0, 1}) + ints_tensor("d", {huge}) +
           ints_tensor("v", {0, 1}),
       ""},
      {named("Softmax", "x", int_attribute("axis", 9)), "axis"},
      {named("Flatten", "x", int_attribute("axis", 9)), ""},
      {named("Cast", "x", int_attribute("to", 99)), "99"},
      {named("Cast", "x"), ""},
      {named("TopK", "x w") + ints_tensor("w", {99}), ""},
      {named("MaxPool", "x", ints_attribute("kernel_shape", {2, 2})), "axes"},
      {named("MaxPool", "x"), ""},
      {named("ReduceSum", "x w") + ints_tensor("w", {7}), ""},
      {named("CumSum", "x w") + ints_tensor("w", {7}), ""},
      {named("Where", "x x x"), ""},
      {named("Einsum", "x x", pb(5, pb(1, "equation") + pb(4, "ij,jk->il") + pb_int(20, 3))), ""},
      {named("Resize", "x e s") + pb(5, onnx_tensor("s", 1, {2}, le<float>(1e12f) + le<float>(1))) +
           pb(5, onnx_tensor("e", 1, {0}, "")),
       ""},
      {named("If", "yes"), "then_branch"},
      {named("Loop", "m"), "body"},
      {named("Loop", "endless yes x", graph_attribute("body", round)) + ints_tensor("endless", {huge}), "rounds"},
      {named("DepthToSpace", "x", int_attribute("blocksize", 0)), ""},
      {named("Nope", "x"), "not supported"},
      {named("Add", "x x", "", "a b"), "output 1"},
      {named("Add", "y x"), "'y'"},
      {named("Add", "p x") + onnx_node("Add", "y x", "p"), "'"},
      {pb(5, onnx_tensor("w", 1, {huge, huge}, "")) + named("Neg", "w"), "'w'"},
      {pb(5, onnx_tensor("w", 1, {-3}, "")) + named("Neg", "w"), "'w'"},
      {pb(5, onnx_tensor("w", 1, {4}, "abc")) + named("Neg", "w"), "'w'"},
      {pb(5, onnx_tensor("w", 77, {1}, "a")) + named("Neg", "w"), "'w'"},
      {deep + named("Neg", "b"), "nested more than"},
  };
  // clang-format on
  for (const Row& row : rows) {
    const std::string conditions =
        pb(5, onnx_tensor("yes", 9, {}, std::string(1, '\1'))) + ints_tensor("m", {3});
    const std::string what = outcome(onnx_model(row.graph + conditions + x23 + gives_y));
    CAPTURE(what);
    const auto at = static_cast<int>(&row - rows);
    CHECK_MESSAGE(!what.empty(), "row " << at << " is taken");
    CHECK(what.find("internal") == what.npos);
    CHECK_MESSAGE(what.find(row.why) != what.npos, "row " << at);
    const bool names = what.find("[onnx ") != what.npos || what.find("'w'") != what.npos ||
                       what.find("in Gather 'here'") != what.npos ||
                       what.find("Nope 'here'") != what.npos ||
                       what.find("nested more than") != what.npos;
    CHECK_MESSAGE(names, "row " << at);
  }
}
