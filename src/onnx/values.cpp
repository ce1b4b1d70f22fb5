#include "onnx/values.h"

#include <mote/mote.h>

#include <algorithm>
#include <cmath>

#include "base/number.h"
#include "io/formats.h"
#include "onnx/external.h"
#include "tensor/impl.h"

namespace mote::onnx {

namespace {

constexpr NarrowFloat e4m3fn{4, 3, 7, 448, false, true, true};
constexpr NarrowFloat e4m3fnuz{4, 3, 8, 240, false, true, false};
constexpr NarrowFloat e5m2{5, 2, 15, 57344, true, true, true};
constexpr NarrowFloat e5m2fnuz{5, 2, 16, 57344, false, true, false};
constexpr NarrowFloat e2m1{2, 1, 1, 6, false, false, true};
constexpr NarrowFloat e8m0{8, 0, 127, 0x1p127, false, true, false};

constexpr Element elements[] = {
    {kFloat, "f32", DType::f32, 32},
    {kUint8, "u8", DType::u8, 8},
    {kInt8, "i8", DType::i8, 8},
    {kUint16, "u16", DType::u16, 16},
    {kInt16, "i16", DType::i16, 16},
    {kInt32, "i32", DType::i32, 32},
    {kInt64, "i64", DType::i64, 64},
    {kBool, "bool", DType::boolean, 8},
    {kFloat16, "f16", DType::f16, 16},
    {kDouble, "f64", DType::f64, 64},
    {kUint32, "u32", DType::u32, 32},
    {kUint64, "u64", DType::u64, 64},
    {kBfloat16, "bf16", DType::bf16, 16},
    {kFloat8E4M3FN, "f8e4m3", DType::f8e4m3, 8, e4m3fn},
    {kFloat8E4M3FNUZ, "f8e4m3fnuz", DType::f16, 8, e4m3fnuz},
    {kFloat8E5M2, "f8e5m2", DType::f8e5m2, 8, e5m2},
    {kFloat8E5M2FNUZ, "f8e5m2fnuz", DType::f16, 8, e5m2fnuz},
    {kUint4, "uint4",DType::u8,4},
    {kInt4, "int4", DType::i8, 4},
    {kFloat4E2M1, "f4e2m1",DType::f16,4,e2m1},
    {kFloat8E8M0, "f8e8m0", DType::f32, 8, e8m0},
    {kUint2, "uint2", DType::u8, 2},
    {kInt2, "int2", DType::i8, 2},
};

bool is_signed_int(const Element& e) { return e.held == DType::i8; }

// The `bits` bits of element i of a packed list, low ones first.
unsigned bits_at(std::span<const uint8_t> packed, size_t i, int bits) {
  const size_t per_byte = 8 / static_cast<size_t>(bits);
  const unsigned shift = static_cast<unsigned>(i % per_byte) * static_cast<unsigned>(bits);
  return packed[i / per_byte] >> shift & ((1u << bits) - 1);
}

int8_t extended(unsigned value, int bits) {
  const unsigned sign = 1u << (bits - 1);
  return static_cast<int8_t>(static_cast<int>(value ^ sign) - static_cast<int>(sign));
}

// Elements of fewer bits, or floats that mote lacks, as they are held.
Bytes widened(const Element& e, std::span<const uint8_t> packed, size_t count) {
  const auto each = static_cast<size_t>(size_of(e.held));
  std::vector<uint8_t> out(count * each);
  for (size_t i = 0; i < count; ++i) {
    const unsigned value = bits_at(packed, i, e.bits);
    if (e.is_small_int()) {
      out[i] = is_signed_int(e) ? static_cast<uint8_t>(extended(value, e.bits))
                                : static_cast<uint8_t>(value);
    } else if (e.held == DType::f16) {
      const Half half = to_half(decode(e.narrow, value));
      std::memcpy(&out[i * each], &half, each);
    } else {
      const auto real = static_cast<float>(decode(e.narrow, value));
      std::memcpy(&out[i * each], &real, each);
    }
  }
  return Bytes(std::move(out));
}

template <class T, class From>
std::vector<uint8_t> converted(const std::vector<From>& list) {
  std::vector<uint8_t> out(list.size() * sizeof(T));
  for (size_t i = 0; i < list.size(); ++i) {
    const T value = static_cast<T>(list[i]);
    std::memcpy(&out[i * sizeof(T)], &value, sizeof(T));
  }
  return out;
}

// The bytes that raw_data would have held.
Bytes listed_bytes(const TensorData& t, const Element& e) {
  if (e.type == kFloat) return Bytes(converted<float>(t.floats));
  if (e.type == kDouble) return Bytes(converted<double>(t.doubles));
  switch (e.bits) {
    case 64: return Bytes(converted<int64_t>(t.ints));
    case 32: return Bytes(converted<int32_t>(t.ints));
    case 16: return Bytes(converted<int16_t>(t.ints));
    default: return Bytes(converted<int8_t>(t.ints));
  }
}

bool all_bools(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b <= 1; });
}

