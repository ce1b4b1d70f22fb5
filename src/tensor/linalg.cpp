// Linear algebra: factors with their derivatives, and what is made of them.
#include <mote/linalg.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/factor.h"
#include "tensor/gather.h"
#include "tensor/given.h"
#include "tensor/operators.h"

namespace mote::linalg {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Numbers = std::vector<int64_t>;

// A batch of matrices as (batch, n, m), and how to give results the batch's axes back.
struct Batch {
  Tensor a;
  Numbers axes;
  DType dtype;
  Tensor back(const Tensor& t) const {
    Numbers shape = axes, own = t.shape();
    shape.insert(shape.end(), own.begin() + 1, own.end());
    return t.reshape(shape).to(is_float(t.dtype()) ? dtype : t.dtype());
  }
};
Batch batch_of(const Tensor& a, bool square, const char* what = "a matrix") {
  expect_defined(a, what);
  expect(a.is_floating_point(), "needs floats, got ", a.dtype());
  expect(a.dim() >= 2, "needs matrices (..., n, m), got shape ", a);
  Numbers shape = a.shape(), axes(shape.begin(), shape.end() - 2);
  const int64_t n = shape[shape.size() - 2], m = shape.back();
  expect(n > 0 && m > 0 && a.numel() > 0, "needs matrices with elements, got shape ", a);
  expect(!square || n == m, "needs square matrices, got shape ", a);
  return {a.to(accumulator(a.dtype())).reshape({a.numel() / (n * m), n, m}), axes, a.dtype()};
}

// Two operands with one batch, broadcast against each other; b may be a batch of vectors.
struct Both {
  Batch a, b;
  bool vectors;
};
Both both_of(const Tensor& a, const Tensor& b, bool square, bool left = true) {
  expect_defined(a, "a matrix");
  expect_defined(b, "the right side");
  expect(a.dim() >= 2 && b.dim() >= 1, "needs matrices, got shapes ", a, " and ", b);
  expect(a.dtype() == b.dtype(), "dtypes ", a.dtype(), " and ", b.dtype(), " differ");
  common_device({&a, &b});
  std::vector<Dim> outer(dims_of(a).begin(), dims_of(a).end() - 1);
  const bool vectors = b.dim() == 1 || (b.dim() == a.dim() - 1 && dims_of(b) == outer);
  Tensor right = vectors ? b.unsqueeze(-1) : b;
  expect(right.size(left ? -2 : -1) == a.size(left ? -2 : -1), "shapes ", a, " and ", b,
         " do not fit");
  auto batch_dims = [](const Tensor& t) {
    return std::vector<Dim>(dims_of(t).begin(), dims_of(t).end() - 2);
  };
  const std::vector<Dim> axes = broadcast_dims(batch_dims(a), batch_dims(right));
  auto spread = [&](const Tensor& t) {
    std::vector<Dim> dims = axes;
    dims.insert(dims.end(), dims_of(t).end() - 2, dims_of(t).end());
    return broadcast_tensor(t, dims);
  };
  return {batch_of(spread(a), square), batch_of(spread(right), false, "the right side"), vectors};
}

Tensor symmetric(const Tensor& a, const char* uplo) {
  const std::string how = word(uplo, "uplo");
  expect(how == "L" || how == "U", "uplo is L or U, got ", how);
  return how == "L" ? a.tril() + a.tril(-1).mT() : a.triu() + a.triu(1).mT();
}

Tensor unit_lower(const Tensor& lu, int64_t n, int64_t k) {
  return lu.narrow(2, 0, k).tril(-1) + eye(n, k, {lu.dtype(), lu.device()});
}

// The LU factor with its derivative.
factor::Pivoted pivoted(const Tensor& a) {
  factor::Pivoted p = factor::lu(a.detach());
  p.lu = given(Given::LuFactor, p.lu, {a, p.order});
  return p;
}

Tensor triangular(const Tensor& a, const Tensor& b, bool upper, bool unit) {
  Tensor x = upper
                 ? factor::substitute(a.detach().flip(Axes{1, 2}), b.detach().flip(1), unit).flip(1)
                 : factor::substitute(a.detach(), b.detach(), unit);
  const int64_t how[] = {upper, unit};
  return given(Given::SolveTriangular, x, {a, b}, how);
}

Tensor rows_in_order(const Tensor& b, const Tensor& order) {
  return gather_at(b, 1, broadcast_tensor(order.unsqueeze(-1), dims_of(b)));
}

// Of all batches; the derivative is that of the equation, so none of the factors counts.
Tensor solved(const Tensor& a, const Tensor& b) {
  factor::Pivoted p = factor::lu(a.detach());
  Tensor y = factor::substitute(p.lu, rows_in_order(b.detach(), p.order), true);
  Tensor x = factor::substitute(p.lu.flip(Axes{1, 2}), y.flip(1), false).flip(1);
  return given(Given::Solve, x, {a, b});
}

// t, of which the first columns are those of `own`, which has derivatives.
Tensor completed(const Tensor& own, const Tensor& t) {
  const int64_t k = own.size(2), all = t.size(2);
  return all > k ? cat({own, t.narrow(2, k, all - k)}, 2) : own;
}

// All vectors of the larger side: those beyond the singular values are constants.
struct Decomposed {
  Tensor u, s, v;
};
Decomposed decomposed(const Tensor& a, bool all = false) {
  const int64_t n = a.size(1), m = a.size(2), k = std::min(n, m);
  Tensor tall = n >= m ? a.detach() : a.detach().mT();
  factor::Singular f = factor::svd(tall, all ? std::max(n, m) : k);
  if (n < m) std::swap(f.u, f.v);
  Tensor joined = cat({f.u.narrow(2, 0, k), f.s.unsqueeze(1), f.v.narrow(2, 0, k)}, 1);
  joined = given(Given::Svd, joined, {a}, {&n, 1});
  return {completed(joined.narrow(1, 0, n), f.u), joined.select(1, n),
          completed(joined.narrow(1, n + 1, m), f.v)};
}

struct Spectrum {
  Tensor values, vectors;
};
// One triangle is read, but the derivative is that of the whole, as in PyTorch.
Spectrum spectrum(const Tensor& a, const char* uplo) {
  const int64_t n = a.size(1);
  factor::Spectrum f = factor::eigh(symmetric(a.detach(), uplo));
  Tensor joined = given(Given::Eigh, cat({f.vectors, f.values.unsqueeze(1)}, 1), {a});
  return {joined.select(1, n), joined.narrow(1, 0, n)};
}

// What singular values (or sizes of eigenvalues) are at least, to count.
Tensor least_of(const Tensor& s, double rtol, int64_t n, int64_t m) {
  const double eps = s.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double factor = rtol >= 0 ? rtol : eps * static_cast<double>(std::max(n, m));
  return s.amax(1, true) * factor;
}

// The sign of the exchanges: -1 for each of two rows.
Tensor sign_of_order(const Tensor& pivots) {
  Tensor k = iota_tensor(pivots.size(1), DType::i32, pivots.impl()->device);
  return 1 - 2 * (pivots.ne(k).to_long().sum(1) % 2);
}

Tensor vectors_or(const Both& both, const Tensor& x) {
  Tensor out = both.b.back(x);
  return both.vectors ? out.squeeze(-1) : out;
}

}  // namespace

