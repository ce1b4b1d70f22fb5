#include <algorithm>

#include "onnx/run.h"

namespace mote::onnx {

const Value& Call::value(size_t i) const {
  expect(has(i), "input ", i, " is missing");
  return *in_[i];
}

Tensor Call::x(size_t i) const {
  const Value& v = value(i);
  expect(v.kind == Value::Tensor, "input ", i, " is not a tensor of numbers");
  return uses_wide_ ? wide(i) : runner_.place(v, on_host_);
}

Tensor Call::wide(size_t i) const {
  const Value& v = value(i);
  const Tensor plain = runner_.place(v, on_host_);
  if (!v.exact) return uses_wide_ && is_float(plain.dtype()) ? plain.cast(DType::f64) : plain;
  if (v.exact->wide.defined()) return place(v.exact->wide);
  return place(v.exact->whole).cast(DType::f64) * place(v.exact->scale);
}

Tensor Call::product_scale(int64_t axis, int64_t out_axis) const {
  for (size_t i = 0; i < 2; ++i)
    if (!has(i) || !in_[i]->exact || !in_[i]->exact->whole.defined()) return {};
  const Value &left = in_[0]->exact->scale, &right = in_[1]->exact->scale;
  const int64_t rank = value(1).tensor.dim(), count = right.tensor.numel();
  if (left.tensor.numel() != 1) return {};
  const Tensor one = place(left).reshape({});
  if (count == 1) return one * place(right).reshape({});
  if (right.tensor.dim() != rank || right.tensor.size(axis) != count) return {};
  std::vector<int64_t> along(static_cast<size_t>(std::max(rank, value(0).tensor.dim())), 1);
  along[static_cast<size_t>(out_axis < 0 ? out_axis + static_cast<int64_t>(along.size())
                                         : out_axis)] = count;
  return one * place(right).reshape(along);
}

// Whether sums of i32 have room, and what `zero` adds is known.
bool Call::is_narrow_product(int64_t axis) const {
  const Exact &a = *in_[0]->exact, &b = *in_[1]->exact;
  if (!a.narrow.defined() || !b.narrow.defined() || b.zero != 0) return false;
  const int64_t terms = b.narrow.tensor.numel() / std::max<int64_t>(b.narrow.tensor.size(axis), 1);
  return terms < 1 << 15 && (a.zero == 0 || in_[1]->level > 0);
}

Value exact_value(const Tensor& wide, DType dtype) {
  Value out(wide.cast(dtype));
  out.exact = Held<Exact>(new Exact);
  out.exact->wide = Value(wide);
  return out;
}

Tensor Call::maybe(size_t i) const { return has(i) ? x(i) : Tensor(); }

std::vector<Tensor> Call::all() const {
  std::vector<Tensor> out;
  for (size_t i = 0; i < count(); ++i) out.push_back(x(i));
  return out;
}

template <class T>
std::vector<T> Call::read(const Value& v) const {
  expect(v.kind == Value::Tensor, "an input is not a tensor of numbers");
  runner_.note_read(v);
  if (v.tensor.numel() == 0) return {};
  if (!v.level) return v.tensor.to_vector<T>();
  auto& kept = [&]() -> std::optional<std::vector<T>>& {
    if constexpr (std::is_same_v<T, double>)
      return v.places->reals;
    else
      return v.places->integers;
  }();
  if (!kept) kept = runner_.place(v, v.tensor.numel() <= kHostElements).template to_vector<T>();
  return *kept;
}

template <class T>
std::vector<T> Call::read(const Tensor& t) const {
  if (!on_host_) runner_.note_data();
  if (t.numel() == 0) return {};
  return t.to_vector<T>();
}
template std::vector<int64_t> Call::read<int64_t>(const Tensor&) const;
template std::vector<double> Call::read<double>(const Tensor&) const;

std::vector<int64_t> Call::ints(size_t i) const { return read<int64_t>(value(i)); }
std::vector<double> Call::reals(size_t i) const { return read<double>(value(i)); }

int64_t Call::integer(size_t i) const {
  const std::vector<int64_t> list = ints(i);
  expect(list.size() == 1, "input ", i, " must be one number, but has ", list.size());
  return list[0];
}

double Call::real(size_t i) const {
  const std::vector<double> list = reals(i);
  expect(list.size() == 1, "input ", i, " must be one number, but has ", list.size());
  return list[0];
}

std::vector<int64_t> Call::ints(size_t i, std::string_view attribute) const {
  return has(i) ? ints(i) : is(attribute);
}

const Attribute* Call::attribute(std::string_view name) const {
  return runner_.attribute(node_, name);
}

int64_t Call::i(std::string_view name, int64_t otherwise) const {
  const Attribute* a = attribute(name);
  return a ? a->integer : otherwise;
}

int64_t Call::count_of(std::string_view name, int64_t otherwise) const {
  const int64_t n = i(name, otherwise);
  expect(n > 0 && n <= 1 << 16, "the attribute ", name, " is ", n);
  return n;
}

double Call::f(std::string_view name, double otherwise) const {
  const Attribute* a = attribute(name);
  return a ? static_cast<double>(a->real) : otherwise;
}

std::string Call::s(std::string_view name, std::string_view otherwise) const {
  const Attribute* a = attribute(name);
  return std::string(a ? a->text : otherwise);
}

std::vector<int64_t> Call::is(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a ? a->integers : std::vector<int64_t>();
}

std::vector<double> Call::fs(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a ? std::vector<double>(a->reals.begin(), a->reals.end()) : std::vector<double>();
}

std::vector<std::string> Call::ss(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a ? std::vector<std::string>(a->texts.begin(), a->texts.end())
           : std::vector<std::string>();
}

const Graph& Call::graph(std::string_view name) const {
  const Attribute* a = attribute(name);
  expect(a && a->graph, "the attribute ", name, " is not a graph");
  return *a->graph;
}

std::string Call::device() const { return runner_.device(on_host_); }

Value Call::known(const std::vector<int64_t>& list, const Sizes& shape) const {
  Value v(from_data(list, shape, {.device = kHost}));
  v.level = 1;
  v.places = Held<Places>(new Places);
  v.places->on_host = v.tensor;
  return v;
}

Value Call::known_bool(bool b) const {
  Value v = known({b}, Sizes());
  v.tensor = v.places->on_host = v.tensor.to_bool();
  return v;
}

Tensor Call::place(const Value& v, bool on_host) const { return runner_.place(v, on_host); }
std::vector<int64_t> Call::ints_of(const Value& v) const { return read<int64_t>(v); }

void Call::depends_on_data() const {
  if (!on_host_) runner_.note_data();
}

Outputs Call::run(const Graph& graph, std::vector<Value> inputs) const {
  return runner_.run(graph, std::move(inputs), runner_.frame());
}

const Tensor* Call::kept_constant() const { return runner_.next_constant(); }
Tensor Call::keep_constant(Tensor t) const { return runner_.keep_constant(std::move(t)); }

int64_t axis_of(int64_t axis, int64_t rank) {
  expect(axis >= -rank && axis < rank, "the axis ", axis, " is outside the ", rank, " there are");
  return axis < 0 ? axis + rank : axis;
}

int64_t product(std::span<const int64_t> sizes) {
  int64_t out = 1;
  for (const int64_t s : sizes)
    expect(!__builtin_mul_overflow(out, s, &out), "sizes multiply to more than 64 bits");
  return out;
}

std::vector<int64_t> iota(int64_t count, int64_t from) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(from + i);
  return out;
}

