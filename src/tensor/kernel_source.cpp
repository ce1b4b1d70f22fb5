// Programs in a device's language as nodes of the graph.
#include <mote/kernel.h>

#include <algorithm>

#include "tensor/impl.h"

namespace mote {

namespace {

// As C calls it; floats of 16 bits and fewer are their bits.
std::string c_type(DType d) {
  if (d == DType::f32) return "float";
  if (d == DType::f64) return "double";
  const bool is_unsigned = is_float(d) || d == DType::boolean || !is_signed(d);
  return text(is_unsigned ? "uint" : "int", size_of(d) * 8, "_t");
}

bool is_name(const std::string& s) {
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto fits = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
  };
  return !s.empty() && !is_digit(s[0]) && std::ranges::all_of(s, fits);
}

// What the device calls, around the program's own lines.
std::string whole_text(const std::string& name, const std::string& given, DType dtype,
                       const std::vector<Tensor>& inputs, const std::vector<int64_t>& numbers) {
  std::string call = text(name, "((", c_type(dtype), "*)b[0]");
  for (size_t i = 0; i < inputs.size(); ++i)
    call += text(", (const ", c_type(inputs[i].dtype()), "*)b[", i + 1, "]");
  for (int64_t n : numbers) call += text(", INT64_C(", n, ")");
  return text("// ", name, "\n#include <stdint.h>\n#line 1 \"", name, "\"\n", given,
              "\nvoid mote_entry(void** b, const int64_t* v, int64_t from, int64_t to) {\n"
              "  (void)v, (void)from, (void)to;\n  ",
              call, ");\n}\n");
}

}  // namespace

Tensor source_kernel(const std::string& name, const std::string& text, const Sizes& shape,
                     DType dtype, const std::vector<Tensor>& inputs,
                     const std::vector<int64_t>& numbers, Loc where) {
  Call call("source_kernel", where);
  expect(is_name(name), "the name of the function in C is \"", name, "\"");
  expect(dtype != DType::none && dtype != DType::index, "the result needs a dtype");
  expect(!inputs.empty(), name, ": there is no input");
  std::vector<Ref> sources;
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect(inputs[i].defined(), name, ": input ", i, " is undefined");
    expect(!shape_of(inputs[i]).symbolic, name, ": input ", i, " has a symbolic size: ", inputs[i]);
    common_device({&inputs[0], &inputs[i]});
    sources.push_back(node_of(inputs[i]));
  }
  std::vector<int64_t> dims;
  for (const Dim& d : to_dims(shape)) dims.push_back(numeric(d));
  const std::string whole = whole_text(name, text, dtype, inputs, numbers);
  const uint8_t device = inputs[0].impl()->device;
  try {
    compile_source(device,
                   tensor_graph::make(Op::Source, DType::none, {}, Arg::of(intern_arg({}, whole))));
  } catch (const Error& e) {
    std::string why = e.what();  // where it happened is said once
    const std::string here = mote::text(" (", place(current_provenance()), ")");
    while (why.ends_with(here)) why.resize(why.size() - here.size());
    while (why.ends_with('\n')) why.pop_back();
    fail_call(name, ": ", why);
  }
  return make_value(
      tensor_graph::make(Op::Source, dtype, sources, Arg::of(intern_arg(dims, whole))), device);
}

}  // namespace mote
