#include "io/formats.h"

#include <algorithm>
#include <set>

#include "io/archive.h"
#include "runtime/disk.h"
#include "tensor/impl.h"

namespace mote {

void start_engine();

namespace {

FileContents list_files(const char* format, const std::vector<ArchiveEntry>& entries) {
  FileContents out{.format = format, .archive = true};
  for (const ArchiveEntry& e : entries)
    out.parts.push_back({.name = e.name,
                         .type = "file",
                         .offset = e.deflated ? -1 : static_cast<int64_t>(e.offset),
                         .bytes = static_cast<int64_t>(e.size)});
  return out;
}

FileContents parse_tar(const File& file) { return list_files("tar", list_tar(file)); }

// A PyTorch checkpoint, NumPy's npz, or any files.
FileContents parse_zip(const File& file) {
  const std::vector<ArchiveEntry> entries = list_zip(file);
  auto any = [&](auto f) { return std::any_of(entries.begin(), entries.end(), f); };
  if (any([](const ArchiveEntry& e) { return is_torch_pickle(e.name); })) return parse_torch(file);
  const bool others = any([](const ArchiveEntry& e) { return !e.name.ends_with(".npy"); });
  return entries.empty() || others ? list_files("zip", entries) : parse_npz(file);
}

struct Format {
  const char* name;
  bool (*recognises)(const File& file);
  FileContents (*parse)(const File& file);
};
// In the order they are tried.
constexpr Format rows[] = {
    {"gguf",               is_gguf,                                              parse_gguf       },
    {"npy",                is_npy,                                               parse_npy        },
    {"zip (PyTorch, npz)", [](const File& f) { return is_zip(f.bytes.span()); }, parse_zip        },
    {"tar",                [](const File& f) { return is_tar(f.bytes.span()); }, parse_tar        },
    {"safetensors",        is_safetensors,                                       parse_safetensors},
    {"PyTorch before 1.6", is_old_torch,                                         parse_torch      },
};

const Format* find_format(const File& file) {
  for (const Format& f : rows)
    if (f.recognises(file)) return &f;
  return nullptr;
}

[[noreturn]] void refuse(const File& file) {
  std::string known;
  for (const Format& f : rows) known += text(known.empty() ? "" : ", ", f.name);
  fail_file(file.name, text("is not a file that mote can read, of ", file.bytes.size(),
                            " bytes that begin with ", quoted(file.bytes.text().substr(0, 8)),
                            "; it reads ", known, ", gzip and xz"));
}

// Copies elements of `Size` bytes from where the strides say to one after another.
template <size_t Size>
void gather(const StoredTensor& t, uint8_t* to) {
  const size_t rank = t.shape.size();
  std::vector<int64_t> at(rank, 0);
  const int64_t inner = t.shape[rank - 1], step = t.strides[rank - 1];
  for (const uint8_t* from = t.bytes.data();;) {
    for (int64_t i = 0; i < inner; ++i, to += Size)
      std::memcpy(to, from + static_cast<size_t>(i * step) * Size, Size);
    size_t axis = rank - 1;
    for (; axis > 0; --axis) {
      const int64_t stride = t.strides[axis - 1] * static_cast<int64_t>(Size);
      from += stride;
      if (++at[axis - 1] < t.shape[axis - 1]) break;
      from -= stride * t.shape[axis - 1];
      at[axis - 1] = 0;
    }
    if (axis == 0) return;
  }
}

Bytes row_major(const std::string& file, const StoredTensor& t, uint64_t bytes) {
  std::vector<uint8_t> out;
  resize(out, bytes, file);
  switch (size_of(t.dtype)) {
    case 1: gather<1>(t, out.data()); break;
    case 2: gather<2>(t, out.data()); break;
    case 4: gather<4>(t, out.data()); break;
    default: gather<8>(t, out.data()); break;
  }
  return Bytes(std::move(out));
}

FileInfo::Part describe(const File& file, const StoredTensor& t) {
  const bool inside = t.bytes.data() >= file.bytes.data() &&
                      t.bytes.data() <= file.bytes.data() + file.bytes.size();
  return {.name = t.name,
          .type = t.encoding.empty() ? name(t.dtype) : t.encoding,
          .shape = t.shape,
          .offset = inside ? t.bytes.data() - file.bytes.data() : -1,
          .bytes = static_cast<int64_t>(t.bytes.size())};
}

std::vector<NamedTensor> load_by(FileContents (*parse)(const File&), const std::string& path) {
  const File file = open_file(path);
  return make_tensors(file, parse(file));
}

}  // namespace

FileContents parse_any(const File& file, uint64_t limit) {
  const File inner = unpacked(file, limit);
  const Format* format = find_format(inner);
  const char* wrapping = is_gzip(file.bytes.span())   ? "gzip"
                         : is_xz(file.bytes.span())   ? "xz"
                         : is_zstd(file.bytes.span()) ? "zstd"
                                                      : nullptr;
  if (!format && !wrapping) refuse(file);
  if (!format)
    return {.format = wrapping,
            .metadata = {{"unpacked bytes", std::to_string(inner.bytes.size())}},
            .archive = true};
  FileContents out = format->parse(inner);
  if (wrapping) {
    out.format += text(" in ", wrapping);
    out.unpacked += inner.bytes.size();
    for (FileInfo::Part& part : out.parts) part.offset = -1;
  }
  return out;
}

// The tensor holds a share in the bytes until its last user is gone.
Tensor disk_tensor(const Bytes& bytes, DType dtype, const Sizes& shape) {
  start_engine();
  using Owner = std::shared_ptr<const void>;
  auto owner = std::make_unique<Owner>(bytes.owner());
  Tensor out = from_blob(
      const_cast<uint8_t*>(bytes.data()), shape, dtype,
      [](void* context) { delete static_cast<Owner*>(context); }, owner.get(), kDisk);
  owner.release();
  return out;
}

std::vector<NamedTensor> make_tensors(const File& file, const FileContents& contents) {
  check_file(!contents.archive, file.name, "is a ", contents.format, " file without tensors");
  uint64_t may_copy = file.bytes.size() + contents.unpacked;
  std::vector<NamedTensor> out;
  for (const StoredTensor& t : contents.tensors) {
    if (t.decode) {
      out.push_back({t.name, t.decode(t)});
      continue;
    }
    Bytes bytes = t.bytes;
    if (!t.strides.empty()) {
      const uint64_t size =
          byte_size(file.name, "a tensor", t.shape, static_cast<uint64_t>(size_of(t.dtype)));
      if (size > may_copy)
        fail_file(file.name, text("the tensor ", quoted(t.name), " has the strides ", t.strides,
                                  ", by which the strided tensors are larger than the file"));
      may_copy -= size;
      bytes = row_major(file.name, t, size);
    }
    out.push_back({t.name, disk_tensor(bytes, t.dtype, t.shape)});
  }
  return out;
}

std::vector<uint8_t> element_bytes(const Tensor& tensor) {
  std::vector<uint8_t> out(static_cast<size_t>(tensor.nbytes()));
  tensor.copy_out(out.data(), tensor.nbytes());
  return out;
}

void check_savable(const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> names;
  for (const NamedTensor& t : tensors) {
    expect(is_utf8(t.name), "the name ", quoted(t.name), " is not valid UTF-8");
    expect(t.tensor.defined(), "the tensor ", quoted(t.name), " is undefined");
    expect(names.insert(t.name).second, "the name ", quoted(t.name), " appears twice");
  }
}

std::vector<NamedTensor> load(const std::string& path, Loc where) {
  OuterCall call("load", where);
  return load_by([](const File& file) { return parse_any(file); }, path);
}

std::vector<NamedTensor> load_safetensors(const std::string& path, Metadata* metadata, Loc where) {
  OuterCall call("load_safetensors", where);
  const File file = open_file(path);
  FileContents contents = parse_safetensors(file);
  if (metadata) *metadata = std::move(contents.metadata);
  return make_tensors(file, contents);
}

Tensor load_npy(const std::string& path, Loc where) {
  OuterCall call("load_npy", where);
  return load_by(parse_npy, path).front().tensor;
}

std::vector<NamedTensor> load_npz(const std::string& path, Loc where) {
  OuterCall call("load_npz", where);
  return load_by(parse_npz, path);
}

std::vector<NamedTensor> load_torch(const std::string& path, Loc where) {
  OuterCall call("load_torch", where);
  return load_by(parse_torch, path);
}

std::vector<NamedTensor> load_gguf(const std::string& path, Loc where) {
  OuterCall call("load_gguf", where);
  return load_by(parse_gguf, path);
}

FileInfo file_info(const std::string& path, Loc where) {
  OuterCall call("file_info", where);
  const File file = open_file(path);
  FileContents contents = parse_any(file);
  FileInfo out{.format = std::move(contents.format),
               .bytes = static_cast<int64_t>(file.bytes.size()),
               .metadata = std::move(contents.metadata),
               .parts = std::move(contents.parts)};
  for (const StoredTensor& t : contents.tensors) out.parts.push_back(describe(file, t));
  return out;
}

}  // namespace mote