Tensor cholesky(const Tensor& a, bool upper, Loc where) {
  Call call("cholesky", where);
  const Batch b = batch_of(a, true);
  Tensor whole = upper ? b.a.mT() : b.a, fixed = whole.detach();
  Tensor l = given(Given::Cholesky, factor::cholesky(fixed), {whole});
  return b.back(upper ? l.mT() : l);
}
Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper, Loc where) {
  Call call("cholesky_solve", where);
  const Both both = both_of(l, b, true);
  Tensor lower = upper ? both.a.a.mT() : both.a.a;
  return vectors_or(both,
                    triangular(lower.mT(), triangular(lower, both.b.a, false, false), true, false));
}
Tensor cholesky_inverse(const Tensor& l, bool upper, Loc where) {
  Call call("cholesky_inverse", where);
  expect_defined(l, "the factor");
  expect(l.dim() >= 2, "needs matrices (..., n, n), got shape ", l);
  return cholesky_solve(eye(l.size(-1), l.size(-1), {l.dtype(), l.device()}), l, upper);
}

QR qr(const Tensor& a, const char* mode, Loc where) {
  Call call("qr", where);
  const std::string how = word(mode, "the mode");
  expect(how == "reduced" || how == "complete" || how == "r",
         "mode is reduced, complete or r, got ", how);
  const Batch b = batch_of(a, false);
  const int64_t n = b.a.size(1), m = b.a.size(2), k = std::min(n, m);
  // The first columns are a matrix whose factors have derivatives; the rest follow from q.
  Tensor left = b.a.narrow(2, 0, k);
  factor::Orthogonal f = factor::qr(left.detach(), how == "complete" ? n : k);
  Tensor joined = cat({f.q.narrow(2, 0, k), f.r.narrow(1, 0, k)}, 1);
  joined = given(Given::Qr, joined, {left});
  Tensor q = joined.narrow(1, 0, n), r = joined.narrow(1, n, k);
  if (m > k) r = cat({r, q.mT().matmul(b.a.narrow(2, k, m - k))}, 2);
  if (f.q.size(2) > k) r = r.pad({0, 0, 0, n - k}), q = completed(q, f.q);
  return {how == "r" ? Tensor() : b.back(q), b.back(r)};
}

