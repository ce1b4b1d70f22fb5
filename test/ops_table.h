// How each op of the golden file is called through the Tensor interface: one row per op key.
#pragma once
#include <mote/mote.h>

#include <span>

#include "golden_file.h"

namespace mote::test {

// A golden case about to run: its inputs as tensors of the device, its attributes by name.
struct Call {
  const GoldenCase& golden;
  std::string device;
  std::vector<Tensor> inputs;  // one per golden input

  const Tensor& x(size_t i = 0) const;                 // the i-th input without a role
  std::vector<Tensor> positional(size_t from = 0) const;
  Tensor role(const char* name) const;                 // undefined if the case has none

  bool has(const char* key) const { return golden.attrs.count(key) != 0; }
  bool flag(const char* key, bool otherwise = false) const;
  int64_t integer(const char* key, int64_t otherwise = 0) const;
  double real(const char* key, double otherwise = 0) const;
  Number number(const char* key) const;                // keeps bool, int or float
  const char* text(const char* key, const char* otherwise = "") const;
  std::vector<int64_t> ints(const char* key) const;    // one number or a list; empty if absent
  std::vector<double> reals(const char* key) const;
  DType dtype(const char* key = "dtype") const;        // none if absent
  Options options() const { return {dtype(), device}; }
  Reduction reduction() const;
  std::vector<Index> indices() const;                  // of the attribute "index"

 private:
  const Attr& attr(const char* key) const;
};

using Outputs = std::vector<Tensor>;
struct TestedOp {
  const char* op;
  Outputs (*run)(const Call&);
};

// A row whose outputs are a list of expressions of the call c.
#define MOTE_ROW(key, ...) \
  TestedOp { key, [](const Call& c) -> Outputs { return {__VA_ARGS__}; } }

std::span<const TestedOp> shape_rows();      // creation, movement, indexing
std::span<const TestedOp> elementwise_rows();
std::span<const TestedOp> reduction_rows();  // reductions, scans, sorts, products
std::span<const TestedOp> network_rows();    // windows, norms, losses, dtypes, symbolic sizes
std::span<const TestedOp> more_rows();       // of more_ops.gold.gz
std::span<const TestedOp> signal_rows();
std::span<const TestedOp> linalg_rows();

// Null if no table has it.
const TestedOp* find_op(std::string_view op);

}  // namespace mote::test
