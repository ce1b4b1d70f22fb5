// Truths about arithmetic: what makes views, masks and one-hots disappear.
//
// Index arithmetic is exact (no overflow, floor division); other integers wrap; floats keep every
// bit (NaN, signed zero, infinities) except for what `reassociations` below lists. All functions
// work in the current arena, on the calling thread, without recursion in the graph's depth.
//
// Normal forms that hold after simplify():
//   sums of indices   t0*c0 + t1*c1 + ... + c, no term twice, multiplied out
//   comparisons       sum < c or sum == c with the constant right, coefficients without a common
//                     divisor and the first one positive; x >= c is !(x < c)
//   div, mod          by c > 0 of a sum whose terms c does not divide; nested ones merged
//   gates             where(valid, idx, Invalid) outermost, idx simplified knowing valid
#pragma once
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ir/build.h"
#include "rewrite/rewrite.h"

namespace mote {

// A range's extent is part of what it is: make ranges of extents that are already simplified.
UOp simplify(UOp u);

// ---- Sums

// c + the sum of coeff * node over distinct nodes, in a fixed order. Not ok: too many terms, or a
// coefficient does not fit.
struct Linear {
  static constexpr int kTerms = 24;
  struct Term {
    UOp node;
    int64_t coeff;
  };
  std::array<Term, kTerms> terms;
  int count = 0;
  int64_t constant = 0;
  bool ok = true;

  std::span<const Term> all() const { return {terms.data(), static_cast<size_t>(count)}; }
  void add(UOp node, int64_t coeff);
  void add(int64_t c);
  void add(const Linear& other, int64_t scale = 1);
  int64_t coeff_of(UOp node) const;  // 0 when absent
};
Linear linear(UOp index);  // of index dtype
UOp build(const Linear& sum);

struct Interval {
  int64_t lo, hi;  // INT64_MIN, INT64_MAX: unbounded
};
Interval bounds(const Linear& sum);
// u's interval where `valid` (a bool) holds.
Interval bounds_given(UOp u, UOp valid);

// Whether d > 0 divides every value of the index u.
bool divides(int64_t d, UOp u);
// u(r + 1) - u(r) when that is one constant for all r; u an index (its gate is ignored).
std::optional<int64_t> stride_of(UOp u, UOp range);

// ---- Gates

// A position and where it exists: where(valid, idx, Invalid), valid = true when there is no gate.
struct Gated {
  UOp valid, idx;
};
Gated split_gate(UOp position);
UOp gated(UOp valid, UOp idx);          // the inverse; idx itself when valid is true
std::vector<UOp> conjuncts(UOp valid);  // of nested Ands
UOp simplify_given(UOp u, UOp valid);   // equal to u wherever valid holds

// ---- Reductions over ranges

// Closed forms of Reduce nodes below root, where there are any: sums of constants and masks, and
// sums over r of where(r == e, f(r), 0), which read f(e). Loads of f are gated by e's validity.
UOp collapse_reduces(UOp root);

// ---- The tables, for tests and documentation

extern const RuleSet simplify_rules;
extern const RuleSet collapse_rules;
struct Reassociation {
  const char* rule;
  const char* policy;
};
std::span<const Reassociation> reassociations();

}  // namespace mote
