// safetensors: the length of a JSON header, the header, the data.
#include <algorithm>
#include <set>

#include "io/formats.h"
#include "io/json.h"
#include "runtime/output_file.h"
#include "tensor/impl.h"

namespace mote {

namespace {

struct TypeRow {
  const char* name;
  DType dtype;
};
// In the order in which the reference library lays tensors out, so that all are aligned.
constexpr TypeRow types[] = {
    {"U64",     DType::u64    },
    {"I64",     DType::i64    },
    {"F64",     DType::f64    },
    {"F32",     DType::f32    },
    {"U32",     DType::u32    },
    {"I32",     DType::i32    },
    {"BF16",    DType::bf16   },
    {"F16",     DType::f16    },
    {"U16",     DType::u16    },
    {"I16",     DType::i16    },
    {"F8_E4M3", DType::f8e4m3 },
    {"F8_E5M2", DType::f8e5m2 },
    {"I8",      DType::i8     },
    {"U8",      DType::u8     },
    {"BOOL",    DType::boolean},
};
constexpr uint64_t longest_header = 100'000'000;  // the reference library's limit
constexpr const char* metadata_key = "__metadata__";

const TypeRow& row_of(DType dtype) {
  return *std::find_if(std::begin(types), std::end(types),
                       [&](const TypeRow& t) { return t.dtype == dtype; });
}

DType read_type(const std::string& file, const std::string& what, std::string_view name) {
  for (const TypeRow& t : types)
    if (name == t.name) return t.dtype;
  fail_file(file, text(what, " has the dtype ", quoted(name), ", which mote does not have"));
}

StoredTensor read_tensor(const std::string& file, std::string_view name, const JsonValue& value,
                         const Bytes& data) {
  const std::string what = "the tensor " + quoted(name);
  StoredTensor t;
  t.name = name;
  t.dtype = read_type(file, what, value.at("dtype", what).string("the dtype of " + what));
  const std::string shape = "the shape of " + what, offsets = "the data_offsets of " + what;
  for (const JsonValue& size : value.at("shape", what).items(shape))
    t.shape.push_back(size.integer(shape));
  const auto pair = value.at("data_offsets", what).items(offsets);
  check_file(pair.size() == 2, file, offsets, " must be two numbers");
  const int64_t begin = (*pair.begin()).integer(offsets), end = (*++pair.begin()).integer(offsets);
  check_file(begin >= 0 && begin <= end && static_cast<uint64_t>(end) <= data.size(), file, offsets,
             " are ", begin, " to ", end, ", outside the ", data.size(), " bytes of data");
  const uint64_t bytes = byte_size(file, what, t.shape, static_cast<uint64_t>(size_of(t.dtype)));
  check_file(static_cast<uint64_t>(end - begin) == bytes, file, what, " has ", end - begin,
             " bytes, but its shape ", t.shape, " of ", t.dtype, " takes ", bytes);
  t.bytes = data.part(static_cast<size_t>(begin), bytes);
  return t;
}

// The data is the tensors', without overlaps and without holes in which something could hide.
void check_layout(const std::string& file, const std::vector<StoredTensor>& tensors,
                  const Bytes& data) {
  std::vector<const StoredTensor*> sorted;
  for (const StoredTensor& t : tensors) sorted.push_back(&t);
  std::sort(sorted.begin(), sorted.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return a->bytes.data() != b->bytes.data() ? a->bytes.data() < b->bytes.data()
                                              : a->bytes.size() < b->bytes.size();
  });
  const uint8_t* end = data.data();
  auto refuse = [&](const std::string& what) {
    fail_file(file, text(what, " at byte ", end - data.data(), " of the data"));
  };
  for (const StoredTensor* t : sorted) {
    if (t->bytes.data() < end) refuse(text("the tensor ", quoted(t->name), " overlaps another"));
    if (t->bytes.data() > end) refuse("there are bytes that belong to no tensor");
    end += t->bytes.size();
  }
  if (end != data.data() + data.size()) refuse("there are bytes that belong to no tensor");
}

void read_metadata(const JsonValue& value, Metadata& out) {
  for (const auto& [key, text] : value.members(metadata_key))
    out.push_back({std::string(key), std::string(text.string("a value of __metadata__"))});
}

void check_metadata(const Metadata& metadata) {
  std::set<std::string_view> keys;
  for (const auto& [key, value] : metadata) {
    expect(is_utf8(key) && is_utf8(value), "the metadata of ", quoted(key), " is not valid UTF-8");
    expect(keys.insert(key).second, "the metadata has ", quoted(key), " twice");
  }
}

// Offsets count from the end of the header.
std::string make_header(const std::vector<const NamedTensor*>& tensors, const Metadata& metadata) {
  JsonWriter json(/*compact=*/true);
  json.begin('{');
  if (!metadata.empty()) {
    json.key(metadata_key).begin('{');
    for (const auto& [key, value] : metadata) json.key(key).value(value);
    json.end();
  }
  int64_t offset = 0;
  for (const NamedTensor* t : tensors) {
    json.key(t->name).begin('{').key("dtype").value(row_of(t->tensor.dtype()).name);
    json.key("shape").begin('[');
    for (const int64_t size : t->tensor.shape()) json.value(size);
    json.end().key("data_offsets").begin('[').value(offset);
    json.value(offset += t->tensor.nbytes()).end().end();
  }
  std::string header = json.end().text();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  expect(header.size() <= longest_header, "the names and metadata take ", header.size(),
         " bytes, more than the ", longest_header, " that the format allows");
  return header;
}

}  // namespace

bool is_safetensors(const File& file) {
  if (file.bytes.size() < 9 || file.bytes.data()[8] != '{') return false;
  return Reader(file).u64("the header's length") <= longest_header;
}

FileContents parse_safetensors(const File& file) {
  Reader in(file);
  const uint64_t length = in.u64("the header's length");
  in.check(length <= in.left(), "header length ", length, " exceeds the file's ", in.size(),
           " bytes");
  in.check(length <= longest_header, "header length ", length, " is more than the ", longest_header,
           " bytes that the format allows");
  const std::string_view header = in.text(length, "the header");
  const Bytes data = file.bytes.part(in.at(), in.left());
  const JsonDocument json(file.name, header);
  FileContents out{.format = "safetensors"};
  for (const auto& [key, value] : json.root().members("the header")) {
    if (key == metadata_key)
      read_metadata(value, out.metadata);
    else
      out.tensors.push_back(read_tensor(file.name, key, value, data));
  }
  check_layout(file.name, out.tensors, data);
  return out;
}

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata, Loc where) {
  OuterCall call("save_safetensors", where);
  check_savable(tensors);
  check_metadata(metadata);
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& t : tensors) {
    expect(t.name != metadata_key, "a tensor cannot be called ", metadata_key);
    sorted.push_back(&t);
  }
  std::sort(sorted.begin(), sorted.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const TypeRow *left = &row_of(a->tensor.dtype()), *right = &row_of(b->tensor.dtype());
    return left != right ? left < right : a->name < b->name;
  });
  const std::string header = make_header(sorted, metadata);
  OutputFile out(path);
  const uint64_t length = header.size();
  out.write({reinterpret_cast<const char*>(&length), sizeof length});
  out.write(header);
  for (const NamedTensor* t : sorted) out.write(element_bytes(t->tensor));
  out.commit();
}

}  // namespace mote
