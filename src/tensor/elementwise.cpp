// Promotion, broadcasting and the elementwise ops that are one primitive or nearly so.
#include <algorithm>
#include <limits>

#include "tensor/checks.h"

namespace mote {

namespace {

DType promote_known(DType a, DType b) {
  if (a == DType::none || b == DType::none) return a == DType::none ? b : a;
  return promote(a, b);
}

// PyTorch: a lower kind of operand (rank 0 below shaped, number below tensor) counts only if its
// category is higher.
DType combine_kinds(DType higher, DType lower) {
  if (is_float(higher)) return higher;
  if (higher == DType::boolean || is_float(lower)) return promote_known(higher, lower);
  return higher != DType::none ? higher : lower;
}

DType natural_dtype(const Number& n) {
  if (n.above_int64()) return DType::u64;
  return n.kind == Number::Bool ? DType::boolean : n.kind == Number::Int ? DType::i64 : DType::f32;
}

// Without an Expand of a rank-0 node: rank-0 nodes fit every shape.
Ref without_expand(const Ref& r) {
  bool repeats = r->op == Op::Expand && r->src(0)->shape->rank() == 0;
  return repeats ? Ref(r->src(0)) : r;
}

Ref spread(const Ref& r, std::span<const Dim> dims) {
  Ref plain = without_expand(r);
  return plain->shape->rank() == 0 ? plain : expand_to(plain, dims);
}

Ref operand_node(const Operand& o, DType dtype) {
  return o.tensor ? prim::cast(node_of(*o.tensor), dtype) : constant(dtype, o.number);
}

uint8_t operand_device(std::initializer_list<Operand> operands) {
  const Tensor* first = nullptr;
  for (const Operand& o : operands) {
    if (!o.tensor) continue;
    expect_defined(*o.tensor, "an operand");
    if (first) common_device({first, o.tensor});
    if (!first) first = o.tensor;
  }
  return first ? first->impl()->device : device_from("");
}

std::vector<Dim> operand_dims(std::initializer_list<Operand> operands) {
  std::vector<Dim> dims;
  for (const Operand& o : operands)
    if (o.tensor) dims = broadcast_dims(dims, dims_of(*o.tensor));
  return dims;
}

bool fits(const Number& n, DType d) {
  if (!is_int(d) || n.kind == Number::Float) return true;
  if (d == DType::u64) return n.i >= 0 || n.above_int64();
  return !n.above_int64() && n.i >= row(d).lo && n.i <= row(d).hi;
}

Tensor binary(Op op, const Operand& a, const Operand& b) {
  Operand both[] = {a, b};
  return elementwise(op, {a, b}, result_dtype(both));
}

// Exact also for a number that the tensor's dtype cannot hold: it lies above or below all values.
Tensor compare(Op op, const Operand& a, const Operand& b) {
  const Operand &number = a.tensor ? b : a, &other = a.tensor ? a : b;
  Operand both[] = {a, b};
  if (!other.tensor || number.tensor || fits(number.number, result_dtype(both)))
    return binary(op, a, b);
  bool above = number.number.f > 0, right = !b.tensor;
  int64_t truth = op == Op::Lt && above == right;
  return make_value(prim::full(dims_of(*other.tensor), prim::constant(DType::boolean, truth)),
                    *other.tensor);
}

// b * alpha as a tensor, on the device of the one that is a tensor.
Tensor times(const Operand& b, const Number& alpha, const Operand& a, DType d) {
  expect(a.tensor || b.tensor, "needs a tensor");
  Tensor t = to_tensor(b, b.tensor ? *b.tensor : *a.tensor, d);
  return alpha.f == 1 ? t : elementwise(Op::Mul, {t, alpha}, d);
}

Tensor integer_binary(Op op, const Operand& a, const Operand& b, bool bools) {
  Operand both[] = {a, b};
  DType d = result_dtype(both);
  expect(is_int(d) || (bools && d == DType::boolean), "needs integers", bools ? " or bools" : "",
         ", got ", d);
  return elementwise(op, {a, b}, d);
}

Tensor logical(Op op, const Operand& a, const Operand& b) {
  return elementwise(op, {a, b}, DType::boolean);
}

}  // namespace

DType float_dtype(DType d) { return is_float(d) ? d : DType::f32; }

DType result_dtype(std::span<const Operand> operands) {
  DType shaped = DType::none, scalar = DType::none, number = DType::none;
  for (const Operand& o : operands) {
    if (!o.tensor)
      number = promote_known(number, natural_dtype(o.number));
    else if (o.tensor->dim() > 0)
      shaped = promote_known(shaped, o.tensor->dtype());
    else
      scalar = promote_known(scalar, o.tensor->dtype());
  }
  return combine_kinds(shaped, combine_kinds(scalar, number));
}

DType result_type(Operand a, Operand b) {
  Operand both[] = {a, b};
  return result_dtype(both);
}

std::vector<Dim> broadcast_dims(std::span<const Dim> a, std::span<const Dim> b) {
  std::vector<Dim> out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    Dim y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    expect(x == y || x == Dim(1) || y == Dim(1), "shapes ", a, " and ", b,
           " cannot be broadcast together: sizes ", x, " and ", y, " differ");
    out[out.size() - 1 - i] = x == Dim(1) ? y : x;
  }
  return out;
}

