// The file formats mote reads. A format is one row of a table (formats.cpp): how it is recognised,
// and a parser from bytes to a list of what they hold. Parsers make no tensors and copy no data;
// making the tensors is the same for all.
#pragma once
#include <mote/io.h>

#include "io/compress.h"

namespace mote {

// A tensor in a file. `bytes` covers exactly its elements, or with strides all that they reach.
struct StoredTensor {
  std::string name;
  DType dtype = DType::none;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements; empty: row-major
  Bytes bytes;
  // For encodings that are no dtype: how they are called, and the tensor that decodes them.
  std::string encoding;
  Tensor (*decode)(const StoredTensor&) = nullptr;
};

// Names of tensors are distinct.
struct FileContents {
  std::string format;
  Metadata metadata;
  std::vector<StoredTensor> tensors;
  uint64_t unpacked = 0;              // how many bytes were made by unpacking
  bool archive = false;               // of files that are no tensors:
  std::vector<FileInfo::Part> parts;  // these
};

// By content; never throw.
bool is_safetensors(const File& file);
bool is_npy(const File& file);
bool is_gguf(const File& file);
bool is_torch_pickle(std::string_view name);  // of an entry: "archive/data.pkl"
bool is_old_torch(const File& file);          // not read, but known

FileContents parse_safetensors(const File& file);
FileContents parse_npy(const File& file);
FileContents parse_npz(const File& file);
FileContents parse_torch(const File& file);
FileContents parse_gguf(const File& file);

// By content; looks into gzip and xz, each of which gives at most `limit` bytes.
FileContents parse_any(const File& file, uint64_t limit = kUnpackedLimit);

// Tensors on DISK that share the file's bytes. Strided ones are copied row-major; together they may
// be as large as the file's content, else it is an error, for strides can name one byte many times.
std::vector<NamedTensor> make_tensors(const File& file, const FileContents& contents);
Tensor disk_tensor(const Bytes& bytes, DType dtype, const Sizes& shape);

// The elements of a tensor in row-major order, for writing.
std::vector<uint8_t> element_bytes(const Tensor& tensor);
// Refuses names that are not UTF-8, or stand twice, and undefined tensors.
void check_savable(const std::vector<NamedTensor>& tensors);

}  // namespace mote
