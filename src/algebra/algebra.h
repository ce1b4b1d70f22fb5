// Truths about arithmetic: what makes views, masks and one-hots disappear.
//
// Index arithmetic is exact (no overflow, floor division); other integers wrap; floats keep every
// bit (NaN, signed zero, infinities) except for the freedoms of ir/freedoms.def. All functions
// work in the current arena, on the calling thread, without recursion in the graph's depth.
//
// Normal forms that hold after simplify():
//   sums of indices   t0*c0 + t1*c1 + ... + c, no term twice, multiplied out
//   comparisons       sum < c or sum == c with the constant right, coefficients without a common
//                     divisor and the first one positive; x >= c is !(x < c)
//   div, mod          by c > 0 of a sum whose terms c does not divide; nested ones merged
//   gates             where(valid, idx, Invalid) outermost, idx simplified knowing valid
#pragma once
#include <algorithm>
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
  int count = 0;
  int64_t constant = 0;
  bool ok = true;
  // Few sums have many terms: those beyond `count` are neither set nor copied.
  union {
    std::array<Term, kTerms> terms;
  };

  Linear() {}
  Linear(const Linear& o) { *this = o; }
  Linear& operator=(const Linear& o) {
    count = o.count, constant = o.constant, ok = o.ok;
    std::ranges::copy(o.all(), terms.begin());
    return *this;
  }
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
std::optional<int64_t> stride_of(const Linear& sum, UOp range);

// ---- Gates

// A position and where it exists: where(valid, idx, Invalid), valid = true when there is no gate.
struct Gated {
  UOp valid, idx;
};
Gated split_gate(UOp position);
UOp gated(UOp valid, UOp idx);          // the inverse; idx itself when valid is true
std::vector<UOp> conjuncts(UOp valid);  // of nested Ands
UOp simplify_given(UOp u, UOp valid);   // equal to u wherever valid holds

// A read that might leave its memory where the gate is false happens only where it is true.
UOp gated_read(UOp read, UOp gate);
// All of a value, without those that depend on a range of the slots `except`.
UOp gated_reads(UOp value, UOp gate, uint64_t except);

// ---- Reductions over ranges

// Closed forms of Reduce nodes below root, where there are any: sums of constants and masks, and
// sums over r of where(r == e, f(r), 0), which read f(e). Loads of f are gated by e's validity.
UOp collapse_reduces(UOp root);

// The only position of range r where a condition can hold, and where it does; r does not occur in
// either. No position: there may be several.
struct Selected {
  UOp at, valid;
};
Selected only_position(UOp condition, UOp r);
// value where r is `at`; memory that moves with r is read only where `valid`.
UOp select(UOp value, UOp r, UOp at, UOp valid);

// Where this is false, what a Reduce folds is the identity; empty: it has no gate.
UOp gate_of_fold(UOp reduce);
// The same fold without its gate: its range r is empty where the gate is false.
UOp fold_where_open(UOp reduce, UOp r);
// A sum over r of (w / s) * x as (the sum of w * x) / s, where w is a staged row of exponentials of
// which the largest is 1, and s its sum; empty: the sum is something else.
UOp divide_after_sum(UOp sum, UOp r);
// From where on, counted by its range k, a sum or maximum folds only what a mask hides; empty:
// nowhere that could be told.
UOp fold_ends_at(UOp reduce, UOp k);
// What no mask hides that begins at `end` along one of the ranges: they end there.
UOp without_masks(UOp root, std::span<const UOp> ranges, UOp end);

// ---- The tables, for tests and documentation

extern const RuleSet simplify_rules;
extern const RuleSet collapse_rules;

}  // namespace mote
