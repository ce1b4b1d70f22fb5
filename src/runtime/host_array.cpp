#include "runtime/host_array.h"

#include <cmath>
#include <new>

#include "ir/size_sum.h"

namespace mote {

HostArray::HostArray(DType d, std::vector<int64_t> s) : dtype(d), shape(std::move(s)) {
  int64_t wanted = size_bytes(count(), d);
  if (static_cast<size_t>(wanted) > bytes.max_size()) throw std::bad_alloc();
  bytes.resize(static_cast<size_t>(wanted));
}

int64_t HostArray::count() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

Scalar HostArray::at(int64_t i) const {
  return load_scalar(dtype, bytes.data() + i * size_of(dtype));
}
void HostArray::set(int64_t i, const Scalar& value) {
  store_scalar(bytes.data() + i * size_of(dtype), value);
}

Scalar load_scalar(DType dtype, const std::byte* p) {
  if (is_float(dtype)) return {dtype, 0, load_float(dtype, p)};
  return {dtype, load_int(dtype, p), 0};
}

void store_scalar(std::byte* p, const Scalar& value) {
  if (is_float(value.dtype))
    store_float(value.dtype, p, value.f);
  else
    store_int(value.dtype, p, value.i);
}

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
  return strides;
}

namespace {

// The shape of an elementwise result: that of any source that has axes.
std::vector<int64_t> common_shape(std::span<const HostArray* const> src) {
  const HostArray* widest = src[0];
  for (const HostArray* s : src)
    if (!s->shape.empty()) widest = s;
  for (const HostArray* s : src)
    ensure(s->shape.empty() || s->shape == widest->shape, "interp: shapes ", s->shape, " and ",
           widest->shape, " of one elementwise op");
  return widest->shape;
}

// A source of a typed loop.
template <class T>
struct Lane {
  const T* p;
  int64_t step;
  explicit Lane(const HostArray* a) : p(a->data<T>()), step(!a->shape.empty()) {}
  T operator[](int64_t i) const { return p[i * step]; }
};

struct Loop {
  Op op;
  HostArray* out;
  std::span<const HostArray* const> src;

  template <class T, class R = T, class F>
  bool one(F f) const {
    Lane<T> a(src[0]);
    R* to = out->data<R>();
    for (int64_t i = 0, n = out->count(); i < n; ++i) to[i] = static_cast<R>(f(a[i]));
    return true;
  }
  template <class T, class R = T, class F>
  bool two(F f) const {
    Lane<T> a(src[0]), b(src[1]);
    R* to = out->data<R>();
    for (int64_t i = 0, n = out->count(); i < n; ++i) to[i] = static_cast<R>(f(a[i], b[i]));
    return true;
  }
  template <class T>
  bool choose() const {
    Lane<uint8_t> c(src[0]);
    Lane<T> a(src[1]), b(src[2]);
    T* to = out->data<T>();
    for (int64_t i = 0, n = out->count(); i < n; ++i) to[i] = c[i] ? a[i] : b[i];
    return true;
  }
};

template <class T>
T larger(T a, T b) {
  if (a != a || b != b) return a + b;
  return a < b || (a == b && std::signbit(a)) ? b : a;
}
template <class T>
T smaller(T a, T b) {
  if (a != a || b != b) return a + b;
  return b < a || (a == b && std::signbit(b)) ? b : a;
}

template <class T>
bool run_float(const Loop& l) {
  switch (l.op) {
    case Op::Neg: return l.one<T>([](T a) { return -a; });
#define FLOAT_FUNCTION(op, arity, function, meaning, derivative)                                \
  case Op::op:                                                                                  \
    if constexpr (arity == 1) return l.one<T>([](auto... a) { return std::function(a...); });   \
    return false;
#include "ir/float_functions.def"
#undef FLOAT_FUNCTION
    case Op::Add: return l.two<T>([](T a, T b) { return a + b; });
    case Op::Mul: return l.two<T>([](T a, T b) { return a * b; });
    case Op::Div: return l.two<T>([](T a, T b) { return a / b; });
    case Op::Max: return l.two<T>(larger<T>);
    case Op::Min: return l.two<T>(smaller<T>);
    case Op::Lt: return l.two<T, uint8_t>([](T a, T b) { return a < b; });
    case Op::Eq: return l.two<T, uint8_t>([](T a, T b) { return a == b; });
    default: return false;
  }
}

template <class T>
bool run_int(const Loop& l) {
  using U = std::make_unsigned_t<T>;
  switch (l.op) {
    case Op::Neg: return l.one<T>([](T a) { return U{0} - static_cast<U>(a); });
    case Op::Add: return l.two<T>([](T a, T b) { return static_cast<U>(a) + static_cast<U>(b); });
    case Op::Mul: return l.two<T>([](T a, T b) { return static_cast<U>(a) * static_cast<U>(b); });
    case Op::Max: return l.two<T>([](T a, T b) { return a < b ? b : a; });
    case Op::Min: return l.two<T>([](T a, T b) { return b < a ? b : a; });
    case Op::And: return l.two<T>([](T a, T b) { return a & b; });
    case Op::Or: return l.two<T>([](T a, T b) { return a | b; });
    case Op::Xor: return l.two<T>([](T a, T b) { return a ^ b; });
    case Op::Lt: return l.two<T, uint8_t>([](T a, T b) { return a < b; });
    case Op::Eq: return l.two<T, uint8_t>([](T a, T b) { return a == b; });
    default: return false;
  }
}

template <class T>
bool run_cast_from(const Loop& l) {
  constexpr bool from_float = std::is_floating_point_v<T>;
  switch (l.out->dtype) {
    case DType::f32: return l.one<T, float>([](T a) { return a; });
    case DType::f64: return l.one<T, double>([](T a) { return a; });
    case DType::i32: return !from_float && l.one<T, int32_t>([](T a) { return a; });
    case DType::i64:
    case DType::index: return !from_float && l.one<T, int64_t>([](T a) { return a; });
    default: return false;
  }
}

bool run_cast(const Loop& l) {
  switch (l.src[0]->dtype) {
    case DType::boolean: return run_cast_from<uint8_t>(l);
    case DType::i32: return run_cast_from<int32_t>(l);
    case DType::i64:
    case DType::index: return run_cast_from<int64_t>(l);
    case DType::f32: return run_cast_from<float>(l);
    case DType::f64: return run_cast_from<double>(l);
    default: return false;
  }
}

bool run_where(const Loop& l) {
  switch (size_of(l.out->dtype)) {
    case 1: return l.choose<uint8_t>();
    case 2: return l.choose<uint16_t>();
    case 4: return l.choose<uint32_t>();
    default: return l.choose<uint64_t>();
  }
}

bool run_typed(const Loop& l) {
  if (l.op == Op::Cast) return run_cast(l);
  if (l.op == Op::Where) return run_where(l);
  if (l.op == Op::Bitcast) return false;
  switch (l.src[0]->dtype) {
    case DType::boolean: return l.op != Op::Neg && l.op != Op::Add && run_int<uint8_t>(l);
    case DType::i32: return run_int<int32_t>(l);
    case DType::i64: return run_int<int64_t>(l);
    case DType::f32: return run_float<float>(l);
    case DType::f64: return run_float<double>(l);
    default: return false;
  }
}

template <class T, class F>
void fold_run(std::byte* into, int64_t step, const std::byte* from, int64_t n, F f) {
  T* to = reinterpret_cast<T*>(into);
  const T* p = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) to[i * step] = static_cast<T>(f(to[i * step], p[i]));
}