Broadcast::Broadcast(const std::vector<int64_t>& left, const std::vector<int64_t>& right)
    : shape(broadcast_shapes({left, right})) {
  auto places = [&](const std::vector<int64_t>& own) {
    const int64_t count = product(shape);
    std::vector<size_t> out;
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0, stride = 1, rest = i;
      for (size_t d = 0; d < shape.size(); ++d) {  // from the last axis on
        const int64_t here = rest % shape[shape.size() - 1 - d];
        rest /= shape[shape.size() - 1 - d];
        if (d >= own.size()) continue;
        const int64_t size = own[own.size() - 1 - d];
        at += (size == 1 ? 0 : here) * stride, stride *= size;
      }
      out.push_back(static_cast<size_t>(at));
    }
    return out;
  };
  a = places(left), b = places(right);
}

const OpRow* find_op(std::string_view domain, std::string_view name, int opset) {
  using Table = std::unordered_multimap<std::string_view, const OpRow*>;
  static const auto* all = [] {
    auto* out = new Table;
    for (OpTable (*family)() :
         {math_ops,     activation_ops, reduce_ops,    shape_ops, index_ops,     select_ops,
          cast_ops,     quantized_ops,  linear_ops,    conv_ops,  pool_ops,      norm_ops,
          loss_ops,     recurrent_ops,  attention_ops, image_ops, detection_ops, signal_ops,
          sequence_ops, control_ops,    random_ops,    text_ops,  contrib_ops})
      for (const OpRow& row : family()) out->emplace(row.name, &row);
    return out;
  }();
  const OpRow* best = nullptr;
  const auto [begin, end] = all->equal_range(name);
  for (auto it = begin; it != end; ++it) {
    const OpRow& row = *it->second;
    if (row.domain == domain && row.since <= opset && (!best || row.since > best->since))
      best = &row;
  }
  return best;
}

}  // namespace mote::onnx
