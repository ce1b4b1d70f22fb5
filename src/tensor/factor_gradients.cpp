// Derivatives of factors. They are those of the equations that define the factors, so second
// derivatives need nothing more. Where they have none (equal eigenvalues, a singular matrix) the
// part that is not defined is 0.
#include <mote/linalg.h>

#include "tensor/factor.h"
#include "tensor/operators.h"

namespace mote::factor {

namespace {

Tensor inverse_of_gap(const Tensor& gap) {
  Tensor none = gap.eq(0);
  return where(none, 0, 1 / where(none, 1, gap));
}
// The lower triangle with half of the diagonal.
Tensor halved(const Tensor& t) { return t.tril() - 0.5 * t.diagonal(0, 1, 2).diag_embed(); }
Tensor solved(const Tensor& a, const Tensor& b, bool upper, bool left = true, bool unit = false) {
  return linalg::solve_triangular(a, b, upper, left, unit);
}

}  // namespace

Tensor cholesky_gradient(const Tensor& g, const Tensor& y) {
  Tensor inner = halved(y.mT().matmul(g.tril()));
  Tensor whole = solved(y.mT(), solved(y, inner, false, false), true);
  return 0.5 * (whole + whole.mT());
}

// Of square matrices.
Tensor lu_gradient(const Tensor& g, const Tensor& y, const Tensor& order) {
  const int64_t n = y.size(1);
  expect(n == y.size(2), "is differentiable for square matrices only, got shape ", y);
  Tensor l = y.tril(-1) + eye(n, n, {y.dtype(), y.device()}), u = y.triu();
  Tensor inner = l.mT().matmul(g.tril(-1)).tril(-1) + g.triu().matmul(u.mT()).triu();
  Tensor whole = solved(l.mT(), solved(u.mT(), inner, false, false), true);
  Tensor at = broadcast_tensor(order.unsqueeze(-1), dims_of(whole));
  return whole.zeros_like().scatter(1, at.to(DType::i64), whole);
}

Tensor qr_gradient(const Tensor& g, const Tensor& y) {
  const int64_t k = y.size(2), n = y.size(1) - k;
  Tensor q = y.narrow(1, 0, n), r = y.narrow(1, n, k);
  Tensor gq = g.narrow(1, 0, n), gr = g.narrow(1, n, k).triu();
  Tensor m = r.matmul(gr.mT()) - gq.mT().matmul(q);
  Tensor lower = m.tril(-1), symmetric = m.tril() + lower.mT();
  return solved(r.mT(), gq + q.matmul(symmetric), false, false);
}

Tensor eigh_gradient(const Tensor& g, const Tensor& y) {
  const int64_t n = y.size(2);
  Tensor v = y.narrow(1, 0, n), w = y.narrow(1, n, 1);
  Tensor f = inverse_of_gap(w - w.mT());
  Tensor inner = f * v.mT().matmul(g.narrow(1, 0, n)) + g.select(1, n).diag_embed();
  Tensor whole = v.matmul(inner).matmul(v.mT());
  return 0.5 * (whole + whole.mT());
}

Tensor svd_gradient(const Tensor& g, const Tensor& y, int64_t rows) {
  const int64_t k = y.size(2), m = y.size(1) - rows - 1;
  Tensor u = y.narrow(1, 0, rows), s = y.narrow(1, rows, 1), v = y.narrow(1, rows + 1, m);
  Tensor gu = g.narrow(1, 0, rows), gs = g.select(1, rows), gv = g.narrow(1, rows + 1, m);
  Tensor f = inverse_of_gap((s - s.mT()) * (s + s.mT())), down = inverse_of_gap(s);
  Tensor a = u.mT().matmul(gu), b = v.mT().matmul(gv);
  Tensor inner = (f * (a - a.mT())) * s + s.mT() * (f * (b - b.mT())) + gs.diag_embed();
  Tensor whole = u.matmul(inner).matmul(v.mT());
  if (rows > k) whole = whole + ((gu - u.matmul(a)) * down).matmul(v.mT());
  if (m > k) whole = whole + (u * down).matmul((gv - v.matmul(b)).mT());
  return whole;
}

}  // namespace mote::factor
