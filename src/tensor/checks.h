// Conditions on integers that a program computes with: indices, classes, divisors.
//
// Values that the host knows when a call is made are looked at in the call. For others a `Check`
// node stands in the value's place: it is that value, and whoever runs the graph looks at the
// integers that it names (engine/checks.h). Values whose interval shows that nothing can be wrong
// cost nothing. With CHECK=0 nothing is looked at.
#pragma once
#include "tensor/impl.h"

namespace mote {

// Of each integer v, and a number n. The order is that of Check's argument.
enum class Must : uint8_t {
  Index,    // -n <= v < n: a position, which may count from the end
  Row,      // 0 <= v < n: a row of a table
  Class,    // 0 <= v < n
  Length,   // 0 <= v <= n: a part of an axis
  Count,    // v == n: a mask's true elements, one for each of n values
  NotZero,  // a divisor; with CHECK=2, as what follows
  Weights,  // v == 0: no weight is bad
  Choices,  // v >= n: so many classes can be drawn
};
struct Condition {
  Must must;
  Dim n;
  std::optional<int64_t> except = {};  // a value that is always allowed
};

// Which integers of a dtype keep the condition; u64 as a bit pattern.
struct Allowed {
  int64_t lo, hi;
  bool outside = false;  // those that are not between them
  bool operator()(int64_t v) const { return (lo <= v && v <= hi) != outside; }
};
Allowed allowed(Must must, DType dtype, int64_t n);
// What to say of one that does not.
std::string violation(Must must, DType dtype, int64_t n, int64_t v);

// t, to be used in its place. A User error where it is known to break the condition.
Tensor checked(const Tensor& t, const Condition& c);

// A divisor of integers, to be used in its place, which is not 0. `kept` holds what is made for it.
Operand checked_divisor(const Operand& divisor, Tensor& kept);

// The two halves of `checked`, for values that are looked at otherwise than they are used.
// Whether there is nothing (more) to look at in `given`; a User error as above. `given` of a Count
// is the mask.
bool is_settled(const Tensor& given, const Condition& c);
// `value`, with integers `seen` to be looked at when it is computed.
Tensor with_check(const Tensor& value, const Tensor& seen, const Condition& c);

// One i64: the largest of the integers that a Check looks at and that break its condition, or this.
constexpr int64_t kNoViolation = INT64_MIN;
Ref largest_violation(UOp check);
inline Must must_of(UOp check) { return static_cast<Must>(check->arg.i); }

// Set by the engine.
enum class Seen {
  Good,   // all values were looked at
  Later,  // they are not known yet
  Never,  // they are on a device that holds no data
};
extern Seen (*look_at_values)(UOp values, uint8_t device, const Condition& c);

}  // namespace mote
