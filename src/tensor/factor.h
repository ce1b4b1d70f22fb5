// Factors of batches of matrices (batch, n, m), f32 or f64, by loops over steps that all have the
// same few kernels: the step is a number in memory. A loop runs as it goes along, some steps at
// once, so that its graph stays small; a jit keeps the kernels of all of them.
#pragma once
#include "tensor/impl.h"

namespace mote::factor {

// The lower factor; NaN where the matrix is not positive definite.
Tensor cholesky(const Tensor& a);

struct Pivoted {
  Tensor lu;      // below the diagonal L, else U
  Tensor pivots;  // (batch, steps) i32: the row that step k exchanged with row k
  Tensor order;   // (batch, n) i32: which row of the matrix is row i of L U
};
Pivoted lu(const Tensor& a);

struct Orthogonal {
  Tensor q, r;
};
// q has so many columns, r as many rows.
Orthogonal qr(const Tensor& a, int64_t columns);

// The solution of l x = b. Only the lower triangle of l is read; if unit, its diagonal is 1.
Tensor substitute(const Tensor& l, const Tensor& b, bool unit);

struct Spectrum {
  Tensor values, vectors;  // (batch, n) ascending; columns
};
// Of a symmetric matrix.
Spectrum eigh(const Tensor& a);

struct Singular {
  Tensor u, s, v;  // s descending; columns
};
// u has so many columns. n >= m.
Singular svd(const Tensor& a, int64_t columns);

// What the matrix gets, of whose factor (or joined factors, one below the other) y gets g.
Tensor cholesky_gradient(const Tensor& g, const Tensor& y);
Tensor lu_gradient(const Tensor& g, const Tensor& y, const Tensor& order);
Tensor qr_gradient(const Tensor& g, const Tensor& y);                 // [q; r]
Tensor eigh_gradient(const Tensor& g, const Tensor& y);               // [vectors; values]
Tensor svd_gradient(const Tensor& g, const Tensor& y, int64_t rows);  // [u; s; v]

}  // namespace mote::factor
