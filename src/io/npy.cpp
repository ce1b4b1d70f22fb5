// NumPy's npy: a magic word, a Python dict as text, the elements; and npz: a zip of these.
#include <algorithm>
#include <charconv>

#include "base/integers.h"
#include "io/archive.h"
#include "io/formats.h"
#include "tensor/impl.h"

namespace mote {

namespace {

struct TypeRow {
  const char* name;
  DType dtype;
};
constexpr TypeRow types[] = {
    {"b1", DType::boolean},
    {"u1", DType::u8     },
    {"u2", DType::u16    },
    {"u4", DType::u32    },
    {"u8", DType::u64    },
    {"i1", DType::i8     },
    {"i2", DType::i16    },
    {"i4", DType::i32    },
    {"i8", DType::i64    },
    {"f2", DType::f16    },
    {"f4", DType::f32    },
    {"f8", DType::f64    },
};
constexpr std::string_view magic("\x93NUMPY", 6);
constexpr std::string_view extension = ".npy";

DType read_type(const std::string& file, std::string_view descr) {
  const std::string_view code = descr.substr(std::min<size_t>(1, descr.size()));
  const char order = descr.empty() ? '\0' : descr[0];
  for (const TypeRow& t : types) {
    if (code != t.name) continue;
    if (order == '>' && size_of(t.dtype) > 1)
      fail_file(file, text("descr ", quoted(descr), " is big-endian; only little-endian is read"));
    if (order == '<' || order == '|' || order == '=' || order == '>') return t.dtype;
  }
  fail_file(file, text("descr ", quoted(descr), " is a dtype that mote does not have"));
}

// The header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Header {
 public:
  Header(const std::string& file, std::string_view text) : file_(file), text_(text) {
    need('{');
    while (!take('}')) {
      const std::string key(take_string());
      need(':');
      if (key == "descr" && !has_descr_) {
        read_descr();
      } else if (key == "fortran_order" && !has_order_) {
        fortran = take_bool(), has_order_ = true;
      } else if (key == "shape" && !has_shape_) {
        read_shape();
      } else {
        fail_file(file_, mote::text("the header has the key ", quoted(key),
                                    has(key) ? " twice" : ", which is unknown"));
      }
      if (!take(',')) {
        need('}');
        break;
      }
    }
    skip_space();
    check(text_.empty(), "extra text after the dict");
    check(has_descr_ && has_order_ && has_shape_, "descr, fortran_order or shape is missing");
  }

  DType dtype = DType::none;
  bool fortran = false;
  std::vector<int64_t> shape;