LUFactor lu_factor(const Tensor& a, Loc where) {
  Call call("lu_factor", where);
  const Batch b = batch_of(a, false);
  const factor::Pivoted p = pivoted(b.a);
  return {b.back(p.lu), b.back(p.pivots + 1)};
}
LU lu(const Tensor& a, Loc where) {
  Call call("lu", where);
  const Batch b = batch_of(a, false);
  const factor::Pivoted p = pivoted(b.a);
  const int64_t n = b.a.size(1), k = std::min(n, b.a.size(2));
  Tensor at = iota_tensor(n, DType::i32, a.impl()->device).unsqueeze(1);
  Tensor exchanges = p.order.unsqueeze(1).eq(at).to(b.a.dtype());
  return {b.back(exchanges), b.back(unit_lower(p.lu, n, k)), b.back(p.lu.narrow(1, 0, k).triu())};
}
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, Loc where) {
  Call call("lu_solve", where);
  expect_defined(pivots, "the pivots");
  const Both both = both_of(lu, b, true);
  const int64_t n = both.a.a.size(1), batch = both.a.a.size(0);
  expect(is_int(pivots.dtype()) && pivots.dim() == lu.dim() - 1 && pivots.size(-1) == n,
         "pivots of shape ", pivots, " do not fit ", lu);
  // The order of the rows after all exchanges.
  Numbers shape = both.a.axes;
  shape.push_back(n);
  Tensor p = broadcast_tensor(pivots, to_dims(shape)).reshape({batch, n}).to_long() - 1;
  Tensor at = iota_tensor(n, DType::i64, lu.impl()->device);
  Tensor order = broadcast_tensor(at, std::vector<Dim>{batch, n});
  for (int64_t k = 0; k < n; ++k) {
    Tensor other = p.narrow(1, k, 1);
    order = gather_at(order, 1, mote::where(at.eq(k), other, mote::where(at.eq(other), k, at)));
  }
  Tensor right = rows_in_order(both.b.a, order);
  Tensor y = triangular(both.a.a, right, false, true);
  return vectors_or(both, triangular(both.a.a, y, true, false));
}

