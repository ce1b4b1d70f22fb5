// Elementwise arithmetic, comparisons, bits.
#include "onnx/ops.h"

namespace mote::onnx {

namespace {

// Before opset 7 the second operand was broadcast only if asked, and from an axis on.
std::pair<Tensor, Tensor> operands(Call& c) {
  const Tensor a = c.x(0);
  Tensor b = c.x(1);
  if (c.opset() >= 7 || !c.i("broadcast", 0) || !c.has("axis")) return {a, b};
  std::vector<int64_t> shape = b.shape();
  const int64_t axis = axis_of(c.i("axis", 0), a.dim());
  const int64_t behind = a.dim() - axis - b.dim();
  expect(behind >= 0, "the axis ", axis, " leaves no room for ", shape);
  shape.insert(shape.end(), static_cast<size_t>(behind), 1);
  return {a, b.reshape(shape)};
}

template <class F>
Outputs two(Call& c, F f) {
  const auto [a, b] = operands(c);
  return {f(a, b)};
}

Outputs add(Call& c) {
  return two(c, [](const Tensor& a, const Tensor& b) { return a + b; });
}
Outputs sub(Call& c) {
  return two(c, [](const Tensor& a, const Tensor& b) { return a - b; });
}
Outputs mul(Call& c) {
  return two(c, [](const Tensor& a, const Tensor& b) { return a * b; });
}
// Of integers rounded towards zero.
Outputs divide(Call& c) {
  return two(c, [](const Tensor& a, const Tensor& b) {
    return is_int(a.dtype()) ? a.div(b, "trunc") : a / b;
  });
}
Outputs power(Call& c) {
  return two(c, [](const Tensor& a, const Tensor& b) { return a.pow(b).cast(a.dtype()); });
}
Outputs modulo(Call& c) {
  const bool truncates = c.i("fmod", 0) != 0 || c.x(0).is_floating_point();
  return two(
      c, [&](const Tensor& a, const Tensor& b) { return truncates ? a.fmod(b) : a.remainder(b); });
}
template <auto Method>
Outputs compare(Call& c) {
  return two(c, [](const Tensor& a, const Tensor& b) { return (a.*Method)(b, Loc::current()); });
}

template <auto Method>
Outputs combine_truths(Call& c) {
  for (size_t i : {0, 1})
    expect(c.x(i).dtype() == DType::boolean, "operands are bools, not ", c.x(i).dtype());
  return compare<Method>(c);
}

Outputs equal(Call& c) {
  if (c.value(0).kind != Value::Strings) return compare<&Tensor::eq>(c);
  const Value &a = c.value(0), &b = c.value(1);
  const Broadcast both(a.shape, b.shape);
  std::vector<bool> same;
  for (size_t i = 0; i < both.a.size(); ++i)
    same.push_back(a.strings[both.a[i]] == b.strings[both.b[i]]);
  c.depends_on_data();
  return {from_data(same, both.shape, {.device = c.device()})};
}

template <class F>
Outputs fold(Call& c, F f) {
  expect(c.count() > 0, "there is no input");
  Tensor out = c.x(0);
  for (size_t i = 1; i < c.count(); ++i) out = f(out, c.x(i));
  return {out};
}
Outputs sum(Call& c) {
  return fold(c, [](const Tensor& a, const Tensor& b) { return a + b; });
}
Outputs mean(Call& c) { return {sum(c)[0].tensor / static_cast<double>(c.count())}; }
Outputs maximum(Call& c) {
  return fold(c, [](const Tensor& a, const Tensor& b) { return a.maximum(b); });
}
Outputs minimum(Call& c) {
  return fold(c, [](const Tensor& a, const Tensor& b) { return a.minimum(b); });
}

Outputs clip(Call& c) {
  Tensor x = c.x(0);
  const DType dtype = x.dtype();
  if (c.opset() < 11) {
    if (c.has("min")) x = x.maximum(c.f("min", 0));
    if (c.has("max")) x = x.minimum(c.f("max", 0));
    return {x.cast(dtype)};
  }
  if (c.has(1)) x = x.maximum(c.x(1).reshape({}));
  if (c.has(2)) x = x.minimum(c.x(2).reshape({}));
  return {x};
}

Outputs shift(Call& c) {
  const bool left = c.s("direction", "") == "LEFT";
  expect(left || c.s("direction", "") == "RIGHT", "direction must be LEFT or RIGHT");
  const Tensor a = c.x(0), b = c.x(1);
  // A shift by all bits or more gives 0.
  const Tensor out = left ? a.bitwise_left_shift(b) : a.bitwise_right_shift(b);
  return {out.masked_fill(b >= 8 * size_of(a.dtype()), 0)};
}

Outputs is_inf(Call& c) {
  const Tensor x = c.x(0);
  const bool positive = c.i("detect_positive", 1) != 0, negative = c.i("detect_negative", 1) != 0;
  if (positive && negative) return {x.isinf()};
  if (positive) return {x.isposinf()};
  return {negative ? x.isneginf() : x.isinf().logical_and(false)};
}

Outputs where(Call& c) {
  const Value& a = c.value(1);
  if (a.kind != Value::Strings) return {Value(mote::where(c.x(0), c.x(1), c.x(2)), a.type)};
  fail_call("strings are not supported");
}

Outputs bit_cast(Call& c) {
  const Element& to = element_of(static_cast<int>(c.i("to", 0)));
  const Element& from = element_of(c.type(0));
  expect(to.bits == from.bits, "BitCast from ", from.name, " to ", to.name, " changes the width");
  if (to.type == from.type) return {c.value(0)};
  if (to.is_small_int() && from.is_small_int()) {
    const int64_t all = int64_t{1} << to.bits;
    const Tensor low = c.x(0).to_int().bitwise_and(all - 1);
    const bool is_signed = to.held == DType::i8;
    return {Value((is_signed ? mote::where(low >= all / 2, low - all, low) : low).cast(to.held),
                  to.type)};
  }
  expect(!to.is_held() && !from.is_held(), "BitCast of ", from.name, " to ", to.name,
         " is not supported");
  const Tensor x = c.x(0);
  if (to.held == DType::boolean) return {x.bitcast(DType::u8).ne(0)};
  if (from.held == DType::boolean) return {x.cast(DType::u8).bitcast(to.held)};
  return {
      Value(x.dim() ? x.bitcast(to.held) : x.reshape({1}).bitcast(to.held).reshape({}), to.type)};
}

constexpr OpRow rows[] = {
    {"Add", 1, add, "", false, false, true},
    {"Sub", 1, sub, "", false, false, true},
    {"Mul", 1, mul, "", false, false, true},
    {"Div", 1, divide},
    {"Pow", 1, power},
    {"Mod", 10, modulo},
    {"Sum", 1, sum},
    {"Mean", 1, mean},
    {"Max", 1, maximum},
    {"Min", 1, minimum},
    {"Clip", 1, clip, "", false, false, true},
    {"And", 1, combine_truths<&Tensor::logical_and>},
    {"Or", 1, combine_truths<&Tensor::logical_or>},
    {"Xor", 1, combine_truths<&Tensor::logical_xor>},
    {"Not", 1, unary<&Tensor::logical_not>},
    {"Equal", 1, equal},
    {"Less", 1, compare<&Tensor::lt>},
    {"LessOrEqual", 12, compare<&Tensor::le>},
    {"Greater", 1, compare<&Tensor::gt>},
    {"GreaterOrEqual", 12, compare<&Tensor::ge>},
    {"BitwiseAnd", 18, compare<&Tensor::bitwise_and>},
    {"BitwiseOr", 18, compare<&Tensor::bitwise_or>},
    {"BitwiseXor", 18, compare<&Tensor::bitwise_xor>},
    {"BitwiseNot", 18, unary<&Tensor::bitwise_not>},
    {"BitShift", 11, shift},
    {"BitCast", 1, bit_cast},
    {"IsInf", 10, is_inf},
    {"IsNaN", 9, unary<&Tensor::isnan>},
    {"Where", 9, where},
    {"Abs", 1, unary<&Tensor::abs>},
    {"Neg", 1, unary<&Tensor::neg>},
    {"Sign", 9, unary<&Tensor::sign>},
    {"Ceil", 1, unary<&Tensor::ceil>},
    {"Floor", 1, unary<&Tensor::floor>},
    {"Round", 11, [](Call& c) -> Outputs {return {c.x(0).round()};}},
    {"Sqrt", 1, unary<&Tensor::sqrt>},
    {"Exp", 1, unary<&Tensor::exp>},
    {"Log", 1, unary<&Tensor::log>},
    {"Reciprocal", 1, unary<&Tensor::reciprocal>},
    {"Erf", 9, unary<&Tensor::erf>},
    {"Sin", 7, unary<&Tensor::sin>},
    {"Cos", 7, unary<&Tensor::cos>},
    {"Tan", 7, unary<&Tensor::tan>},
    {"Asin", 7, unary<&Tensor::asin>},
    {"Acos", 7, unary<&Tensor::acos>},
    {"Atan", 7, unary<&Tensor::atan>},
    {"Sinh", 9, unary<&Tensor::sinh>},
    {"Cosh", 9, unary<&Tensor::cosh>},
    {"Tanh", 1, unary<&Tensor::tanh>},
    {"Asinh", 9, unary<&Tensor::asinh>},
    {"Acosh", 9, unary<&Tensor::acosh>},
    {"Atanh", 9, unary<&Tensor::atanh>},
};

}  // namespace

OpTable math_ops() { return rows; }

}  // namespace mote::onnx
