// Linear algebra of (..., n, m) matrices: PyTorch's torch.linalg. Leading axes are a batch. f16 and
// bf16 are computed in f32. Factorisations run at once (a jit keeps their kernels).
// docs/semantics.md specifies results and derivatives for singular matrices and equal eigenvalues.
#pragma once
#include <mote/tensor.h>

namespace mote::linalg {

struct QR {
  Tensor Q, R;
  MOTE_FIELDS(Q, R)
};
struct LU {
  Tensor P, L, U;  // A = P @ L @ U
  MOTE_FIELDS(P, L, U)
};
struct LUFactor {
  Tensor LU, pivots;  // i32, counted from 1 as in LAPACK
  MOTE_FIELDS(LU, pivots)
};
struct Eigen {
  Tensor eigenvalues, eigenvectors;  // ascending; columns
  MOTE_FIELDS(eigenvalues, eigenvectors)
};
struct SVD {
  Tensor U, S, Vh;
  MOTE_FIELDS(U, S, Vh)
};
struct SignLog {
  Tensor sign, logabsdet;
  MOTE_FIELDS(sign, logabsdet)
};
struct LeastSquares {
  Tensor solution, residuals, rank, singular_values;
  MOTE_FIELDS(solution, residuals, rank, singular_values)
};

Tensor cholesky(const Tensor& a, bool upper = false, Loc = MOTE_HERE);
Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper = false, Loc = MOTE_HERE);
Tensor cholesky_inverse(const Tensor& l, bool upper = false, Loc = MOTE_HERE);
QR qr(const Tensor& a, const char* mode = "reduced", Loc = MOTE_HERE);  // or complete, r
LUFactor lu_factor(const Tensor& a, Loc = MOTE_HERE);
LU lu(const Tensor& a, Loc = MOTE_HERE);
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, Loc = MOTE_HERE);
Tensor solve(const Tensor& a, const Tensor& b, Loc = MOTE_HERE);
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left = true,
                        bool unitriangular = false, Loc = MOTE_HERE);
Tensor inv(const Tensor& a, Loc = MOTE_HERE);
Tensor det(const Tensor& a, Loc = MOTE_HERE);
SignLog slogdet(const Tensor& a, Loc = MOTE_HERE);
Tensor logdet(const Tensor& a, Loc = MOTE_HERE);
LeastSquares lstsq(const Tensor& a, const Tensor& b, double rcond = -1, Loc = MOTE_HERE);
Eigen eigh(const Tensor& a, const char* uplo = "L", Loc = MOTE_HERE);
Tensor eigvalsh(const Tensor& a, const char* uplo = "L", Loc = MOTE_HERE);
SVD svd(const Tensor& a, bool full_matrices = true, Loc = MOTE_HERE);
Tensor svdvals(const Tensor& a, Loc = MOTE_HERE);
// rtol < 0: max(n, m) * eps.
Tensor pinv(const Tensor& a, double rtol = -1, bool hermitian = false, Loc = MOTE_HERE);
Tensor matrix_rank(const Tensor& a, double rtol = -1, bool hermitian = false,
                   Loc = MOTE_HERE);
Tensor cond(const Tensor& a, double p = 2, Loc = MOTE_HERE);
Tensor matrix_exp(const Tensor& a, Loc = MOTE_HERE);
Tensor matrix_power(const Tensor& a, int64_t n, Loc = MOTE_HERE);
Tensor multi_dot(const std::vector<Tensor>& matrices, Loc = MOTE_HERE);
// ord: 1, -1, infinities, 2, -2; or "fro", "nuc".
Tensor matrix_norm(const Tensor& a, double ord, const Axes& dim = {-2, -1}, bool keepdim = false,
                   Loc = MOTE_HERE);
Tensor matrix_norm(const Tensor& a, const char* ord = "fro", const Axes& dim = {-2, -1},
                   bool keepdim = false, Loc = MOTE_HERE);
Tensor vector_norm(const Tensor& x, double ord = 2, const Axes& dim = {}, bool keepdim = false,
                   Loc = MOTE_HERE);
Tensor vecdot(const Tensor& x, const Tensor& y, int64_t dim = -1, Loc = MOTE_HERE);
Tensor tensorinv(const Tensor& a, int64_t ind = 2, Loc = MOTE_HERE);
Tensor tensorsolve(const Tensor& a, const Tensor& b, Loc = MOTE_HERE);

}  // namespace mote::linalg
