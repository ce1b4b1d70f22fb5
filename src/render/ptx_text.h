// Text of a PTX kernel, and arithmetic on single registers: what render_ptx.cpp is made of.
//
// Registers have no types but widths. Integers of up to 32 bits are kept in 32, as their values
// are; bools are predicates; floats of 16 bits are computed in f32, which is exact but for the one
// rounding that the op has.
#pragma once
#include <map>
#include <utility>

#include "base/error.h"
#include "render/expand.h"

namespace mote {

inline bool is_narrow_float(DType d) { return d == DType::f16 || d == DType::bf16; }
inline bool is_wide(DType d) { return row(d).bytes == 8; }

char bank(DType d);           // p, h, r, d: a predicate, 16, 32, 64 bits
const char* bits(char bank);  // the type of such registers
inline const char* bits(DType d) { return bits(bank(d)); }
const char* kind(DType d);  // as the arithmetic sees what is in a register

class PtxText {
 public:
  PtxText(bool contracts, int architecture) : contracts_(contracts), architecture_(architecture) {}

 protected:
  std::string fresh(DType d) {
    const char letter = bank(d);
    return text("%", std::string(1, letter), counts_[letter]++);
  }
  template <class... A>
  void line(const A&... parts) {
    body_ += "  ";
    (append(body_, parts), ...);
    body_ += '\n';
  }
  // What is true in the whole kernel stands before its statements.
  template <class... A>
  void entry_line(const A&... parts) {
    entry_ += "  ";
    (append(entry_, parts), ...);
    entry_ += '\n';
  }
  void label(const std::string& name) { body_ += name + ":\n"; }
  template <class... A>
  Value define(DType d, std::string_view word, const A&... sources) {
    Value v{fresh(d), d, 1, {}};
    std::string operands;
    ((operands += ", ", append(operands, sources)), ...);
    line(word, " ", v.text, operands, ";");
    return v;
  }
  std::string moved(DType d, const std::string& from) {
    return define(d, text("mov.", bits(d)), from).text;
  }

  // One element each.
  std::string scalar_literal(const Scalar& s);
  std::string compute(Op op, DType dtype, std::span<const Value> src, bool exact);
  std::string cast(const Value& v, DType to);
  std::string truth(const Value& v);

  std::string entry_, body_;
  std::map<char, int> counts_;  // registers, by bank
  const bool contracts_;
  const int architecture_;

 private:
  std::string constant(DType d, const std::string& value);
  std::string compute_bool(Op op, std::span<const Value> src);
  std::string compute_in_f32(Op op, DType dtype, std::span<const Value> src);
  std::string extremum(Op op, DType d, std::span<const Value> src);
  std::string select(const std::string& c, const Value& a, const Value& b);
  std::string wrapped(const std::string& v, DType d);
  Value one_of(DType d, int n);
  std::string convert(const char* word, const Value& v, DType to);
  std::string cast_integer(const Value& v, DType to);
  std::string cast_float(const Value& v, DType to);
  std::string zero_half();
  Value to_odd_f32(const Value& v);
  std::string bitcast(const Value& v, DType to);

  std::map<std::pair<char, std::string>, std::string> constants_;
};

}  // namespace mote