 private:
  template <class... A>
  void check(bool ok, const A&... parts) {
    check_file(ok, file_, "the header: ", parts...);
  }
  bool has(std::string_view key) const {
    return key == "descr" || key == "fortran_order" || key == "shape";
  }
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t'))
      text_.remove_prefix(1);
  }
  bool take(char c) {
    skip_space();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void need(char c) {
    if (!take(c))
      check(false, "expected '", c, "', got ", text_.empty() ? "its end" : quoted(text_));
  }
  std::string_view take_string() {
    const char quote = take('\'') ? '\'' : (need('"'), '"');
    const size_t end = text_.find(quote);
    check(end != std::string_view::npos, "a string does not end");
    const std::string_view out = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return out;
  }
  bool take_word(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool take_bool() {
    skip_space();
    if (take_word("True")) return true;
    check(take_word("False"), "fortran_order must be True or False");
    return false;
  }
  void read_descr() {
    skip_space();
    check(!text_.starts_with('['), "descr is a structured dtype, which is not read");
    dtype = read_type(file_, take_string());
    has_descr_ = true;
  }
  void read_shape() {
    need('(');
    while (!take(')')) {
      skip_space();
      int64_t size = 0;
      const auto result = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      check(result.ec == std::errc(), "a size in shape is not a number of at most 63 bits");
      text_.remove_prefix(static_cast<size_t>(result.ptr - text_.data()));
      shape.push_back(size);
      if (!take(',')) {
        need(')');
        break;
      }
    }
    has_shape_ = true;
  }

  const std::string& file_;
  std::string_view text_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

std::vector<int64_t> fortran_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  int64_t stride = 1;
  for (const int64_t size : shape) out.push_back(stride), stride *= size;
  return out;
}

StoredTensor read_array(const File& file) {
  Reader in(file);
  in.check(is_npy(file), "is not an npy file");
  in.skip(magic.size(), "the magic");
  const int version = in.u8("the version");
  in.skip(1, "the version");
  in.check(version >= 1 && version <= 3, "version ", version, " of the format is not 1, 2 or 3");
  const uint32_t length =
      version == 1 ? in.u16("the header's length") : in.u32("the header's length");
  in.check(length <= in.left(), "header length ", length, " exceeds the file's ", in.size(),
           " bytes");
  const Header header(file.name, in.text(length, "the header"));
  StoredTensor t;
  t.dtype = header.dtype, t.shape = header.shape;
  const uint64_t bytes =
      byte_size(file.name, "the array", t.shape, static_cast<uint64_t>(size_of(t.dtype)));
  in.check(in.left() == bytes, "the array's shape ", t.shape, " of ", t.dtype, " takes ", bytes,
           " bytes, but ", in.left(), " follow the header");
  if (header.fortran && t.shape.size() > 1 && bytes) t.strides = fortran_strides(t.shape);
  t.bytes = file.bytes.part(in.at(), bytes);
  return t;
}

std::string header_of(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  const auto row = std::find_if(std::begin(types), std::end(types),
                                [&](const TypeRow& t) { return t.dtype == dtype; });
  expect(row != std::end(types), "NumPy has no ", dtype,
         ": convert the tensor first, for example with .to(float32)");
  const std::vector<int64_t> shape = tensor.shape();
  std::string sizes = text(shape);
  if (shape.size() == 1) sizes.insert(sizes.size() - 1, ",");
  std::string dict = text("{'descr': '", size_of(dtype) > 1 ? '<' : '|', row->name,
                          "', 'fortran_order': False, 'shape': ", sizes, ", }");
  constexpr size_t before = 10, alignment = 64;
  const size_t length = round_up(before + dict.size() + 1, alignment) - before;
  dict.resize(length - 1, ' ');
  return text(magic, '\x01', '\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8),
              dict, '\n');
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

bool is_npy(const File& file) { return file.bytes.text().starts_with(magic); }

FileContents parse_npy(const File& file) {
  FileContents out{.format = "npy"};
  out.tensors.push_back(read_array(file));
  return out;
}

FileContents parse_npz(const File& file) {
  FileContents out{.format = "npz"};
  const std::vector<ArchiveEntry> entries = list_zip(file);
  check_unpacked_size(file, entries);
  for (const ArchiveEntry& entry : entries) {
    if (!entry.name.ends_with(extension))
      fail_file(file.name, text("the entry ", quoted(entry.name), " is not an .npy file"));
    StoredTensor t = read_array({file.name + ": " + entry.name, unpack(file, entry)});
    t.name = entry.name.substr(0, entry.name.size() - extension.size());
    if (entry.deflated) out.unpacked += entry.size;
    out.tensors.push_back(std::move(t));
  }
  return out;
}

void save_npy(const std::string& path, const Tensor& tensor, Loc where) {
  OuterCall call("save_npy", where);
  expect_defined(tensor);
  const std::string header = header_of(tensor);
  OutputFile out(path);
  out.write(header);
  out.write(element_bytes(tensor));
  out.commit();
}

void save_npz(const std::string& path, const std::vector<NamedTensor>& tensors, Loc where) {
  OuterCall call("save_npz", where);
  check_savable(tensors);
  std::vector<std::string> headers;
  for (const NamedTensor& t : tensors) {
    check_entry_name(path, t.name + std::string(extension));
    expect(t.name.size() < 0x8000, "the name ", quoted(t.name), " is too long for a zip archive");
    headers.push_back(header_of(t.tensor));
  }
  OutputFile out(path);
  ZipWriter zip(out);
  for (size_t i = 0; i < tensors.size(); ++i)
    zip.add(tensors[i].name + std::string(extension),
            {bytes_of(headers[i]), element_bytes(tensors[i].tensor)});
  zip.finish();
  out.commit();
}

}  // namespace mote
