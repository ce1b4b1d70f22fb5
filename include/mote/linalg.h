// Linear algebra of (..., n, m) matrices, PyTorch's torch.linalg. Leading axes are a batch. f16 and
// bf16 are computed in f32. Factors run at once (a jit keeps their kernels). docs/semantics.md says
// what results and derivatives are where a matrix is singular or eigenvalues are equal.
#pragma once
#include <mote/tensor.h>

namespace mote::linalg {

struct QR {
  Tensor Q, R;
};
struct LU {
  Tensor P, L, U;  // A = P @ L @ U
};
struct LUFactor {
  Tensor LU, pivots;  // i32, counted from 1 as in LAPACK
};
struct Eigen {
  Tensor eigenvalues, eigenvectors;  // ascending; columns
};
struct SVD {
  Tensor U, S, Vh;
};
struct SignLog {
  Tensor sign, logabsdet;
};
struct LeastSquares {
  Tensor solution, residuals, rank, singular_values;
};

Tensor cholesky(const Tensor& a, bool upper = false, Loc = Loc::current());
Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper = false, Loc = Loc::current());
Tensor cholesky_inverse(const Tensor& l, bool upper = false, Loc = Loc::current());
QR qr(const Tensor& a, const char* mode = "reduced", Loc = Loc::current());  // or complete, r
LUFactor lu_factor(const Tensor& a, Loc = Loc::current());
LU lu(const Tensor& a, Loc = Loc::current());
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, Loc = Loc::current());
Tensor solve(const Tensor& a, const Tensor& b, Loc = Loc::current());
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left = true,
                        bool unitriangular = false, Loc = Loc::current());
Tensor inv(const Tensor& a, Loc = Loc::current());
Tensor det(const Tensor& a, Loc = Loc::current());
SignLog slogdet(const Tensor& a, Loc = Loc::current());
Tensor logdet(const Tensor& a, Loc = Loc::current());
LeastSquares lstsq(const Tensor& a, const Tensor& b, double rcond = -1, Loc = Loc::current());
Eigen eigh(const Tensor& a, const char* uplo = "L", Loc = Loc::current());
Tensor eigvalsh(const Tensor& a, const char* uplo = "L", Loc = Loc::current());
SVD svd(const Tensor& a, bool full_matrices = true, Loc = Loc::current());
Tensor svdvals(const Tensor& a, Loc = Loc::current());
// rtol < 0: max(n, m) * eps.
Tensor pinv(const Tensor& a, double rtol = -1, bool hermitian = false, Loc = Loc::current());
Tensor matrix_rank(const Tensor& a, double rtol = -1, bool hermitian = false,
                   Loc = Loc::current());
Tensor cond(const Tensor& a, double p = 2, Loc = Loc::current());
Tensor matrix_exp(const Tensor& a, Loc = Loc::current());
Tensor matrix_power(const Tensor& a, int64_t n, Loc = Loc::current());
Tensor multi_dot(const std::vector<Tensor>& matrices, Loc = Loc::current());
// ord: 1, -1, infinities, 2, -2; or "fro", "nuc".
Tensor matrix_norm(const Tensor& a, double ord, const Axes& dim = {-2, -1}, bool keepdim = false,
                   Loc = Loc::current());
Tensor matrix_norm(const Tensor& a, const char* ord = "fro", const Axes& dim = {-2, -1},
                   bool keepdim = false, Loc = Loc::current());
Tensor vector_norm(const Tensor& x, double ord = 2, const Axes& dim = {}, bool keepdim = false,
                   Loc = Loc::current());
Tensor vecdot(const Tensor& x, const Tensor& y, int64_t dim = -1, Loc = Loc::current());
Tensor tensorinv(const Tensor& a, int64_t ind = 2, Loc = Loc::current());
Tensor tensorsolve(const Tensor& a, const Tensor& b, Loc = Loc::current());

}  // namespace mote::linalg
