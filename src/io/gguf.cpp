#include "io/gguf.h"

#include <algorithm>
#include <unordered_set>

#include "base/integers.h"
#include "tensor/impl.h"

namespace mote {
namespace {

constexpr int kArrayDepth = 4;
constexpr size_t kKeyBytes = 65535, kTensorAxes = 4;

// By GgufValue::Kind; 0 for what has no fixed size.
constexpr uint64_t kind_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

std::string_view read_string(Reader& in, const char* field) {
  return in.text(in.u64(field), field);
}

GgufValue::Kind read_kind(Reader& in, std::string_view key) {
  uint32_t kind = in.u32("a metadata type");
  in.check(kind <= GgufValue::F64, "the metadata ", quoted(key), " has the unknown type ", kind);
  return static_cast<GgufValue::Kind>(kind);
}

GgufValue read_array(Reader& in, std::string_view key, int depth);

// `value.count` elements of value.kind.
void read_elements(Reader& in, std::string_view key, GgufValue& value, uint64_t count, int depth) {
  constexpr uint64_t kLeastString = 8, kLeastArray = 12;
  if (value.kind == GgufValue::Array) {
    value.count = in.plausible(count, kLeastArray, "a metadata array's length");
    for (size_t i = 0; i < value.count; ++i) value.arrays.push_back(read_array(in, key, depth + 1));
  } else if (value.kind == GgufValue::String) {
    value.count = in.plausible(count, kLeastString, "a metadata array's length");
    value.strings.reserve(value.count);
    for (size_t i = 0; i < value.count; ++i)
      value.strings.push_back(read_string(in, "a metadata string"));
  } else {
    uint64_t each = kind_bytes[value.kind];
    value.count = in.plausible(count, each, "a metadata array's length");
    value.numbers = in.take(value.count * each, "a metadata value");
    if (value.kind == GgufValue::Bool)
      in.check(
          std::all_of(value.numbers.begin(), value.numbers.end(), [](uint8_t b) { return b < 2; }),
          "the metadata ", quoted(key), " holds a bool that is neither 0 nor 1");
  }
}

GgufValue read_array(Reader& in, std::string_view key, int depth) {
  in.check(depth <= kArrayDepth, "the metadata ", quoted(key), " is nested more than ", kArrayDepth,
           " deep");
  GgufValue value;
  value.is_array = true;
  value.kind = read_kind(in, key);
  uint64_t count = in.u64("a metadata array's length");
  read_elements(in, key, value, count, depth);
  return value;
}

GgufValue read_value(Reader& in, std::string_view key) {
  GgufValue value;
  value.kind = read_kind(in, key);
  if (value.kind == GgufValue::Array) return read_array(in, key, 1);
  read_elements(in, key, value, 1, 1);
  return value;
}

void read_metadata(Reader& in, Gguf& out, uint64_t count) {
  std::unordered_set<std::string_view> seen;
  constexpr uint64_t kLeast = 8 + 1 + 4 + 1;  // a key of one byte, a type, a value
  out.metadata.reserve(in.plausible(count, kLeast, "the number of metadata pairs"));
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view key = read_string(in, "a metadata key");
    in.check(!key.empty() && key.size() <= kKeyBytes, "a metadata key must have 1 ... ", kKeyBytes,
             " bytes, got ", key.size());
    in.check(seen.insert(key).second, "the metadata ", quoted(key), " appears twice");
    out.metadata.push_back({key, read_value(in, key)});
  }
}

uint64_t read_alignment(Reader& in, const Gguf& gguf) {
  const GgufValue* value = gguf.find("general.alignment");
  if (!value) return 32;
  in.check(value->kind == GgufValue::U32 && !value->is_array, "general.alignment must be an u32");
  int64_t alignment = value->integer();
  in.check(alignment >= 8 && (alignment & (alignment - 1)) == 0,
           "general.alignment must be a power of two of at least 8, got ", alignment);
  return static_cast<uint64_t>(alignment);
}

// The graph of the values. The blocks have memory of their own on the default device, which is
// filled by whoever reads them first.
Tensor decode_blocks(const StoredTensor& t) {
  auto row = std::find_if(std::begin(gguf_encodings()), std::end(gguf_encodings()),
                          [&](const GgufEncoding& e) { return t.encoding == e.name; });
  auto blocks = static_cast<int64_t>(t.bytes.size()) / row->bytes;
  Tensor bytes = empty({blocks, row->bytes}, DType::u8);
  if (blocks) bytes.assign(disk_tensor(t.bytes, DType::u8, {blocks, row->bytes}));
  return row->decode(bytes).reshape(t.shape);
}

struct TensorPlace {
  size_t index;
  uint64_t offset, bytes;
};

// A tensor's name, shape and encoding; its place among the data is checked later.
TensorPlace read_tensor(Reader& in, Gguf& out) {
  StoredTensor t;
  t.name = read_string(in, "a tensor's name");
  std::string what = "the tensor " + quoted(t.name);
  uint32_t axes = in.u32("a tensor's number of axes");
  in.check(axes <= kTensorAxes, what, " has ", axes, " axes, which is more than ", kTensorAxes);
  for (uint32_t i = 0; i < axes; ++i) t.shape.push_back(in.read<int64_t>("a tensor's size"));
  uint32_t number = in.u32("a tensor's type");
  const GgufEncoding* encoding = find_gguf_encoding(number);
  in.check(encoding, what, " has the type ", number, ", which mote does not read");
  int64_t row = axes ? t.shape[0] : 1;
  in.check(row % encoding->elements == 0, what, " has rows of ", row,
           " elements, which are no whole ", encoding->name, " blocks of ", encoding->elements);
  std::vector<int64_t> blocks = t.shape;
  if (axes) blocks[0] /= encoding->elements;
  byte_size(in.name(), what, t.shape, sizeof(float));  // as many elements as there can be
  uint64_t bytes = byte_size(in.name(), what, blocks, static_cast<uint64_t>(encoding->bytes));
  std::reverse(t.shape.begin(), t.shape.end());  // files list the innermost first
  t.dtype = encoding->dtype;
  if (encoding->decode) {
    t.dtype = DType::f32;
    t.encoding = encoding->name;
    t.decode = decode_blocks;
  }
  uint64_t offset = in.u64("a tensor's offset");
  out.tensors.push_back(std::move(t));
  return {out.tensors.size() - 1, offset, bytes};
}

// Where the data of each tensor lies: aligned, inside the file, and apart from each other.
void place_tensors(Reader& in, const File& file, Gguf& out, std::vector<TensorPlace> places) {
  uint64_t alignment = read_alignment(in, out);
  uint64_t start = round_up(in.at(), alignment);
  uint64_t room = start < in.size() ? in.size() - start : 0;
  std::sort(places.begin(), places.end(),
            [](const TensorPlace& a, const TensorPlace& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (const TensorPlace& p : places) {
    StoredTensor& t = out.tensors[p.index];
    std::string what = "the tensor " + quoted(t.name);
    in.check(p.offset % alignment == 0, what, " has the offset ", p.offset,
             ", which is no multiple of ", alignment);
    in.check(p.offset <= room && p.bytes <= room - p.offset, what, " has ", p.bytes,
             " bytes at offset ", p.offset, " of the data, which ends at ", room);
    if (p.bytes == 0) continue;
    in.check(p.offset >= end, what, " overlaps another");
    end = p.offset + p.bytes;
    t.bytes = file.bytes.part(start + p.offset, p.bytes);
  }
}

template <class T>
T load(std::span<const uint8_t> bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

bool GgufValue::is_integer() const {
  return kind != F32 && kind != F64 && kind != String && kind != Array;
}

int64_t GgufValue::integer(size_t i) const {
  switch (kind) {
    case U8:
    case Bool: return numbers[i];
    case I8: return load<int8_t>(numbers, i);
    case U16: return load<uint16_t>(numbers, i);
    case I16: return load<int16_t>(numbers, i);
    case U32: return load<uint32_t>(numbers, i);
    case I32: return load<int32_t>(numbers, i);
    default: return load<int64_t>(numbers, i);
  }
}

double GgufValue::number(size_t i) const {
  if (kind == F32) return load<float>(numbers, i);
  if (kind == F64) return load<double>(numbers, i);
  return kind == U64 ? static_cast<double>(load<uint64_t>(numbers, i))
                     : static_cast<double>(integer(i));
}

std::string GgufValue::to_string() const {
  constexpr size_t kShown = 6;
  auto one = [&](size_t i) {
    if (kind == Array) return arrays[i].to_string();
    if (kind == String) return is_array ? quoted(strings[i]) : std::string(strings[i]);
    if (kind == Bool) return text(numbers[i] != 0);
    if (kind == U64) return std::to_string(load<uint64_t>(numbers, i));
    return is_integer() ? std::to_string(integer(i)) : text(number(i));
  };
  if (!is_array) return one(0);
  std::string out = "[";
  for (size_t i = 0; i < std::min(count, kShown); ++i) out += (i ? ", " : "") + one(i);
  return out + (count > kShown ? text(", ...] (", count, ")") : "]");
}

const GgufValue* Gguf::find(std::string_view key) const {
  for (const Pair& p : metadata)
    if (p.key == key) return &p.value;
  return nullptr;
}

bool is_gguf(const File& file) { return file.bytes.text().starts_with("GGUF"); }

Gguf read_gguf(const File& file) {
  Reader in(file);
  in.check(is_gguf(file), "not a GGUF file: it does not begin with \"GGUF\"");
  in.skip(4, "the magic number");
  Gguf out;
  out.version = in.u32("the version");
  bool swapped = out.version == __builtin_bswap32(2) || out.version == __builtin_bswap32(3);
  in.check(!swapped, "its numbers are big-endian, which mote does not read");
  in.check(out.version == 2 || out.version == 3, "the version must be 2 or 3, got ", out.version);
  uint64_t tensors = in.u64("the number of tensors"),
           pairs = in.u64("the number of metadata pairs");
  read_metadata(in, out, pairs);
  constexpr uint64_t kLeast = 8 + 4 + 4 + 8;  // a tensor's name, axes, type and offset
  out.tensors.reserve(in.plausible(tensors, kLeast, "the number of tensors"));
  std::vector<TensorPlace> places;
  std::unordered_set<std::string> seen;
  for (uint64_t i = 0; i < tensors; ++i) {
    places.push_back(read_tensor(in, out));
    const std::string& name = out.tensors.back().name;
    in.check(seen.insert(name).second, "the tensor ", quoted(name), " appears twice");
  }
  place_tensors(in, file, out, std::move(places));
  return out;
}

FileContents parse_gguf(const File& file) {
  Gguf gguf = read_gguf(file);
  FileContents out{.format = "gguf"};
  for (const Gguf::Pair& p : gguf.metadata) out.metadata.emplace_back(p.key, p.value.to_string());
  out.tensors = std::move(gguf.tensors);
  return out;
}

}  // namespace mote