bool can_expand(std::span<const Dim> from, std::span<const Dim> to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 1; i <= from.size(); ++i) {
    const Dim& f = from[from.size() - i];
    if (f != Dim(1) && f != to[to.size() - i]) return false;
  }
  return true;
}

Ref expand_to(const Ref& r, std::span<const Dim> dims) {
  if (r->shape->rank() == 0) return prim::expand(r, dims);
  std::vector<Dim> ones(dims.size() - r->shape->dims.size(), Dim(1));
  ones.insert(ones.end(), r->shape->dims.begin(), r->shape->dims.end());
  return prim::expand(prim::reshape(r, ones), dims);
}

uint8_t common_device(std::initializer_list<const Tensor*> tensors) {
  uint8_t device = kNoDevice;
  for (const Tensor* t : tensors) {
    if (!t || !t->defined()) continue;
    uint8_t own = t->impl()->device;
    expect(device == kNoDevice || device == own, "tensors are on the devices ", device_name(device),
           " and ", device_name(own), "; move one with to()");
    device = own;
  }
  return device;
}

Ref constant(DType dtype, const Number& n) {
  bool whole = n.kind != Number::Float;
  if (dtype == DType::boolean)
    return prim::constant(dtype, static_cast<int64_t>(whole ? n.i != 0 : n.f != 0));
  if (is_float(dtype) || !whole) return prim::constant(dtype, real(n));
  return prim::constant(dtype, n.i);
}

double real(const Number& n) {
  if (n.kind == Number::Float) return n.f;
  return n.above_int64() ? static_cast<double>(static_cast<uint64_t>(n.i))
                         : static_cast<double>(n.i);
}

Tensor to_tensor(const Operand& o, const Tensor& like, DType dtype) {
  if (!o.tensor) {
    return make_value(constant(dtype == DType::none ? natural_dtype(o.number) : dtype, o.number),
                      like);
  }
  expect_defined(*o.tensor, "an operand");
  if (dtype == DType::none || dtype == o.tensor->dtype()) return unchanged(*o.tensor);
  return make_value(prim::cast(node_of(*o.tensor), dtype), *o.tensor);
}

Tensor elementwise(Op op, std::initializer_list<Operand> operands, DType dtype) {
  uint8_t device = operand_device(operands);
  std::vector<Dim> dims = operand_dims(operands);
  std::vector<Ref> src;
  for (const Operand& o : operands) src.push_back(spread(operand_node(o, dtype), dims));
  Ref r = tensor_graph::make(op, has(op, Compares) ? DType::boolean : dtype, src);
  return make_value(prim::expand(r, dims), device);
}

Tensor where_tensor(const Tensor& c, const Tensor& a, const Tensor& b) {
  uint8_t device = common_device({&c, &a, &b});
  std::vector<Dim> dims = operand_dims({c, a, b});
  Ref r = prim::where(spread(node_of(c), dims), spread(node_of(a), dims), spread(node_of(b), dims));
  return make_value(prim::expand(r, dims), device);
}

Tensor where(const Tensor& condition, Operand a, Operand b, Loc where) {
  Call call("where", where);
  expect_defined(condition, "the condition");
  expect(condition.dtype() == DType::boolean, "the condition must be bool, got ",
         condition.dtype());
  Operand both[] = {a, b};
  DType d = result_dtype(both);
  return where_tensor(condition, to_tensor(a, condition, d), to_tensor(b, condition, d));
}

Tensor Tensor::where(const Tensor& condition, Operand other, Loc where) const {
  return mote::where(condition, *this, other, where);
}

