#include "tensor/checks.h"

#include <algorithm>

namespace mote {

Seen (*look_at_values)(UOp, uint8_t, const Condition&) = nullptr;

namespace {

// CHECK from which it is looked at.
int64_t level(Must must) { return must < Must::NotZero ? 1 : 2; }

// By the interval alone.
bool cannot_fail(UOp values, const Condition& c) {
  if (values->dtype == DType::u64 || c.must == Must::Count) return false;
  if (c.must == Must::NotZero) return values->lo > 0 || values->hi < 0;
  Allowed a = allowed(c.must, values->dtype, least(c.n));
  return a(values->lo) && a(values->hi);
}

// A literal everywhere.
bool is_one_number(UOp values) {
  while (has(values->op, Movement) && !values->is(Op::Pad)) values = values->src(0);
  return values->is(Op::Const);
}

// The same integers, some perhaps more or less often.
UOp without_arrangement(UOp n) {
  while (OpSet{Op::Reshape, Op::Expand, Op::Permute, Op::Flip}.has(n->op)) n = n->src(0);
  return n;
}

// Does `at` (index dtype) break the condition?
Ref outside(UOp check, const Ref& at) {
  Ref n = Ref(check->src(2)), one = prim::constant(DType::index, int64_t{1});
  Ref zero = prim::constant(DType::index, int64_t{0});
  auto below = [](const Ref& a, const Ref& b) { return prim::alu(Op::Lt, {a, b}); };
  auto either = [](const Ref& a, const Ref& b) { return prim::alu(Op::Or, {a, b}); };
  switch (must_of(check)) {
    case Must::Index: {
      Ref first = is_signed(check->src(1)->dtype) ? prim::neg(n) : zero;
      return either(below(at, first), prim::logical_not(below(at, n)));
    }
    case Must::Count: return either(below(at, n), below(n, at));
    case Must::NotZero: return prim::alu(Op::Eq, {at, zero});
    case Must::Weights: return prim::logical_not(below(at, one));
    case Must::Choices: return below(at, n);
    case Must::Length: return either(below(at, zero), below(n, at));
    default: return either(below(at, zero), prim::logical_not(below(at, n)));
  }
}

}  // namespace

Allowed allowed(Must must, DType dtype, int64_t n) {
  switch (must) {
    case Must::Index: return {is_signed(dtype) ? -n : 0, n - 1};
    case Must::Row:
    case Must::Class: return {0, n - 1};
    case Must::Length: return {0, n};
    case Must::Count: return {n, n};
    case Must::NotZero: return {0, 0, true};
    case Must::Weights: return {0, 0};
    case Must::Choices: break;
  }
  return {n, INT64_MAX};
}

std::string violation(Must must, DType dtype, int64_t n, int64_t v) {
  const std::string value =
      dtype == DType::u64 ? std::to_string(static_cast<uint64_t>(v)) : std::to_string(v);
  switch (must) {
    case Must::Index: return text("index ", value, " is out of range for an axis of size ", n);
    case Must::Row: return text("index ", value, " is out of range for a table of ", n, " rows");
    case Must::Class: return text("class ", value, " is out of range for ", n, " classes");
    case Must::Length: return text("length ", value, " is more than there is, or less than 0: ", n);
    case Must::Count:
      return text("the mask has ", value, " true elements, there are ", n, " values");
    case Must::NotZero: return "division by zero";
    case Must::Weights: return "a weight is negative or not finite";
    case Must::Choices: break;
  }
  return text("needs ", n, " classes with weights above 0, there are ", value);
}

bool is_settled(const Tensor& given, const Condition& c) {
  if (flag(Flag::CHECK) < level(c.must) || given.dtype() == DType::index) return true;
  if (given.numel() == 0 && c.must != Must::Count) return true;
  Ref values = node_of(given);
  if (cannot_fail(values, c)) return true;
  std::optional<int64_t> n = value_of(c.n);
  if (n && is_one_number(values) && c.must != Must::Count) {
    const int64_t v = values->lo;
    expect(v == c.except || allowed(c.must, given.dtype(), *n)(v),
           violation(c.must, given.dtype(), *n, v));
    if (!c.n.is_symbolic()) return true;
  }
  return !look_at_values || look_at_values(values, given.impl()->device, c) != Seen::Later;
}

Tensor with_check(const Tensor& value, const Tensor& seen, const Condition& c) {
  Ref looked_at = node_of(seen);
  if (c.must != Must::Count) looked_at = Ref(without_arrangement(looked_at));
  Ref check =
      tensor_graph::make(Op::Check, value.dtype(), {node_of(value), looked_at, index_node(c.n)},
                         Arg::of(static_cast<int64_t>(c.must)));
  return make_value(check, value);
}

Tensor checked(const Tensor& t, const Condition& c) {
  return is_settled(t, c) ? t : with_check(t, t, c);
}

Operand checked_divisor(const Operand& divisor, Tensor& kept) {
  const Condition not_zero = {Must::NotZero, 0};
  if (divisor.tensor) return {kept = checked(*divisor.tensor, not_zero), divisor.where};
  expect(flag(Flag::CHECK) < level(not_zero.must) || divisor.number.i != 0,
         violation(not_zero.must, DType::i64, 0, 0));
  return divisor;
}

// The least i64 stands for none: as a violation it is said to be the one above it.
Ref largest_violation(UOp check) {
  Ref seen = Ref(check->src(1)), v = prim::cast(seen, DType::i64);
  Ref none = prim::constant(DType::i64, kNoViolation);
  Ref above = prim::alu(Op::Max, {v, prim::constant(DType::i64, kNoViolation + 1)});
  Ref bad = prim::where(outside(check, prim::cast(seen, DType::index)), above, none);
  return prim::reduce(Op::Max, bad, range_of(bad->shape->rank()));
}

}  // namespace mote