template <class T>
bool fold_float(Op op, std::byte* into, int64_t step, const std::byte* from, int64_t n) {
  if (op == Op::Add)
    fold_run<T>(into, step, from, n, [](T a, T b) { return a + b; });
  else if (op == Op::Mul)
    fold_run<T>(into, step, from, n, [](T a, T b) { return a * b; });
  else if (op == Op::Max)
    fold_run<T>(into, step, from, n, larger<T>);
  else if (op == Op::Min)
    fold_run<T>(into, step, from, n, smaller<T>);
  else
    return false;
  return true;
}

template <class T>
bool fold_int(Op op, std::byte* into, int64_t step, const std::byte* from, int64_t n) {
  using U = std::make_unsigned_t<T>;
  auto add = [](T a, T b) { return static_cast<U>(a) + static_cast<U>(b); };
  if (op == Op::Add)
    fold_run<T>(into, step, from, n, add);
  else if (op == Op::Max)
    fold_run<T>(into, step, from, n, [](T a, T b) { return a < b ? b : a; });
  else if (op == Op::Min)
    fold_run<T>(into, step, from, n, [](T a, T b) { return b < a ? b : a; });
  else
    return false;
  return true;
}

bool fold_typed(Op op, DType d, std::byte* into, int64_t step, const std::byte* from, int64_t n) {
  switch (d) {
    case DType::f32: return fold_float<float>(op, into, step, from, n);
    case DType::f64: return fold_float<double>(op, into, step, from, n);
    case DType::i32: return fold_int<int32_t>(op, into, step, from, n);
    case DType::i64: return fold_int<int64_t>(op, into, step, from, n);
    default: return false;
  }
}

}  // namespace

HostArray map_elements(Op op, DType dtype, std::span<const HostArray* const> src) {
  HostArray out(dtype, common_shape(src));
  if (!run_typed({op, &out, src})) return map_by_definition(op, dtype, src);
  return out;
}

HostArray map_by_definition(Op op, DType dtype, std::span<const HostArray* const> src) {
  HostArray out(dtype, common_shape(src));
  Scalar values[3];
  for (int64_t i = 0, n = out.count(); i < n; ++i) {
    for (size_t s = 0; s < src.size(); ++s) values[s] = src[s]->at(src[s]->shape.empty() ? 0 : i);
    out.set(i, eval(op, dtype, {values, src.size()}));
  }
  return out;
}

Scalar identity_of(Op op, DType dtype) {
  const bool largest = op == Op::Min;
  switch (op) {
    case Op::Add:
    case Op::Or:
    case Op::Xor: return scalar(dtype, int64_t{0});
    case Op::Mul: return scalar(dtype, int64_t{1});
    case Op::And: return scalar(dtype, int64_t{-1});
    case Op::Max:
    case Op::Min:
      if (is_float(dtype)) return {dtype, 0, largest ? INFINITY : -INFINITY};
      if (dtype == DType::u64) return scalar(dtype, int64_t{largest ? -1 : 0});
      return scalar(dtype, largest ? row(dtype).hi : row(dtype).lo);
    default: ensure(false, "interp: a Reduce with ", name(op));
  }
  return {};
}

void fold_into(Op op, DType dtype, std::byte* into, int64_t step, const std::byte* from,
               int64_t n) {
  if (fold_typed(op, dtype, into, step, from, n)) return;
  const int64_t size = size_of(dtype);
  for (int64_t i = 0; i < n; ++i) {
    std::byte* place = into + i * step * size;
    Scalar values[] = {load_scalar(dtype, place), load_scalar(dtype, from + i * size)};
    store_scalar(place, eval(op, dtype, values));
  }
}

}  // namespace mote
