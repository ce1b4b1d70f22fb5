// Products of matrices.
#include "onnx/ops.h"

namespace mote::onnx {

namespace {

Outputs matmul(Call& c) {
  const Tensor exact = c.exact_product(
      -1, -1, [](const Tensor& a, const Tensor& b, int64_t) { return a.matmul(b); },
      [](const Tensor& b) { return b.sum(b.dim() - 2, true); });
  return {exact.defined() ? exact_value(exact, DType::f32) : Value(c.x(0).matmul(c.x(1)))};
}

// Of dequantised matrices: the product of whole numbers.
Outputs exact_gemm(Call& c) {
  const bool by_rows = c.i("transB", 0) != 0;
  const Tensor product = c.exact_product(
      by_rows ? 0 : 1, 1,
      [&](const Tensor& a, const Tensor& b, int64_t) {
        return (c.i("transA", 0) ? a.t() : a).matmul(by_rows ? b.t() : b);
      },
      [&](const Tensor& b) { return b.sum(by_rows ? 1 : 0); });
  if (!product.defined()) return {};
  Tensor out = product * c.f("alpha", 1);
  if (c.has(2)) out = out + c.wide(2) * c.f("beta", 1);
  return {exact_value(out, DType::f32)};
}

Outputs gemm(Call& c) {
  if (Outputs exact = exact_gemm(c); !exact.empty()) return exact;
  Tensor a = c.x(0), b = c.x(1);
  if (c.i("transA", 0)) a = a.t();
  if (c.i("transB", 0)) b = b.t();
  Tensor out = a.matmul(b);
  const double alpha = c.f("alpha", 1), beta = c.f("beta", 1);
  if (alpha != 1) out = out * alpha;
  if (c.has(2) && beta != 0) out = out + (beta == 1 ? c.x(2) : c.x(2) * beta);
  return {out.cast(a.dtype())};
}

Outputs einsum_op(Call& c) {
  std::string equation;
  for (const char ch : c.s("equation", ""))
    if (ch != ' ') equation += ch;
  return {einsum(equation, c.all())};
}

// By elimination without a choice of pivots but for the largest of a column, on each matrix.
Outputs det(Call& c) {
  Tensor m = c.x(0);
  const int64_t n = m.size(-1);
  expect(m.dim() >= 2 && m.size(-2) == n, "the matrices are not square");
  std::vector<int64_t> batch = m.shape();
  batch.resize(batch.size() - 2);
  m = m.reshape({product(batch), n, n});
  Tensor out = m.select(2, 0).select(1, 0).ones_like();
  for (int64_t left = n; left > 0; --left) {
    // The row with the largest entry of the first column comes first.
    const Tensor pivot = m.select(2, 0).abs().argmax(1, true);  // (batch, 1)
    const Tensor place = arange(left, c.options(DType::i64)).unsqueeze(0);
    const Tensor from =
        mote::where(place.eq(0), pivot, mote::where(place.eq(pivot), 0 * place, place));
    m = m.gather(1, from.unsqueeze(2).expand(m.shape()));
    const Tensor head = m.select(1, 0).select(1, 0);
    out = mote::where(pivot.squeeze({1}).eq(0), out, -out) * head;
    if (left == 1) break;
    const Tensor safe = mote::where(head.eq(0), head.ones_like(), head).reshape({-1, 1, 1});
    const Tensor column = m.narrow(1, 1, left - 1).narrow(2, 0, 1);
    const Tensor row = m.narrow(1, 0, 1).narrow(2, 1, left - 1);
    m = m.narrow(1, 1, left - 1).narrow(2, 1, left - 1) - column / safe * row;
  }
  return {out.reshape(batch)};
}

constexpr OpRow rows[] = {
    {"MatMul", 1,  matmul   },
    {"Gemm",   1,  gemm     },
    {"Einsum", 12, einsum_op},
    {"Det",    11, det      },
};

}  // namespace

OpTable linear_ops() { return rows; }

}  // namespace mote::onnx
