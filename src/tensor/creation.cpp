// New tensors: from numbers, from memory, and from rules.
#include <atomic>
#include <cmath>

#include "base/flags.h"
#include "ir/storage.h"
#include "tensor/impl.h"

namespace mote {

namespace {

std::atomic<uint8_t> default_device_id{0};  // 0: what the flag DEV names

uint8_t device_named(const std::string& name) {
  uint8_t id = intern_device(name);
  if (open_device) open_device(id);
  return id;
}

uint8_t device_of_new_tensors() {
  if (uint8_t id = default_device_id.load()) return id;
  static thread_local std::string known = device_name(kDefaultDevice);
  static thread_local uint8_t id = kDefaultDevice;
  if (const std::string& name = flag_text(Flag::DEV); name != known) {
    id = device_named(name);
    known = name;
  }
  return id;
}

std::vector<Dim> checked_dims(const Sizes& shape) {
  std::vector<Dim> dims = to_dims(shape);
  int64_t count = 1;
  for (const Dim& d : dims) {
    expect(d.is_symbolic() ? d.symbol->lo >= 1 : d.size >= 0, "the shape ", dims,
           d.is_symbolic() ? " has a symbolic size that may be below 1" : " has a negative size");
    expect(!__builtin_mul_overflow(count, d.size, &count), "the shape ", dims,
           " has too many elements");
  }
  return dims;
}

DType dtype_or(const Options& o, DType fallback) {
  expect(o.dtype != DType::index, "no tensor has the dtype index");
  return o.dtype == DType::none ? fallback : o.dtype;
}

DType natural_dtype(std::initializer_list<Number> numbers) {
  Number::Kind kind = numbers.size() ? Number::Bool : Number::Float;
  for (const Number& n : numbers) kind = std::max(kind, n.kind);
  return kind == Number::Bool ? DType::boolean : kind == Number::Int ? DType::i64 : DType::f32;
}

// start + step * i, in f64 where f32 would round on the way.
Ref affine(const Dim& length, const Number& start, const Number& step, DType dtype) {
  bool whole = start.kind != Number::Float && step.kind != Number::Float;
  DType in = whole ? DType::i64 : DType::f64;
  if (dtype == DType::f32 && whole &&
      std::abs(start.f) + std::abs(step.f) * static_cast<double>(length.size) < (1 << 24))
    in = DType::f32;
  if (whole && is_int(dtype)) in = dtype;
  Ref i = prim::cast(prim::iota(length), in);
  return prim::cast(prim::add(prim::mul(i, constant(in, step)), constant(in, start)), dtype);
}

void store_number(DType d, char* at, const Number& n) {
  if (is_float(d))
    store_float(d, at, n.kind == Number::Float ? n.f : static_cast<double>(n.i));
  else if (d == DType::boolean)
    *at = n.kind == Number::Float ? n.f != 0 : n.i != 0;
  else
    store_int(d, at, n.kind == Number::Float ? static_cast<int64_t>(n.f) : n.i);
}

Tensor from_numbers(const std::vector<Number>& numbers, DType dtype, const Sizes& shape,
                    const Options& o) {
  dtype = dtype_or(o, dtype);
  auto step = static_cast<size_t>(size_of(dtype));
  std::vector<char> bytes(numbers.size() * step);
  for (size_t i = 0; i < numbers.size(); ++i)
    store_number(dtype, bytes.data() + i * step, numbers[i]);
  return from_bytes(bytes.data(), shape, dtype, o.device);
}

Tensor like(const Tensor& t, const Number& n, DType dtype) {
  Ref c = constant(dtype == DType::none ? t.dtype() : dtype, n);
  return make_value(prim::full(dims_of(t), c), t);
}

}  // namespace

std::string default_device() { return device_name(device_of_new_tensors()); }
void set_default_device(const std::string& name, Loc where) {
  Call call("set_default_device", where);
  expect(!name.empty(), "needs a name, for example CPU");
  default_device_id = device_named(name);
}
uint8_t device_from(const std::string& name) {
  return name.empty() ? device_of_new_tensors() : device_named(name);
}

Tensor full(const Sizes& shape, Number value, const Options& o, Loc where) {
  Call call("full", where);
  DType d = dtype_or(o, natural_dtype({value}));
  return make_value(prim::full(checked_dims(shape), constant(d, value)), device_from(o.device));
}
Tensor zeros(const Sizes& shape, const Options& o, Loc where) {
  Call call("zeros", where);
  return full(shape, 0.0, o);
}
Tensor ones(const Sizes& shape, const Options& o, Loc where) {
  Call call("ones", where);
  return full(shape, 1.0, o);
}
// Zeros: what was in the memory before must not decide a result.
Tensor empty(const Sizes& shape, const Options& o, Loc where) {
  Call call("empty", where);
  return full(shape, 0.0, o);
}

Tensor Tensor::zeros_like(DType d, Loc where) const {
  Call call("zeros_like", where);
  return like(*this, 0, d);
}
Tensor Tensor::ones_like(DType d, Loc where) const {
  Call call("ones_like", where);
  return like(*this, 1, d);
}
Tensor Tensor::full_like(Number value, DType d, Loc where) const {
  Call call("full_like", where);
  return like(*this, value, d);
}
Tensor Tensor::empty_like(DType d, Loc where) const {
  Call call("empty_like", where);
  return like(*this, 0, d);
}

Tensor arange(Number start, Number end, Number step, const Options& o, Loc where) {
  Call call("arange", where);
  expect(step.f != 0, "the step must not be 0");
  double steps = std::ceil((end.f - start.f) / step.f);
  expect(std::isfinite(steps), "the bounds must be finite, got ", start.f, " to ", end.f);
  expect(steps >= 0, "from ", start.f, " to ", end.f, " there are no steps of ", step.f);
  DType d = dtype_or(o, natural_dtype({start, end, step}));
  Dim length(static_cast<int64_t>(steps));
  return make_value(affine(length, start, step, d), device_from(o.device));
}
Tensor arange(Number end, const Options& o, Loc where) {
  Call call("arange", where);
  return arange(Number(0), end, Number(1), o);
}
Tensor arange(const Sym& end, const Options& o, Loc where) {
  Call call("arange", where);
  return make_value(affine(to_dim(end), 0, 1, dtype_or(o, DType::i64)), device_from(o.device));
}

// Counted from the nearer end, as PyTorch does, so that both ends are exact.
Tensor linspace(Number start, Number end, int64_t steps, const Options& o, Loc where) {
  Call call("linspace", where);
  expect(steps >= 0, "needs a number of steps >= 0, got ", steps);
  double step = steps > 1 ? (end.f - start.f) / static_cast<double>(steps - 1) : 0;
  Tensor i = make_value(prim::cast(prim::iota(steps), DType::f64), device_from(o.device));
  Tensor up = i * step + start.f, down = end.f - (static_cast<double>(steps - 1) - i) * step;
  Tensor t = steps > 1 ? where_tensor(i < static_cast<double>(steps / 2), up, down) : up;
  return t.to(dtype_or(o, DType::f32));
}

Tensor eye(int64_t n, int64_t m, const Options& o, Loc where) {
  Call call("eye", where);
  if (m == -1) m = n;
  expect(n >= 0 && m >= 0, "needs sizes >= 0, got ", n, " and ", m);
  Dim dims[] = {n, m}, column[] = {n, 1};
  Ref rows = prim::expand(prim::reshape(prim::iota(n), column), dims);
  Ref same = prim::alu(Op::Eq, {rows, expand_to(prim::iota(m), dims)});
  return make_value(prim::cast(same, dtype_or(o, DType::f32)), device_from(o.device));
}

Tensor from_bytes(const void* bytes, const Sizes& shape, DType dtype, const std::string& device,
                  Loc where) {
  Call call("from_bytes", where);
  expect(dtype != DType::none && dtype != DType::index, "no tensor has the dtype ", dtype);
  ensure(storage_from_bytes != nullptr, "no runtime is linked, so there is no storage to make");
  std::vector<Dim> dims = checked_dims(shape);
  int64_t count = numeric(product(dims));
  Storage* s = storage_from_bytes(device_from(device), dtype, count, bytes);
  return make_stored(tensor_graph::buffer(s), dims);
}

Tensor from_blob(void* data, const Sizes& shape, DType dtype, void (*deleter)(void*), void* context,
                 const std::string& device, Loc where) {
  Call call("from_blob", where);
  expect(dtype != DType::none && dtype != DType::index, "no tensor has the dtype ", dtype);
  ensure(storage_from_blob != nullptr, "no runtime is linked, so there is no storage to make");
  std::vector<Dim> dims = checked_dims(shape);
  int64_t count = numeric(product(dims));
  expect(data || !count, "the memory is null");
  Storage* s = storage_from_blob(device_from(device), dtype, count, data, deleter, context);
  return make_stored(tensor_graph::buffer(s), dims);
}

Tensor from_values(const void* values, size_t count, DType dtype, const Sizes& shape,
                   const Options& o, Loc where) {
  Call call("from_data", where);
  std::vector<Dim> dims = checked_dims(shape);
  expect(numeric(product(dims)) == static_cast<int64_t>(count), "the shape ", dims, " holds ",
         product(dims), " elements, got ", count);
  DType wanted = dtype_or(o, dtype);
  if (wanted == dtype) return from_bytes(values, shape, dtype, o.device);
  std::vector<Number> numbers;
  const char* at = static_cast<const char*>(values);
  for (size_t i = 0; i < count; ++i, at += size_of(dtype))
    numbers.push_back(is_float(dtype) ? Number(load_float(dtype, at))
                                      : Number(load_int(dtype, at)));
  return from_numbers(numbers, dtype, shape, o);
}

Tensor tensor(Number value, const Options& o, Loc where) {
  Call call("tensor", where);
  return from_numbers({value}, natural_dtype({value}), Sizes{}, o);
}
Tensor tensor(std::initializer_list<Number> values, const Options& o, Loc where) {
  Call call("tensor", where);
  return from_numbers(values, natural_dtype(values), {values.size()}, o);
}
Tensor tensor(std::initializer_list<std::initializer_list<Number>> values, const Options& o,
              Loc where) {
  Call call("tensor", where);
  std::vector<Number> flat;
  size_t width = values.size() ? values.begin()->size() : 0;
  DType d = DType::boolean;
  for (const auto& row : values) {
    expect(row.size() == width, "rows must be of one length, got ", width, " and ", row.size(),
           " elements");
    flat.insert(flat.end(), row.begin(), row.end());
    d = promote(d, natural_dtype(row));
  }
  return from_numbers(flat, d, {values.size(), width}, o);
}
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<Number>>> values,
              const Options& o, Loc where) {
  Call call("tensor", where);
  std::vector<Tensor> planes;
  for (const auto& plane : values) planes.push_back(tensor(plane, o));
  expect(!planes.empty(), "needs at least one element");
  return stack(planes).contiguous();
}

Tensor scalar(const Sym& value, Loc where) {
  Call call("scalar", where);
  return make_value(prim::cast(Ref(UOp(value.node())), DType::i64), device_from(""));
}

Tensor iota_tensor(const Dim& length, DType dtype, uint8_t device) {
  return make_value(prim::cast(prim::iota(length), dtype), device);
}

}  // namespace mote