Bytes as_bools(const Bytes& bytes) {
  std::vector<uint8_t> out(bytes.size());
  std::transform(bytes.data(), bytes.data() + bytes.size(), out.begin(),
                 [](uint8_t b) { return b != 0; });
  return Bytes(std::move(out));
}

Value make_strings(const TensorData& t, const std::string& what, const File& file) {
  const uint64_t count = byte_size(file.name, what, t.dims, 1);
  check_file(count == t.strings.size(), file.name, what, " has ", t.strings.size(),
             " strings, but its shape is ", t.dims);
  Value out;
  out.kind = Value::Strings, out.type = kString, out.shape = t.dims;
  out.strings.assign(t.strings.begin(), t.strings.end());
  return out;
}

}  // namespace

Value::Value() = default;
Value::Value(mote::Tensor t, int element)
    : kind(t.defined() ? Tensor : None), type(element), tensor(std::move(t)) {}
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

void retain(Counted* p) {
  if (p) p->users.fetch_add(1, std::memory_order_relaxed);
}

void release(Counted* p) {
  if (p && p->users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete p;
}

const Element* find_element(int type) {
  for (const Element& e : elements)
    if (e.type == type) return &e;
  return nullptr;
}

const Element& element_of(int type) {
  const Element* found = find_element(type);
  if (!found) fail_call("the element type ", type, " is not supported");
  return *found;
}

int type_of(DType dtype) {
  for (const Element& e : elements)
    if (e.held == dtype && !e.is_held()) return e.type;
  return 0;
}

double decode(const NarrowFloat& f, unsigned bits) {
  if (f.mantissa_bits == 0)
    return bits == 255 ? NAN : std::ldexp(1.0, static_cast<int>(bits) - f.bias);
  const unsigned mantissa = bits & ((1u << f.mantissa_bits) - 1);
  const unsigned exponent = bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
  const bool negative = bits >> (f.mantissa_bits + f.exponent_bits) & 1;
  if (!f.has_negative_zero && negative && exponent == 0 && mantissa == 0) return NAN;
  const int shift = (exponent ? static_cast<int>(exponent) : 1) - f.bias - f.mantissa_bits;
  const double value = std::ldexp(mantissa + (exponent ? 1u << f.mantissa_bits : 0), shift);
  if (value > f.most)
    return f.has_infinity && mantissa == 0 ? (negative ? -INFINITY : INFINITY) : NAN;
  return negative ? -value : value;
}

std::string type_text(const Type& type) {
  switch (type.kind) {
    case Type::Tensor: {
      const Element* e = find_element(type.element);
      return e ? e->name : type.element == kString ? "string" : text("type ", type.element);
    }
    case Type::Sequence: return "seq(" + (type.of ? type_text(*type.of) : "") + ")";
    case Type::Optional: return "optional(" + (type.of ? type_text(*type.of) : "") + ")";
    default: return "?";
  }
}

int64_t declared_size(const std::string& dim) {
  std::string_view rest = dim;
  int64_t size = -1;
  return take_number(rest, size) && rest.empty() ? size : -1;
}

Value make_value(const TensorData& t, const File& file, const Folder& folder) {
  const std::string what = text("the tensor ", quoted(t.name));
  if (t.type == kString) return make_strings(t, what, file);
  const Element* e = find_element(t.type);
  if (!e) fail_file(file.name, text(what, " has the element type ", t.type, ", which mote lacks"));
  const uint64_t count = byte_size(file.name, what, t.dims, 1);
  const auto per_byte = static_cast<uint64_t>(e->bits < 8 ? 8 / e->bits : 1);
  const uint64_t size = e->bits < 8 ? count / per_byte + (count % per_byte != 0)
                                    : byte_size(file.name, what, t.dims, uint64_t(e->bits) / 8);
  Bytes bytes = t.is_external ? external_bytes(t, size, file, folder)
                : t.is_raw    ? t.raw
                              : listed_bytes(t, *e);
  check_file(bytes.size() == size, file.name, what, " has ", bytes.size(), " bytes, but its shape ",
             t.dims, " of ", e->name, " takes ", size);
  if (e->is_held()) bytes = widened(*e, bytes.span(), count);
  if (e->type == kBool && !all_bools(bytes.span())) bytes = as_bools(bytes);
  if (count == 0) return Value(zeros(t.dims, e->held), t.type);
  return Value(disk_tensor(bytes, e->held, t.dims), t.type);
}

// Few stored elements can stand for any size, so the dense tensor is made by scattering on use.
Value make_value(const SparseData& s, const File& file, const Folder& folder) {
  const Value values = make_value(s.values, file, folder);
  const Value indices = make_value(s.indices, file, folder);
  const std::string what = text("the sparse tensor ", quoted(s.values.name));
  check_file(values.kind == Value::Tensor && values.tensor.dim() == 1 &&
                 indices.kind == Value::Tensor && indices.tensor.dtype() == DType::i64,
             file.name, what, " needs a list of values and i64 indices");
  const auto each = static_cast<uint64_t>(size_of(values.tensor.dtype()));
  check_memory(file.name, byte_size(file.name, what, s.dims, each));
  const auto flat = indices.tensor.to("INTERP").to_vector<int64_t>();
  const size_t count = static_cast<size_t>(values.tensor.size(0));
  const bool linear = indices.tensor.dim() == 1;
  check_file(count > 0 && flat.size() == count * (linear ? 1 : s.dims.size()), file.name, what,
             " has ", flat.size(), " indices for ", count, " values");
  std::vector<uint8_t> out(byte_size(file.name, what, s.dims, each));
  std::vector<uint8_t> from = element_bytes(values.tensor.to("INTERP"));
  for (size_t i = 0; i < count; ++i) {
    int64_t at = 0;
    if (linear) at = flat[i];
    for (size_t d = 0; !linear && d < s.dims.size(); ++d) {
      const int64_t p = flat[i * s.dims.size() + d];
      check_file(p >= 0 && p < s.dims[d], file.name, what, " has the index ", p);
      at = at * s.dims[d] + p;
    }
    check_file(at >= 0 && static_cast<uint64_t>(at) < out.size() / each, file.name, what,
               " has the index ", at);
    std::memcpy(&out[static_cast<size_t>(at) * each], &from[i * each], each);
  }
  return Value(disk_tensor(Bytes(std::move(out)), values.tensor.dtype(), s.dims), values.type);
}

namespace {

// SequenceProto and OptionalProto number the kinds of their parts alike: 3 a tensor, 5 a sequence,
// 7 an optional.
Value read_value(Message in, const Type& type, int depth) {
  in.check(depth < 16, "values are nested too deep");
  Value out;
  if (type.kind == Type::Sequence) out.kind = Value::Sequence;
  for (Field f; in.next(f);) {
    if (f.number != 3 && f.number != 5 && f.number != 7) continue;
    in.check(type.of != nullptr, "a part has no type");
    Value part;
    if (f.number == 3)
      part = make_value(parse_tensor({in.budget().file().name, in.bytes(f, "tensor_values")}),
                        in.budget().file(), {});
    else
      part = read_value(in.message(f, "a part", "a part"), *type.of, depth + 1);
    if (type.kind == Type::Sequence)
      in.add(out.items) = std::move(part);
    else
      out = std::move(part);
  }
  return out;
}

}  // namespace

Value parse_value(const File& file, const Type& type) {
  if (type.kind != Type::Sequence && type.kind != Type::Optional)
    return make_value(parse_tensor(file), file, {});
  Budget budget(file);
  return read_value({budget, file.bytes, "the value"}, type, 0);
}

}  // namespace mote::onnx

template class std::vector<mote::onnx::Value>;
