// New tensors: from numbers, from memory, and from rules.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/flags.h"
#include "ir/eval.h"
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
  struct Known {
    std::string name = device_name(kDefaultDevice);
    uint8_t id = kDefaultDevice;
  };
  auto& [known, id] = PerThread<Known>::get();
  if (const std::string& name = flag_text(Flag::DEV); name != known) {
    id = device_named(name);
    known = name;
  }
  return id;
}

std::vector<Dim> checked_dims(const Sizes& shape) {
  std::vector<Dim> dims = to_dims(shape);
  for (const Dim& d : dims)
    expect(!d.is_symbolic() || least(d) >= 1, "the shape ", dims,
           " has a symbolic size that may be below 1");
  check_sizes(dims);
  return dims;
}

// How many elements memory of the shape has.
int64_t stored_count(std::span<const Dim> dims, DType dtype) {
  int64_t count = numeric(product(dims));
  size_bytes(count, dtype);  // or there is no such memory
  return count;
}

DType dtype_or(const Options& o, DType fallback) {
  expect(o.dtype != DType::index, "no tensor has the dtype index");
  return o.dtype == DType::none ? fallback : o.dtype;
}

DType natural_dtype(const std::vector<Number>& numbers) {
  Number::Kind kind = numbers.empty() ? Number::Float : Number::Bool;
  bool above_int64 = false;
  for (const Number& n : numbers) kind = std::max(kind, n.kind), above_int64 |= n.above_int64();
  if (kind == Number::Int && above_int64) return DType::u64;
  return kind == Number::Bool ? DType::boolean : kind == Number::Int ? DType::i64 : DType::f32;
}

// How many steps lie between the ends, the last one left out.
int64_t count_steps(const Number& start, const Number& end, const Number& step) {
  expect(step.f != 0, "the step must not be 0");
  auto exact = [](const Number& n) {
    return n.above_int64() ? __int128(static_cast<uint64_t>(n.i)) : __int128(n.i);
  };
  bool real = natural_dtype({start, end, step}) == DType::f32;
  __int128 span = exact(end) - exact(start), by = exact(step);
  double ratio = (end.f - start.f) / step.f;
  expect(!real || std::isfinite(ratio), "the bounds must be finite, got ", start.f, " to ", end.f);
  expect(real ? ratio >= 0 : span == 0 || (span < 0) == (by < 0), "from ", start.f, " to ", end.f,
         " there are no steps of ", step.f);
  __int128 steps = real ? 0 : span / by + (span % by != 0);
  expect(real ? ratio < 0x1p63 : steps <= INT64_MAX, "from ", start.f, " to ", end.f,
         " there are too many steps of ", step.f);
  return real ? static_cast<int64_t>(std::ceil(ratio)) : static_cast<int64_t>(steps);
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
    store_float(d, at, real(n));
  else
    store_int(d, at, n.kind == Number::Float ? scalar(d, n.f).i : n.i);
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

struct Flattened {
  std::vector<int64_t> shape;  // as the first list of each level has it
  std::vector<Number> numbers;
};

void flatten(std::initializer_list<Literal> list, size_t axis, Flattened& out) {
  expect(static_cast<int64_t>(list.size()) == out.shape[axis],
         "rows must be of one length, got ", out.shape[axis], " and ", list.size(), " elements");
  for (const Literal& l : list) {
    expect(l.is_list == (axis + 1 < out.shape.size()), "a list holds numbers and lists");
    if (l.is_list)
      flatten(l.list, axis + 1, out);
    else
      out.numbers.push_back(l.number);
  }
}

Tensor like(const Tensor& t, const Number& n, DType dtype) {
  Ref c = constant(dtype == DType::none ? t.dtype() : dtype, n);
  return make_value(prim::full(dims_of(t), c), t);
}

}  // namespace

std::string default_device() {
  Call call("default_device", Loc::current());
  return device_name(device_of_new_tensors());
}
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
  Dim length(count_steps(start, end, step));
  DType d = dtype_or(o, natural_dtype({start, end, step}));
  return make_value(affine(length, start, step, d), device_from(o.device));
}
Tensor arange(Number end, const Options& o, Loc where) {
  Call call("arange", where);
  return arange(Number(0), end, Number(1), o);
}
Tensor arange(const Sym& end, const Options& o, Loc where) {
  Call call("arange", where);
  std::vector<Dim> dims = checked_dims({end});
  return make_value(affine(dims[0], 0, 1, dtype_or(o, DType::i64)), device_from(o.device));
}

// Counted from the nearer end, as PyTorch does, so that both ends are exact.
Tensor linspace(Number start, Number end, int64_t steps, const Options& o, Loc where) {
  Call call("linspace", where);
  expect(steps >= 0, "needs a number of steps >= 0, got ", steps);
  const double first = real(start), last = real(end);
  double step = steps > 1 ? (last - first) / static_cast<double>(steps - 1) : 0;
  Tensor i = make_value(prim::cast(prim::iota(steps), DType::f64), device_from(o.device));
  Tensor up = i * step + first, down = last - (static_cast<double>(steps - 1) - i) * step;
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
  int64_t count = stored_count(dims, dtype);
  Storage* s = storage_from_bytes(device_from(device), dtype, count, bytes);
  return make_stored(tensor_graph::buffer(s), dims);
}

Tensor from_blob(void* data, const Sizes& shape, DType dtype, void (*deleter)(void*), void* context,
                 const std::string& device, Loc where) {
  Call call("from_blob", where);
  expect(dtype != DType::none && dtype != DType::index, "no tensor has the dtype ", dtype);
  ensure(storage_from_blob != nullptr, "no runtime is linked, so there is no storage to make");
  std::vector<Dim> dims = checked_dims(shape);
  int64_t count = stored_count(dims, dtype);
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
                      : dtype == DType::u64 ? Number(static_cast<uint64_t>(load_int(dtype, at)))
                                            : Number(load_int(dtype, at)));
  return from_numbers(numbers, dtype, shape, o);
}

Tensor tensor(Number value, const Options& o, Loc where) {
  Call call("tensor", where);
  return from_numbers({value}, natural_dtype({value}), Sizes{}, o);
}
Tensor tensor(std::initializer_list<Literal> values, const Options& o, Loc where) {
  Call call("tensor", where);
  Flattened flat;
  flat.shape.push_back(static_cast<int64_t>(values.size()));
  for (auto first = values; first.size() && first.begin()->is_list; first = first.begin()->list)
    flat.shape.push_back(static_cast<int64_t>(first.begin()->list.size()));
  flatten(values, 0, flat);
  return from_numbers(flat.numbers, natural_dtype(flat.numbers), flat.shape, o);
}

Tensor scalar(const Sym& value, Loc where) {
  Call call("scalar", where);
  return make_value(prim::cast(Ref(UOp(value.node())), DType::i64), device_from(""));
}

Tensor iota_tensor(const Dim& length, DType dtype, uint8_t device) {
  return make_value(prim::cast(prim::iota(length), dtype), device);
}

}  // namespace mote
