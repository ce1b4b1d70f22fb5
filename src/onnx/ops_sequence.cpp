// Sequences and optionals.
#include "onnx/ops.h"

namespace mote::onnx {

namespace {

Value sequence(std::vector<Value> items, int type = 0) {
  Value out;
  out.kind = Value::Sequence, out.type = type, out.items = std::move(items);
  return out;
}

const std::vector<Value>& items(Call& c, size_t i = 0) {
  const Value& v = c.value(i);
  expect(v.kind == Value::Sequence, "input ", i, " is not a sequence");
  return v.items;
}

size_t position(Call& c, size_t i, size_t count, bool may_be_end) {
  const auto size = static_cast<int64_t>(count);
  const int64_t at = c.integer(i), front = at < 0 ? at + size : at;
  expect(front >= 0 && front < size + may_be_end, "the position ", at, " is outside the ", size,
         " elements");
  return static_cast<size_t>(front);
}

Outputs construct(Call& c) {
  std::vector<Value> all;
  for (size_t i = 0; i < c.count(); ++i) all.push_back(c.value(i));
  return {sequence(std::move(all))};
}

Outputs empty_sequence(Call& c) { return {sequence({}, static_cast<int>(c.i("dtype", kFloat)))}; }

Outputs at(Call& c) { return {items(c)[position(c, 1, items(c).size(), false)]}; }

Outputs insert(Call& c) {
  std::vector<Value> all = items(c);
  const size_t place = c.has(2) ? position(c, 2, all.size(), true) : all.size();
  all.insert(all.begin() + static_cast<int64_t>(place), c.value(1));
  return {sequence(std::move(all))};
}

Outputs erase(Call& c) {
  std::vector<Value> all = items(c);
  expect(!all.empty(), "the sequence is empty");
  const size_t place = c.has(1) ? position(c, 1, all.size(), false) : all.size() - 1;
  all.erase(all.begin() + static_cast<int64_t>(place));
  return {sequence(std::move(all))};
}

Outputs length(Call& c) { return {c.known({static_cast<int64_t>(items(c).size())}, Sizes())}; }

Outputs concat(Call& c) {
  std::vector<Tensor> all;
  for (const Value& v : items(c)) all.push_back(c.place(v));
  const int64_t axis = c.i("axis", 0);
  return {c.i("new_axis", 0) ? stack(all, axis) : cat(all, axis)};
}

Outputs split(Call& c) {
  const Tensor x = c.x(0);
  const int64_t axis = axis_of(c.i("axis", 0), x.dim()), size = x.size(axis);
  const bool keeps = c.has(1) || c.i("keepdims", 1) != 0;
  std::vector<int64_t> sizes = c.has(1) ? c.ints(1) : std::vector<int64_t>{1};
  if (sizes.size() == 1 && (!c.has(1) || c.x(1).dim() == 0)) {
    const int64_t each = sizes[0];
    expect(each > 0, "the parts' size is ", each);
    sizes.clear();
    for (int64_t left = size; left > 0; left -= each) sizes.push_back(std::min(each, left));
  }
  std::vector<Value> all;
  int64_t from = 0;
  for (const int64_t part : sizes) {
    const Tensor t = x.narrow(axis, from, part);
    all.push_back(Value(keeps ? t : t.squeeze({axis}), c.value(0).type));
    from += part;
  }
  expect(from == size, "the parts have ", from, " elements together, not ", size);
  return {sequence(std::move(all))};
}

// The graph on each element; what is no sequence is the same for all.
Outputs map(Call& c) {
  const Graph& body = c.graph("body");
  std::vector<std::vector<Value>> columns(body.outputs.size());
  for (size_t i = 0; i < items(c).size(); ++i) {
    std::vector<Value> in;
    for (size_t k = 0; k < c.count(); ++k) {
      const Value& v = c.value(k);
      expect(v.kind != Value::Sequence || i < v.items.size(), "the sequence ", k, " is shorter");
      in.push_back(v.kind == Value::Sequence ? v.items[i] : v);
    }
    Outputs out = c.run(body, std::move(in));
    for (size_t k = 0; k < out.size(); ++k) columns[k].push_back(std::move(out[k]));
  }
  Outputs out;
  for (auto& column : columns) out.push_back(sequence(std::move(column)));
  return out;
}

Outputs optional(Call& c) { return {c.has(0) ? c.value(0) : Value()}; }

Outputs has_element(Call& c) {
  return {from_data(std::vector<bool>{c.has(0)}, Sizes(), {.device = c.device()})};
}

constexpr OpRow rows[] = {
    {"SequenceConstruct", 11, construct},
    {"SequenceEmpty", 11, empty_sequence},
    {"SequenceAt", 11, at},
    {"SequenceInsert", 11, insert},
    {"SequenceErase", 11, erase},
    {"SequenceLength", 11, length},
    {"ConcatFromSequence", 11, concat},
    {"SplitToSequence", 11, split},
    {"SequenceMap", 17, map, "", false, true},
    {"Optional", 15, optional},
    {"OptionalGetElement", 15,optional},
    {"OptionalHasElement", 15, has_element},
};

}  // namespace

OpTable sequence_ops() { return rows; }

}  // namespace mote::onnx