Tensor solve(const Tensor& a, const Tensor& b, Loc where) {
  Call call("solve", where);
  const Both both = both_of(a, b, true);
  return vectors_or(both, solved(both.a.a, both.b.a));
}
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular,
                        Loc where) {
  Call call("solve_triangular", where);
  expect_defined(a, "a matrix");
  expect_defined(b, "the right side");
  expect(b.dim() >= 2, "needs matrices, got shapes ", a, " and ", b);
  if (!left) return solve_triangular(a.mT(), b.mT(), !upper, true, unitriangular).mT().clone();
  const Both both = both_of(a, b, true);
  return both.b.back(triangular(both.a.a, both.b.a, upper, unitriangular));
}

Tensor inv(const Tensor& a, Loc where) {
  Call call("inv", where);
  const Batch b = batch_of(a, true);
  Tensor one = eye(b.a.size(1), b.a.size(1), {b.a.dtype(), a.device()});
  return b.back(solved(b.a, broadcast_tensor(one, dims_of(b.a))));
}
// The derivative is det * inv^T, 0 * inf where the matrix is singular.
Tensor det(const Tensor& a, Loc where) {
  Call call("det", where);
  const Batch b = batch_of(a, true);
  const factor::Pivoted p = pivoted(b.a);
  return b.back(p.lu.diagonal(0, 1, 2).prod(1) * sign_of_order(p.pivots).to(b.a.dtype()));
}
SignLog slogdet(const Tensor& a, Loc where) {
  Call call("slogdet", where);
  const Batch b = batch_of(a, true);
  const factor::Pivoted p = pivoted(b.a);
  Tensor diagonal = p.lu.diagonal(0, 1, 2);
  Tensor sign = diagonal.detach().sign().prod(1) * sign_of_order(p.pivots).to(b.a.dtype());
  return {b.back(sign), b.back(diagonal.abs().log().sum(1))};
}
Tensor logdet(const Tensor& a, Loc where) {
  Call call("logdet", where);
  const SignLog d = slogdet(a);
  return mote::where(d.sign < 0, NAN, d.logabsdet);
}

Eigen eigh(const Tensor& a, const char* uplo, Loc where) {
  Call call("eigh", where);
  const Batch b = batch_of(a, true);
  const Spectrum s = spectrum(b.a, uplo);
  return {b.back(s.values), b.back(s.vectors)};
}
Tensor eigvalsh(const Tensor& a, const char* uplo, Loc where) {
  Call call("eigvalsh", where);
  return eigh(a, uplo).eigenvalues;
}

SVD svd(const Tensor& a, bool full_matrices, Loc where) {
  Call call("svd", where);
  const Batch b = batch_of(a, false);
  const Decomposed d = decomposed(b.a, full_matrices);
  return {b.back(d.u), b.back(d.s), b.back(d.v.mT())};
}
Tensor svdvals(const Tensor& a, Loc where) {
  Call call("svdvals", where);
  return svd(a, false).S;
}

Tensor pinv(const Tensor& a, double rtol, bool hermitian, Loc where) {
  Call call("pinv", where);
  const Batch b = batch_of(a, hermitian);
  const Decomposed d = decomposed(hermitian ? symmetric(b.a, "L") : b.a);
  Tensor counts = d.s > least_of(d.s.detach(), rtol, b.a.size(1), b.a.size(2));
  Tensor inverse = mote::where(counts, 1 / mote::where(counts, d.s, 1), 0);
  return b.back((d.v * inverse.unsqueeze(1)).matmul(d.u.mT()));
}
Tensor matrix_rank(const Tensor& a, double rtol, bool hermitian, Loc where) {
  Call call("matrix_rank", where);
  const Batch b = batch_of(a, hermitian);
  Tensor s = hermitian ? factor::eigh(symmetric(b.a.detach(), "L")).values.abs()
                       : decomposed(b.a.detach()).s;
  return b.back((s > least_of(s, rtol, b.a.size(1), b.a.size(2))).to_long().sum(1));
}

