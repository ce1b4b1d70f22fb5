// Element types as ONNX numbers them, and values made of what a file says.
#pragma once
#include <mote/onnx.h>

#include <atomic>

#include "onnx/proto.h"

namespace mote::onnx {

// What handles share.
struct Counted {
  std::atomic<int> users{0};
  virtual ~Counted() = default;
};

enum ElementType : int {
  kFloat = 1,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kInt32,
  kInt64,
  kString,
  kBool,
  kFloat16,
  kDouble,
  kUint32,
  kUint64,
  kComplex64,
  kComplex128,
  kBfloat16,
  kFloat8E4M3FN,
  kFloat8E4M3FNUZ,
  kFloat8E5M2,
  kFloat8E5M2FNUZ,
  kUint4,
  kInt4,
  kFloat4E2M1,
  kFloat8E8M0,
  kUint2,
  kInt2
};

// A float of at most 8 bits: its fields, and which patterns are no numbers.
struct NarrowFloat {
  int exponent_bits, mantissa_bits, bias;
  double most;  // the largest finite value
  bool has_infinity;
  bool has_nan;
  bool has_negative_zero;
};

struct Element {
  int type;
  const char* name;
  DType held;  // what its elements are held in
  int bits;
  NarrowFloat narrow = {};  // of floats that mote lacks, or whose rounding ONNX defines
  bool is_narrow_float() const { return narrow.exponent_bits != 0; }
  bool is_held() const { return bits != 8 * size_of(held); }  // in a wider dtype
  bool is_small_int() const { return bits < 8 && !is_narrow_float(); }
};

const Element* find_element(int type);  // null: not one that mote holds
const Element& element_of(int type);    // an error where there is none
int type_of(DType dtype);               // the natural number of a dtype
inline int type_of(const Value& v) { return v.type ? v.type : type_of(v.tensor.dtype()); }
double decode(const NarrowFloat& f, unsigned bits);

std::string type_text(const Type& type);
// A size as a port declares it; -1 where it is a name or not known.
int64_t declared_size(const std::string& dim);

// A folder that external data may be read from: nothing outside it, no links.
struct Folder {
  std::string path;  // empty: there is none
};

// The tensor on DISK, sharing the file's bytes where its elements are stored as mote holds them.
Value make_value(const TensorData& data, const File& file, const Folder& folder);
Value make_value(const SparseData& data, const File& file, const Folder& folder);
// A test's .pb file, of the type that the model's port has.
Value parse_value(const File& file, const Type& type);

}  // namespace mote::onnx

// Once, in values.cpp: lists of values are in every operator.
extern template class std::vector<mote::onnx::Value>;