// clang-format off
#define MOTE_RESULT(name, result) \
  Tensor name(Operand a, Operand b, Loc w) { Call call(#name, w); return result; }
MOTE_RESULT(mul, binary(Op::Mul, a, b))
MOTE_RESULT(maximum, binary(Op::Max, a, b))
MOTE_RESULT(minimum, binary(Op::Min, a, b))
MOTE_RESULT(eq, compare(Op::Eq, a, b))
MOTE_RESULT(ne, compare(Op::Eq, a, b).logical_not())
MOTE_RESULT(lt, compare(Op::Lt, a, b))
MOTE_RESULT(gt, compare(Op::Lt, b, a))
MOTE_RESULT(ge, le(b, a))
MOTE_RESULT(logical_and, logical(Op::And, a, b))
MOTE_RESULT(logical_or, logical(Op::Or, a, b))
MOTE_RESULT(logical_xor, logical(Op::Xor, a, b))
MOTE_RESULT(bitwise_and, integer_binary(Op::And, a, b, true))
MOTE_RESULT(bitwise_or, integer_binary(Op::Or, a, b, true))
MOTE_RESULT(bitwise_xor, integer_binary(Op::Xor, a, b, true))
MOTE_RESULT(bitwise_left_shift, integer_binary(Op::Shl, a, b, false))
MOTE_RESULT(bitwise_right_shift, integer_binary(Op::Shr, a, b, false))
MOTE_RESULT(true_divide, div(a, b))
#undef MOTE_RESULT
// clang-format on

// NaN is neither below nor equal, so "not above" would be wrong for floats.
Tensor le(Operand a, Operand b, Loc w) {
  Call call("le", w);
  Operand both[] = {a, b};
  if (!is_float(result_dtype(both))) return lt(b, a).logical_not();
  return logical(Op::Or, lt(a, b), eq(a, b));
}

Tensor add(Operand a, Operand b, Number alpha, Loc w) {
  Call call("add", w);
  if (alpha.f == 1) return binary(Op::Add, a, b);
  Operand both[] = {a, b};
  DType d = result_dtype(both);
  return elementwise(Op::Add, {a, times(b, alpha, a, d)}, d);
}

Tensor sub(Operand a, Operand b, Number alpha, Loc w) {
  Call call("sub", w);
  Operand both[] = {a, b};
  DType d = result_dtype(both);
  expect(d != DType::boolean, "bools cannot be subtracted; use bitwise_xor or logical_not");
  return elementwise(Op::Add, {a, elementwise(Op::Neg, {times(b, alpha, a, d)}, d)}, d);
}

Tensor div(Operand a, Operand b, const char* rounding_mode, Loc w) {
  Call call("div", w);
  Operand both[] = {a, b};
  DType d = result_dtype(both);
  if (!rounding_mode) return elementwise(Op::Div, {a, b}, float_dtype(d));
  std::string mode = rounding_mode;
  expect(mode == "floor" || mode == "trunc", "the rounding mode is floor or trunc, got ", mode);
  if (mode == "floor") return floor_divide(a, b);
  if (is_float(d)) return elementwise(Op::Div, {a, b}, d).trunc(w);
  Tensor kept;
  return elementwise(Op::IDiv, {a, checked_divisor(b, kept)}, d);
}

// Members and operators.
#define MOTE_MEMBER(name) \
  Tensor Tensor::name(Operand other, Loc w) const { return mote::name(*this, other, w); }
MOTE_BINARY(MOTE_MEMBER)
MOTE_MEMBER(mul)
#undef MOTE_MEMBER
Tensor Tensor::add(Operand other, Number alpha, Loc w) const {
  return mote::add(*this, other, alpha, w);
}
Tensor Tensor::sub(Operand other, Number alpha, Loc w) const {
  return mote::sub(*this, other, alpha, w);
}
Tensor Tensor::div(Operand other, const char* rounding_mode, Loc w) const {
  return mote::div(*this, other, rounding_mode, w);
}

Tensor operator+(Operand a, Operand b) { return add(a, b, 1, a.where); }
Tensor operator-(Operand a, Operand b) { return sub(a, b, 1, a.where); }
Tensor operator*(Operand a, Operand b) { return mul(a, b, a.where); }
Tensor operator/(Operand a, Operand b) { return div(a, b, nullptr, a.where); }
Tensor operator%(Operand a, Operand b) { return remainder(a, b, a.where); }
Tensor operator==(Operand a, Operand b) { return eq(a, b, a.where); }
Tensor operator!=(Operand a, Operand b) { return ne(a, b, a.where); }
Tensor operator<(Operand a, Operand b) { return lt(a, b, a.where); }
Tensor operator<=(Operand a, Operand b) { return le(a, b, a.where); }
Tensor operator>(Operand a, Operand b) { return gt(a, b, a.where); }
Tensor operator>=(Operand a, Operand b) { return ge(a, b, a.where); }
Tensor operator&(Operand a, Operand b) { return bitwise_and(a, b, a.where); }
Tensor operator|(Operand a, Operand b) { return bitwise_or(a, b, a.where); }
Tensor operator^(Operand a, Operand b) { return bitwise_xor(a, b, a.where); }
Tensor operator<<(Operand a, Operand b) { return bitwise_left_shift(a, b, a.where); }
Tensor operator>>(Operand a, Operand b) { return bitwise_right_shift(a, b, a.where); }
Tensor operator-(Operand a) { return a.tensor->neg(a.where); }
Tensor operator!(Operand a) { return a.tensor->logical_not(a.where); }
Tensor operator~(Operand a) { return a.tensor->bitwise_not(a.where); }

}  // namespace mote
