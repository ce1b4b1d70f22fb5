#include "onnx/compare.h"

#include <cmath>

namespace mote::onnx {

namespace {

std::string tensor_difference(const Tensor& got, const Tensor& wanted, const Tolerance& t) {
  if (got.shape() != wanted.shape())
    return text("its shape is ", got.shape(), ", not ", wanted.shape());
  if (got.numel() == 0) return {};
  if (!is_float(got.dtype())) {
    const auto a = got.to_vector<int64_t>(), b = wanted.to_vector<int64_t>();
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) return text("element ", i, " is ", a[i], ", not ", b[i]);
    return {};
  }
  const auto a = got.to_vector<double>(), b = wanted.to_vector<double>();
  size_t first = a.size(), count = 0;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double apart = std::abs(a[i] - b[i]);
    if (apart <= t.absolute + t.relative * std::abs(b[i]) && !std::isinf(b[i])) continue;
    if (count++ == 0) first = i;
    largest = std::max(largest, apart);
  }
  if (count == 0) return {};
  return text("element ", first, " is ", a[first], ", not ", b[first], "; ", count, " of ",
              a.size(), " differ, by at most ", largest);
}

}  // namespace

std::string difference(const Value& got, const Value& wanted, const Tolerance& t) {
  if (got.kind != wanted.kind)
    return text("it is of kind ", int{got.kind}, ", not ", int{wanted.kind});
  switch (wanted.kind) {
    case Value::Tensor:
      if (type_of(got) != type_of(wanted))
        return text("its type is ", element_of(type_of(got)).name, ", not ",
                    element_of(type_of(wanted)).name);
      return tensor_difference(got.tensor, wanted.tensor.to(got.tensor.device()), t);
    case Value::Strings:
      if (got.shape != wanted.shape)
        return text("its shape is ", got.shape, ", not ", wanted.shape);
      for (size_t i = 0; i < got.strings.size(); ++i)
        if (got.strings[i] != wanted.strings[i])
          return text("string ", i, " is ", quoted(got.strings[i]), ", not ",
                      quoted(wanted.strings[i]));
      return {};
    case Value::Sequence:
      if (got.items.size() != wanted.items.size())
        return text("it has ", got.items.size(), " elements, not ", wanted.items.size());
      for (size_t i = 0; i < got.items.size(); ++i)
        if (std::string d = difference(got.items[i], wanted.items[i], t); !d.empty())
          return text("in element ", i, " ", d);
      return {};
    default: return {};
  }
}

std::string check(ModelCore& model, const DataSet& set, const Tolerance& t) {
  std::vector<Value> in;
  for (size_t i = 0; i < set.inputs.size(); ++i) {
    if (i >= model.ports().size()) return text("there is no input ", i);
    in.push_back(parse_value(set.inputs[i], model.ports()[i]->type));
  }
  const std::vector<Value> out = model.run(std::move(in));
  for (size_t i = 0; i < set.outputs.size(); ++i) {
    if (i >= out.size()) return text("there is no output ", i);
    const Value wanted = parse_value(set.outputs[i], model.data().graph.outputs[i].type);
    if (std::string d = difference(out[i], wanted, t); !d.empty())
      return text("output ", quoted(model.outputs[i].name), ": ", d);
  }
  return {};
}

}  // namespace mote::onnx
