#include "ir/build.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "ir/eval.h"

namespace mote {

UOp make(Op op, DType dtype, std::span<const UOp> src, Arg arg) {
  static_assert(sizeof(UOp) == sizeof(Node*));
  return arena().make(op, dtype, {reinterpret_cast<Node* const*>(src.data()), src.size()}, arg);
}
UOp make(Op op, DType dtype, std::initializer_list<UOp> src, Arg arg) {
  return make(op, dtype, std::span<const UOp>(src.begin(), src.size()), arg);
}

UOp constant(DType dtype, int64_t v) {
  if (is_float(dtype)) return constant(dtype, static_cast<double>(v));
  return make(Op::Const, dtype, {}, Arg::of(wrap_to(dtype, v)));
}
UOp constant(DType dtype, double v) {
  return make(Op::Const, dtype, {}, arg_of(scalar(dtype, v)));
}
UOp zero_like(UOp u) { return constant(u->dtype, 0); }
UOp invalid() { return make(Op::Invalid, DType::index, {}); }

UOp range(int slot, UOp extent, Role role) {
  int64_t ints[] = {slot, static_cast<int64_t>(role)};
  return make(Op::Range, DType::index, {extent}, Arg::of(intern_arg(ints)));
}
int take_slot(uint64_t& used) {
  const int slot = std::countr_one(used);
  ensure(slot < kSlots, "a kernel with more than ", kSlots, " loops");
  used |= uint64_t{1} << slot;
  return slot;
}
UOp param(int slot, DType dtype, int64_t size, Space space, uint8_t device) {
  int64_t ints[] = {slot, size, static_cast<int64_t>(space), device};
  return make(Op::Param, dtype, {}, Arg::of(intern_arg(ints)));
}
UOp reduce_over(Op op, UOp value, std::span<const UOp> ranges) {
  std::vector<UOp> src{value};
  src.insert(src.end(), ranges.begin(), ranges.end());
  int64_t ints[] = {static_cast<int64_t>(op)};
  return make(Op::Reduce, value->dtype, src, Arg::of(intern_arg(ints)));
}

UOp fold_identity(Op op, DType d) { return make(Op::Const, d, {}, arg_of(identity_of(op, d))); }

UOp unary(Op op, UOp a) { return make(op, a->dtype, {a}); }
UOp binary(Op op, UOp a, UOp b) {
  ensure(a->dtype == b->dtype, name(op), " of ", a->dtype, " and ", b->dtype);
  return make(op, has(op, Compares) ? DType::boolean : a->dtype, {a, b});
}
UOp mul_add(UOp a, UOp b, UOp c) { return make(Op::MulAdd, a->dtype, {a, b, c}); }
UOp where(UOp c, UOp a, UOp b) {
  ensure(a->dtype == b->dtype, "Where of ", a->dtype, " and ", b->dtype);
  return make(Op::Where, a->dtype, {c, a, b});
}
UOp where_rarely(UOp c, UOp a, UOp b) {
  return make(Op::Where, a->dtype, {c, a, b}, Arg::of(int64_t{1}));
}
UOp cast(UOp a, DType dtype) { return make(Op::Cast, dtype, {a}); }
UOp lt(UOp a, UOp b) { return binary(Op::Lt, a, b); }
UOp eq(UOp a, UOp b) { return binary(Op::Eq, a, b); }
UOp ne(UOp a, UOp b) { return logical_not(eq(a, b)); }
UOp ge(UOp a, UOp b) { return logical_not(lt(a, b)); }
UOp logical_not(UOp a) {
  if (a->is(Op::Xor) && a->src(1)->is_const(1)) return a->src(0);
  return binary(Op::Xor, a, truth(true));
}

UOp operator-(UOp a) {
  return a->dtype == DType::index ? a * -1 : unary(Op::Neg, a);
}
UOp operator-(UOp a, UOp b) { return a + -b; }
UOp operator/(UOp a, UOp b) {
  Op op = is_float(a->dtype) ? Op::Div : a->dtype == DType::index ? Op::FloorDiv : Op::IDiv;
  return binary(op, a, b);
}
UOp operator%(UOp a, UOp b) {
  return binary(a->dtype == DType::index ? Op::FloorMod : Op::IMod, a, b);
}

UOp with_src(UOp n, std::span<Node* const> src) {
  return arena().make(n->op, n->dtype, src, n->arg);
}

std::vector<UOp> open_ranges(UOp u) {
  std::vector<UOp> found;
  UOp roots[] = {u};
  for (UOp n : toposort(roots, [](UOp x) { return x->ranges != 0; }))
    if (n->is(Op::Range) && range_slot(n) < 64 && (u->ranges >> range_slot(n) & 1))
      found.push_back(n);
  std::ranges::sort(found, {}, [](UOp r) { return range_slot(r); });
  return found;
}

UOp extent(const Dim& d) { return d.symbol ? d.symbol : index(d.size); }

}  // namespace mote