LeastSquares lstsq(const Tensor& a, const Tensor& b, double rcond, Loc where) {
  Call call("lstsq", where);
  const Both both = both_of(a, b, false);
  const int64_t n = both.a.a.size(1), m = both.a.a.size(2);
  const Decomposed d = decomposed(both.a.a);
  Tensor counts = d.s > least_of(d.s.detach(), rcond, n, m);
  Tensor inverse = mote::where(counts, 1 / mote::where(counts, d.s, 1), 0);
  Tensor x = d.v.matmul(inverse.unsqueeze(-1) * d.u.mT().matmul(both.b.a));
  Tensor rest = (both.a.a.matmul(x) - both.b.a).square().sum(1);
  return {vectors_or(both, x), both.b.back(n > m ? rest : rest.narrow(1, 0, 0)),
          both.a.back(counts.to_long().sum(1)), both.a.back(d.s)};
}

Tensor cond(const Tensor& a, double p, Loc where) {
  Call call("cond", where);
  if (p == 2 || p == -2) {
    Tensor s = svdvals(a), largest = s.select(-1, 0), least = s.select(-1, s.size(-1) - 1);
    return p > 0 ? largest / least : least / largest;
  }
  return matrix_norm(a, p) * matrix_norm(inv(a), p);
}

// e^a = (e^(a / 2^s))^(2^s); Taylor's series of 18 terms where the norm is at most 1.
Tensor matrix_exp(const Tensor& a, Loc where) {
  Call call("matrix_exp", where);
  const Batch b = batch_of(a, true);
  constexpr int kMost = 16;
  const int64_t n = b.a.size(1);
  Tensor norm = b.a.detach().abs().sum(2).amax(1);
  Tensor halvings = norm.clamp_min(1).log2().ceil().clamp(0, kMost).reshape({b.a.size(0), 1, 1});
  Tensor x = b.a * (-halvings).exp2(), one = eye(n, n, {b.a.dtype(), a.device()});
  constexpr int kTerms = 18, kBlock = 3;
  std::vector<Tensor> powers = {broadcast_tensor(one, dims_of(x)), x};
  while (powers.size() <= kBlock) powers.push_back(powers.back().matmul(x));
  // By blocks of three powers: sum = (... block + x^3 (block + x^3 (...))).
  std::vector<double> c = {1};
  for (int k = 1; k <= kTerms; ++k) c.push_back(c.back() / k);
  auto block = [&](int first) {
    Tensor sum = powers[0] * c[static_cast<size_t>(first)];
    for (int k = 1; k < kBlock && first + k <= kTerms; ++k)
      sum = sum + powers[static_cast<size_t>(k)] * c[static_cast<size_t>(first + k)];
    return sum;
  };
  Tensor y = block(kTerms);
  for (int first = kTerms - kBlock; first >= 0; first -= kBlock)
    y = block(first) + powers[kBlock].matmul(y);
  for (int k = 0; k < kMost; ++k) y = mote::where(halvings > k, y.matmul(y), y);
  return b.back(y);
}

Tensor matrix_power(const Tensor& a, int64_t n, Loc where) {
  Call call("matrix_power", where);
  const Batch b = batch_of(a, true);
  Tensor square = n < 0 ? inv(a) : a, out;
  for (uint64_t e = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n); e; e >>= 1) {
    if (e & 1) out = out.defined() ? out.matmul(square) : square;
    if (e > 1) square = square.matmul(square);
  }
  Tensor one = eye(b.a.size(1), b.a.size(1), {a.dtype(), a.device()});
  return out.defined() ? out.clone() : broadcast_tensor(one, dims_of(a));
}

