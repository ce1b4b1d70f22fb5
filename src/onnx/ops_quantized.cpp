// Quantised tensors: (q - zero point) * scale.
#include <algorithm>
#include <cmath>

#include "onnx/narrow.h"
#include "onnx/windows.h"

namespace mote::onnx {

namespace {

// A scale or a zero point as it is broadcast: one for all, one for each place of an axis, or one
// for each block of an axis.
Tensor spread(Call& c, const Tensor& p, const Tensor& x) {
  if (p.numel() == 1) return p.reshape({});
  const int64_t axis = axis_of(c.i("axis", 1), x.dim()), block = c.i("block_size", 0);
  if (block > 0) return p.repeat_interleave(block, axis).narrow(axis, 0, x.size(axis));
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[static_cast<size_t>(axis)] = p.numel();
  return p.reshape(shape);
}

struct Limits {
  double least, most;
};
Limits limits(const Element& e) {
  const double all = std::ldexp(1.0, e.bits);
  return is_signed(e.held) ? Limits{-all / 2, all / 2 - 1} : Limits{0, all - 1};
}

// Rounded to the nearest, ties to even, and cut to the type's range. Infinities are cut as well.
Tensor to_quantized(const Tensor& scaled, const Tensor& zero, const Element& to) {
  const Limits range = limits(to);
  Tensor q = scaled.cast(scaled.dtype() == DType::f64 ? DType::f64 : DType::f32).round();
  if (zero.defined()) q = q + zero.cast(q.dtype());
  return q.clamp(range.least, range.most).cast(to.held);
}

Outputs quantize(Call& c) {
  Tensor x = c.wide(0), scale = spread(c, c.x(1), x);
  const int wanted = static_cast<int>(c.i("output_dtype", 0));
  const Element& to = element_of(c.has(2) ? c.type(2) : wanted ? wanted : int{kUint8});
  if (const auto precision = static_cast<int>(c.i("precision", 0))) {
    x = x.cast(element_of(precision).held);
    scale = scale.cast(x.dtype());
  }
  if (is_int(x.dtype())) x = x.cast(DType::f32);
  const Tensor zero = c.has(2) ? spread(c, c.x(2), x) : Tensor();
  // Wide values have digits to spare, and products are cheaper.
  const bool is_wide = x.dtype() == DType::f64;
  const Tensor scaled = is_wide ? x * scale.cast(DType::f64).reciprocal() : x / scale;
  if (!to.is_narrow_float()) return {Value(to_quantized(scaled, zero, to), to.type)};
  return {Value(to_element(scaled, to, c.i("saturate", 1) != 0), to.type)};
}

// The whole numbers as factors of narrow products: with no zero point where they are constants, for
// sums of the other factor would be due otherwise.
void set_narrow(Call& c, const Tensor& q, Exact& out) {
  if (c.has(2) && c.value(2).level == 0) return;
  const std::vector<int64_t> zeros = c.has(2) ? c.ints(2) : std::vector<int64_t>{0};
  const bool none = std::ranges::all_of(zeros, [](int64_t z) { return z == 0; });
  if (none) {
    out.narrow = Value(q);
  } else if (c.value(0).level == 0) {
    if (zeros.size() == 1) out.narrow = Value(q), out.zero = zeros[0];
  } else {
    const bool fits = std::ranges::all_of(zeros, [](int64_t z) { return z == 128; });
    const Tensor centred = q.cast(DType::i16) - spread(c, c.x(2), q).cast(DType::i16);
    out.narrow = Value(fits && q.dtype() == DType::u8 ? centred.cast(DType::i8) : centred);
  }
}

Outputs dequantize(Call& c) {
  const Tensor q = c.x(0), scale = c.x(1);
  const int wanted = static_cast<int>(c.i("output_dtype", 0));
  const Element& to = element_of(wanted ? wanted : c.type(1));
  // 32-bit integers are subtracted before they become floats.
  const bool is_wide = q.dtype() == DType::i32;
  Tensor x = is_wide ? q : q.cast(DType::f32);
  if (c.has(2) && is_int(q.dtype())) x = x - spread(c, c.x(2), q).cast(x.dtype());
  const Tensor wide_scale = spread(c, scale, q);
  Value out((x.cast(DType::f32) * wide_scale.cast(DType::f32)).cast(to.held), to.type);
  if (is_int(q.dtype()) && to.type == kFloat && !c.i("block_size", 0)) {
    out.exact = Held<Exact>(new Exact);
    out.exact->whole = Value(is_wide ? x.cast(DType::f64) : x.cast(DType::f32));
    out.exact->scale = Value(wide_scale.cast(DType::f64));
    if (size_of(q.dtype()) == 1) set_narrow(c, q, *out.exact);
  }
  return {out};
}

Outputs dynamic_quantize(Call& c) {
  const Tensor x = c.x(0);
  const Tensor most = x.max().maximum(0), least = x.min().minimum(0);
  const Tensor range = most - least;
  const Tensor scale = mote::where(range.eq(0), range.ones_like(), range) / 255;
  const Tensor zero = (-least / scale).clamp(0, 255).round();
  const Tensor q = ((x / scale).round() + zero).clamp(0, 255);
  return {q.cast(DType::u8), scale, zero.cast(DType::u8)};
}

// Less its zero point, in i32. One for each place of `axis`, or one for all.
Tensor centred(Call& c, size_t at, size_t zero, int64_t axis) {
  const Tensor x = c.x(at).cast(DType::i32);
  if (!c.has(zero)) return x;
  const Tensor z = c.x(zero).cast(DType::i32);
  if (z.numel() == 1) return x - z.reshape({});
  if (z.dim() > 1) return x - z;
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[static_cast<size_t>(axis < 0 ? axis + x.dim() : axis)] = z.numel();
  return x - z.reshape(shape);
}

Outputs matmul_integer(Call& c) { return {centred(c, 0, 2, -2).matmul(centred(c, 1, 3, -1))}; }

Outputs conv_integer(Call& c) {
  return {convolve(c, centred(c, 0, 2, 0), centred(c, 1, 3, 0), {})};
}

Tensor along(const Tensor& p, int64_t axis, int64_t rank) {
  if (p.numel() == 1) return p.reshape({});
  if (p.dim() > 1) return p;
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(axis)] = p.numel();
  return p.reshape(shape);
}

Outputs requantized(Call& c, const Tensor& sum, const Tensor& factor, size_t zero) {
  const Element& to = element_of(c.has(zero) ? c.type(zero) : c.type(0));
  const Tensor z = c.has(zero) ? c.x(zero) : Tensor();
  return {Value(to_quantized(sum.cast(DType::f32) * factor.cast(DType::f32),
                             z.defined() && z.numel() == 1 ? z.reshape({}) : z, to),
                to.type)};
}

Outputs qlinear_matmul(Call& c) {
  const Tensor sum = centred(c, 0, 2, -2).matmul(centred(c, 3, 5, -1));
  const int64_t rank = sum.dim();
  const Tensor scale = along(c.x(1), rank - 2, rank) * along(c.x(4), rank - 1, rank);
  return requantized(c, sum, scale / along(c.x(6), rank - 2, rank), 7);
}

Outputs qlinear_conv(Call& c) {
  const Tensor bias = c.has(8) ? c.x(8).cast(DType::i32) : Tensor();
  const Tensor sum = convolve(c, centred(c, 0, 2, 0), centred(c, 3, 5, 0), bias);
  const Tensor scale = along(c.x(1), 0, 1) * along(c.x(4), 1, sum.dim()) / along(c.x(6), 0, 1);
  return requantized(c, sum, scale, 7);
}

Tensor real_of(Call& c, size_t x, size_t scale, size_t zero) {
  return centred(c, x, zero, 1).cast(DType::f32) * c.x(scale).reshape({});
}

// Microsoft's: both operands and the result are quantised.
template <class F>
Outputs qlinear_pair(Call& c, F f) {
  const Tensor out = f(real_of(c, 0, 1, 2), real_of(c, 3, 4, 5));
  return requantized(c, out, c.x(6).reshape({}).reciprocal(), 7);
}
Outputs qlinear_add(Call& c) {
  return qlinear_pair(c, [](const Tensor& a, const Tensor& b) { return a + b; });
}
Outputs qlinear_mul(Call& c) {
  return qlinear_pair(c, [](const Tensor& a, const Tensor& b) { return a * b; });
}
template <class F>
Outputs qlinear_one(Call& c, F f) {
  return requantized(c, f(real_of(c, 0, 1, 2)), c.x(3).reshape({}).reciprocal(), 4);
}
Outputs qlinear_sigmoid(Call& c) {
  return qlinear_one(c, [](const Tensor& x) { return x.sigmoid(); });
}
Outputs qlinear_leaky_relu(Call& c) {
  const double slope = c.f("alpha", 0.01);
  return qlinear_one(c, [&](const Tensor& x) { return x.leaky_relu(slope); });
}
Outputs qlinear_global_pool(Call& c) {
  expect(!c.i("channels_last", 0), "channels_last is not supported");
  return qlinear_one(c, [](const Tensor& x) { return x.mean(iota(x.dim() - 2, 2), true); });
}

Outputs matmul_integer_to_float(Call& c) {
  const Tensor sum = centred(c, 0, 4, -2).matmul(centred(c, 1, 5, -1));
  const int64_t rank = sum.dim();
  Tensor out = sum.cast(DType::f32) * along(c.x(2), rank - 2, rank) * along(c.x(3), rank - 1, rank);
  return {c.has(6) ? out + c.x(6) : out};
}

Outputs dynamic_quantize_matmul(Call& c) {
  const Outputs a = dynamic_quantize(c);
  const Tensor left = a[0].tensor.cast(DType::i32) - a[2].tensor.cast(DType::i32);
  const Tensor sum = left.matmul(centred(c, 1, 3, -1));
  Tensor out = sum.cast(DType::f32) * a[1].tensor * along(c.x(2), sum.dim() - 1, sum.dim());
  return {c.has(4) ? out + c.x(4) : out};
}

constexpr const char* microsoft = "com.microsoft";
// clang-format off
constexpr OpRow rows[] = {
    {"QuantizeLinear", 10, quantize},
    {"DequantizeLinear", 10, dequantize},
    {"DynamicQuantizeLinear", 11, dynamic_quantize},
    {"MatMulInteger", 10, matmul_integer},
    {"ConvInteger", 10, conv_integer},
    {"QLinearMatMul", 10, qlinear_matmul},
    {"QLinearConv", 10, qlinear_conv},
    {"QuantizeLinear", 1, quantize, microsoft},
    {"DequantizeLinear", 1, dequantize, microsoft},
    {"QLinearAdd", 1, qlinear_add, microsoft},
    {"QLinearMul", 1, qlinear_mul, microsoft},
    {"QLinearSigmoid", 1, qlinear_sigmoid, microsoft},
    {"QLinearLeakyRelu", 1, qlinear_leaky_relu, microsoft},
    {"QLinearGlobalAveragePool", 1, qlinear_global_pool, microsoft},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float, microsoft},
    {"DynamicQuantizeMatMul", 1, dynamic_quantize_matmul, microsoft},
};
// clang-format on

}  // namespace

OpTable quantized_ops() { return rows; }

}  // namespace mote::onnx
