// GGUF, versions 2 and 3: typed metadata, and tensors of plain numbers or quantised blocks.
#pragma once
#include "io/formats.h"

namespace mote {

bool is_gguf(const File& file);

// A metadata value, which looks into the file's bytes.
struct GgufValue {
  // As numbered in files.
  enum Kind : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };
  Kind kind = U8;  // an array's: that of its elements
  bool is_array = false;
  size_t count = 1;                       // of elements
  std::span<const uint8_t> numbers;       // of the kinds that are numbers
  std::vector<std::string_view> strings;  // of strings
  std::vector<GgufValue> arrays;          // of arrays of arrays

  bool is_integer() const;
  int64_t integer(size_t i = 0) const;  // of whole numbers and bools
  double number(size_t i = 0) const;    // of any number
  std::string to_string() const;        // long arrays are cut
};

struct Gguf {
  struct Pair {
    std::string_view key;
    GgufValue value;
  };
  uint32_t version = 0;
  std::vector<Pair> metadata;         // keys are distinct
  std::vector<StoredTensor> tensors;  // distinct names, inside the file, apart from each other

  const GgufValue* find(std::string_view key) const;  // null: there is none
};
// What it gives looks into the file's bytes, which must stay.
Gguf read_gguf(const File& file);

// How a tensor is stored: by a dtype, or in blocks of `elements` numbers that take `bytes`.
struct GgufEncoding {
  uint32_t number;  // in files
  const char* name;
  int64_t elements, bytes;
  DType dtype;                             // none where quantised
  Tensor (*decode)(const Tensor& blocks);  // u8 (n, bytes) to f32 (n, elements), as graph
};
const GgufEncoding* find_gguf_encoding(uint32_t number);  // null where mote cannot read it
std::span<const GgufEncoding> gguf_encodings();

}  // namespace mote