Tensor multi_dot(const std::vector<Tensor>& matrices, Loc where) {
  Call call("multi_dot", where);
  expect(matrices.size() >= 2, "needs at least two matrices");
  std::vector<Tensor> all = matrices;
  for (const Tensor& t : all) expect_defined(t, "a matrix");
  const bool row = all.front().dim() == 1, column = all.back().dim() == 1;
  if (row) all.front() = all.front().unsqueeze(0);
  if (column) all.back() = all.back().unsqueeze(1);
  Tensor out = chain_matmul(all);
  if (column) out = out.squeeze(1);
  return row ? out.squeeze(0) : out;
}

static Tensor norm_of(const Tensor& a, const Axes& dim, bool keepdim,
                      Tensor (*f)(const Tensor& rows, double ord), double ord) {
  expect_defined(a, "a matrix");
  const Numbers axes = to_axes(dim, a.dim());
  expect(axes.size() == 2, "needs two axes, got ", dim.list);
  Tensor out = f(a.movedim(axes, {-2, -1}), ord);
  return keepdim ? out.unsqueeze(std::min(axes[0], axes[1])).unsqueeze(std::max(axes[0], axes[1]))
                 : out;
}
Tensor matrix_norm(const Tensor& a, double ord, const Axes& dim, bool keepdim, Loc where) {
  Call call("matrix_norm", where);
  const double size = std::abs(ord);
  expect(size == 1 || size == 2 || size == kInf,
         "ord is 1, 2, infinity, their negatives, fro or nuc, got ", ord);
  return norm_of(
      a, dim, keepdim,
      [](const Tensor& t, double p) {
        if (std::abs(p) == 2) return p > 0 ? svdvals(t).amax(-1) : svdvals(t).amin(-1);
        Tensor sums = t.abs().sum(std::abs(p) == 1 ? -2 : -1);
        return p > 0 ? sums.amax(-1) : sums.amin(-1);
      },
      ord);
}
Tensor matrix_norm(const Tensor& a, const char* ord, const Axes& dim, bool keepdim, Loc where) {
  Call call("matrix_norm", where);
  const std::string how = word(ord, "ord");
  expect(how == "fro" || how == "nuc", "ord is 1, 2, infinity, their negatives, fro or nuc, got ",
         how);
  if (how == "fro") return a.norm(2, dim, keepdim);
  return norm_of(
      a, dim, keepdim, [](const Tensor& t, double) { return svdvals(t).sum(-1); }, 0);
}
Tensor vector_norm(const Tensor& x, double ord, const Axes& dim, bool keepdim, Loc where) {
  Call call("vector_norm", where);
  expect_defined(x);
  return x.norm(ord, dim, keepdim);
}
Tensor vecdot(const Tensor& x, const Tensor& y, int64_t dim, Loc where) {
  Call call("vecdot", where);
  return (x * y).sum(dim);
}

static int64_t product_of(const Numbers& shape, size_t first, size_t last) {
  int64_t all = 1;
  for (size_t i = first; i < last; ++i) all *= shape[i];
  return all;
}
Tensor tensorinv(const Tensor& a, int64_t ind, Loc where) {
  Call call("tensorinv", where);
  expect_defined(a);
  expect(ind > 0 && ind < a.dim(), "needs an axis inside of the tensor, got ", ind);
  Numbers shape = a.shape(), out(shape.begin() + ind, shape.end());
  out.insert(out.end(), shape.begin(), shape.begin() + ind);
  const auto at = static_cast<size_t>(ind);
  return inv(a.reshape({product_of(shape, 0, at), product_of(shape, at, shape.size())}))
      .reshape(out);
}
Tensor tensorsolve(const Tensor& a, const Tensor& b, Loc where) {
  Call call("tensorsolve", where);
  expect_defined(a);
  expect_defined(b, "the right side");
  expect(b.dim() < a.dim(), "needs fewer axes on the right side, got shapes ", a, " and ", b);
  Numbers shape = a.shape();
  const Numbers out(shape.begin() + b.dim(), shape.end());
  const int64_t n = b.numel();
  return solve(a.reshape({n, product_of(out, 0, out.size())}), b.reshape({n})).reshape(out);
}

}  // namespace mote::linalg
