// Elementwise functions of one, two and three tensors.
#include "ops_table.h"

namespace mote::test {

namespace {

// Two tensors, or one and the number `other` (on the left if `reverse`).
template <class F>
Outputs binary(const Call& c, F f) {
  if (!c.has("other")) return {f(c.x(0), c.x(1))};
  Number other = c.number("other");
  return {c.flag("reverse") ? f(other, c.x()) : f(c.x(), other)};
}

Number alpha(const Call& c) { return c.has("alpha") ? c.number("alpha") : Number(1); }

Outputs run_add(const Call& c) {
  return binary(c, [&](Operand a, Operand b) { return add(a, b, alpha(c)); });
}

Outputs run_sub(const Call& c) {
  return binary(c, [&](Operand a, Operand b) { return sub(a, b, alpha(c)); });
}

Outputs run_div(const Call& c) {
  const char* mode = c.text("rounding_mode", nullptr);
  return binary(c, [&](Operand a, Operand b) { return div(a, b, mode); });
}

Outputs run_clamp(const Call& c) {
  Tensor lo = c.role("lo"), hi = c.role("hi");
  if (lo.defined() && hi.defined()) return {c.x().clamp(lo, hi)};
  if (hi.defined()) return {c.x().clamp_max(hi)};
  if (!c.has("max")) return {c.x().clamp_min(c.number("min"))};
  if (!c.has("min")) return {c.x().clamp_max(c.number("max"))};
  return {c.x().clamp(c.number("min"), c.number("max"))};
}

Outputs run_lerp(const Call& c) {
  Tensor t = c.role("t");
  return {t.defined() ? c.x(0).lerp(c.x(1), t) : c.x(0).lerp(c.x(1), c.number("weight"))};
}

Outputs run_round(const Call& c) {
  if (!c.has("decimals")) return {c.x().round()};
  return {c.x().round(static_cast<int>(c.integer("decimals")))};
}

Number value(const Call& c) { return c.has("value") ? c.number("value") : Number(1); }

#define UNARY(name) MOTE_ROW(#name, c.x().name())
#define BINARY(name) {#name, [](const Call& c) { \
    return binary(c, [](Operand a, Operand b) { return name(a, b); }); }}
#define BINARY_AS(key, name) {key, [](const Call& c) { \
    return binary(c, [](Operand a, Operand b) { return name(a, b); }); }}

const TestedOp rows[] = {
    UNARY(neg), UNARY(positive), UNARY(abs), UNARY(sign), UNARY(sgn), UNARY(signbit),
    UNARY(square), UNARY(sqrt), UNARY(rsqrt), UNARY(reciprocal), UNARY(exp), UNARY(exp2),
    UNARY(expm1), UNARY(log), UNARY(log2), UNARY(log10), UNARY(log1p), UNARY(sin), UNARY(cos),
    UNARY(tan), UNARY(asin), UNARY(acos), UNARY(atan), UNARY(sinh), UNARY(cosh), UNARY(tanh),
    UNARY(asinh), UNARY(acosh), UNARY(atanh), UNARY(erf), UNARY(erfc), UNARY(sinc), UNARY(floor),
    UNARY(ceil), UNARY(trunc), UNARY(frac), UNARY(isnan), UNARY(isinf), UNARY(isfinite),
    UNARY(isposinf), UNARY(isneginf), UNARY(logical_not), UNARY(bitwise_not), UNARY(deg2rad),
    UNARY(rad2deg), UNARY(sigmoid), UNARY(logsigmoid), UNARY(relu), UNARY(relu6), UNARY(silu),
    UNARY(mish), UNARY(selu), UNARY(hardswish), UNARY(hardsigmoid), UNARY(softsign),
    UNARY(tanhshrink),
    {"round", run_round},
    MOTE_ROW("nan_to_num", c.x().nan_to_num(c.real("nan", 0))),
    MOTE_ROW("logit", c.x().logit(c.real("eps", -1))),
    // Two operands.
    {"add", run_add},
    {"sub", run_sub},
    {"div", run_div},
    BINARY(mul), BINARY(true_divide), BINARY(floor_divide), BINARY(remainder), BINARY(fmod),
    BINARY(pow), BINARY(maximum), BINARY(minimum), BINARY(fmax), BINARY(fmin), BINARY(atan2),
    BINARY(hypot), BINARY(copysign), BINARY(logaddexp), BINARY(logaddexp2), BINARY(xlogy),
    BINARY(heaviside), BINARY(eq), BINARY(ne), BINARY(lt), BINARY(le), BINARY(gt), BINARY(ge),
    BINARY(logical_and), BINARY(logical_or), BINARY(logical_xor), BINARY(bitwise_and),
    BINARY(bitwise_or), BINARY(bitwise_xor), BINARY(gcd), BINARY(lcm),
    BINARY_AS("lshift", bitwise_left_shift), BINARY_AS("rshift", bitwise_right_shift),
    MOTE_ROW("isclose", c.x(0).isclose(c.x(1), c.real("rtol", 1e-5), c.real("atol", 1e-8),
                                       c.flag("equal_nan"))),
    // More operands.
    {"clamp", run_clamp},
    MOTE_ROW("clamp_min", c.x().clamp_min(c.number("bound"))),
    MOTE_ROW("clamp_max", c.x().clamp_max(c.number("bound"))),
    {"lerp", run_lerp},
    MOTE_ROW("addcmul", c.x(0).addcmul(c.x(1), c.x(2), value(c))),
    MOTE_ROW("addcdiv", c.x(0).addcdiv(c.x(1), c.x(2), value(c))),
    // Activations.
    MOTE_ROW("gelu", c.x().gelu(c.text("approximate", "none"))),
    MOTE_ROW("elu", c.x().elu(c.real("alpha", 1))),
    MOTE_ROW("celu", c.x().celu(c.real("alpha", 1))),
    MOTE_ROW("leaky_relu", c.x().leaky_relu(c.real("negative_slope", 0.01))),
    MOTE_ROW("prelu", c.x().prelu(c.role("weight"))),
    MOTE_ROW("hardtanh", c.x().hardtanh(c.real("min_val", -1), c.real("max_val", 1))),
    MOTE_ROW("hardshrink", c.x().hardshrink(c.real("lambd", 0.5))),
    MOTE_ROW("softshrink", c.x().softshrink(c.real("lambd", 0.5))),
    MOTE_ROW("threshold", c.x().threshold(c.real("threshold"), c.real("value"))),
    MOTE_ROW("softplus", c.x().softplus(c.real("beta", 1), c.real("threshold", 20))),
    MOTE_ROW("glu", c.x().glu(c.integer("dim", -1))),
    MOTE_ROW("softmax", c.x().softmax(c.integer("dim"))),
    MOTE_ROW("log_softmax", c.x().log_softmax(c.integer("dim"))),
    MOTE_ROW("softmin", c.x().softmin(c.integer("dim"))),
};

}  // namespace

std::span<const TestedOp> elementwise_rows() { return rows; }

}  // namespace mote::test
