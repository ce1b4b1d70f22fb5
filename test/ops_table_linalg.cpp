// Linear algebra.
#include <mote/linalg.h>

#include "ops_table.h"

namespace mote::test {

namespace {

using namespace linalg;

Outputs run_norm(const Call& c) {
  const Axes dim = c.has("dim") ? Axes(c.ints("dim")) : Axes{-2, -1};
  const bool keep = c.flag("keepdim");
  if (std::holds_alternative<std::string>(c.golden.attrs.at("ord")))
    return {matrix_norm(c.x(), c.text("ord"), dim, keep)};
  return {matrix_norm(c.x(), c.real("ord"), dim, keep)};
}

#define PLAIN(name) MOTE_ROW(#name, name(c.x()))

const TestedOp rows[] = {
    PLAIN(inv), PLAIN(det), PLAIN(logdet), PLAIN(svdvals), PLAIN(pinv), PLAIN(matrix_exp),
    PLAIN(matrix_rank), PLAIN(cholesky_inverse),
    MOTE_ROW("cholesky", cholesky(c.x(), c.flag("upper"))),
    MOTE_ROW("cholesky_solve", cholesky_solve(c.x(0), c.x(1), c.flag("upper"))),
    MOTE_ROW("solve", solve(c.x(0), c.x(1))),
    MOTE_ROW("solve_triangular", solve_triangular(c.x(0), c.x(1), c.flag("upper"),
                                                  c.flag("left", true),
                                                  c.flag("unitriangular"))),
    MOTE_ROW("lstsq", lstsq(c.x(0), c.x(1)).solution),
    {"lu_solve", [](const Call& c) -> Outputs {
       const LUFactor f = lu_factor(c.x());
       return {lu_solve(f.LU, f.pivots, c.x(1))}; }},
    {"slogdet", [](const Call& c) -> Outputs {
       const SignLog d = slogdet(c.x());
       return {d.sign, d.logabsdet}; }},
    {"lu_factor", [](const Call& c) -> Outputs {
       const LUFactor f = lu_factor(c.x());
       return {f.LU, f.pivots}; }},
    {"lu", [](const Call& c) -> Outputs {
       const LU f = lu(c.x());
       return {f.P, f.L, f.U}; }},
    {"qr", [](const Call& c) -> Outputs {
       const QR f = qr(c.x(), c.text("mode", "reduced"));
       return {f.Q, f.R}; }},
    MOTE_ROW("eigvalsh", eigvalsh(c.x(), c.text("UPLO", "L"))),
    {"eigh_abs", [](const Call& c) -> Outputs {
       const Eigen e = eigh(c.x());
       return {e.eigenvalues, e.eigenvectors.abs()}; }},
    {"svd_abs", [](const Call& c) -> Outputs {
       const SVD f = svd(c.x(), false);
       return {f.U.abs(), f.S, f.Vh.abs()}; }},
    MOTE_ROW("symmetric_exp", matrix_exp(c.x() - c.x().mT())),
    MOTE_ROW("matrix_power", matrix_power(c.x(), c.integer("n"))),
    {"matrix_norm", run_norm},
    MOTE_ROW("vector_norm", vector_norm(c.x(), c.real("ord"))),
    MOTE_ROW("cond", cond(c.x(), c.real("p"))),
    MOTE_ROW("multi_dot", multi_dot(c.inputs)),
    MOTE_ROW("vecdot", vecdot(c.x(0), c.x(1))),
    MOTE_ROW("tensorinv", tensorinv(c.x(), c.integer("ind"))),
    MOTE_ROW("tensorsolve", tensorsolve(c.x(0), c.x(1))),
};

}  // namespace

std::span<const TestedOp> linalg_rows() { return rows; }

}  // namespace mote::test
