// What factors must be: near to exact at any condition number, orthogonal where they should be, the
// same in batches, in a jit and where derivatives are made; and what users' mistakes print.
#include <doctest/doctest.h>
#include <mote/linalg.h>
#include <mote/mote.h>

#include <cmath>
#include <random>

#include "test/amount.h"
#include "test/error_of.h"

using namespace mote;
using namespace mote::linalg;

namespace {

double eps_of(const Tensor& t) { return t.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23; }
double largest(const Tensor& t) { return t.abs().max().item<double>(); }
double bound(const Tensor& a) {
  return 50 * static_cast<double>(std::max(a.size(-1), a.size(-2))) * eps_of(a);
}
// |a - b| by the size of what is approximated.
void check_near(const char* what, const Tensor& a, const Tensor& b, double size, double most) {
  const double off = largest(a.to_double() - b.to_double());
  CHECK_MESSAGE(off <= most * std::max(size, 1e-300), std::string(what), ": ", off, " of ", size);
}
Tensor unit(int64_t n, DType d) { return mote::eye(n, n, {d, {}}); }
void check_orthogonal(const char* what, const Tensor& q, double most) {
  Tensor wide = q.to_double();
  check_near(what, wide.mT().matmul(wide), unit(q.size(-1), DType::f64), 1, most);
}
// With singular values from 1 down to 1/condition; 0: half of them are 0.
Tensor with_condition(int64_t n, int64_t m, double condition, DType d) {
  const int64_t k = std::min(n, m);
  Tensor left = qr(randn({n, k}, {DType::f64, {}})).Q,
         right = qr(randn({m, k}, {DType::f64, {}})).Q;
  Tensor at = arange(Number(k), {DType::f64, {}}) / std::max<double>(1, static_cast<double>(k - 1));
  Tensor s = condition > 0 ? mote::pow(1 / condition, at) : (at < 0.5).to_double();
  return (left * s).matmul(right.t()).to(d).realize();
}

void check_factors(const Tensor& a) {
  const double size = largest(a.to_double().norm()), most = bound(a);
  const int64_t n = a.size(0), m = a.size(1), k = std::min(n, m);
  Tensor wide = a.to_double();
  const QR f = qr(a);
  check_orthogonal("q", f.Q, most);
  check_near("q r", f.Q.to_double().matmul(f.R.to_double()), wide, size, most);
  const LU p = lu(a);
  check_near("p l u", p.P.to_double().matmul(p.L.to_double()).matmul(p.U.to_double()), wide, size,
             most);
  const SVD s = svd(a, false), full = svd(a);
  check_orthogonal("u", s.U, most);
  check_orthogonal("v", s.Vh.mT(), most);
  check_orthogonal("all of u", full.U, most);
  check_orthogonal("all of v", full.Vh.mT(), most);
  CHECK((s.S.narrow(0, 0, k - 1) >= s.S.narrow(0, 1, k - 1)).all().item<bool>());
  check_near("u s v", (s.U.to_double() * s.S.to_double()).matmul(s.Vh.to_double()), wide, size,
             most);
  if (n != m) return;
  Tensor symmetric = (a + a.t()) * 0.5;
  const Eigen e = eigh(symmetric);
  check_orthogonal("eigenvectors", e.eigenvectors, most);
  Tensor v = e.eigenvectors.to_double();
  check_near("v w v^T", (v * e.eigenvalues.to_double()).matmul(v.t()), symmetric.to_double(), size,
             most);
  Tensor x = solve(a, a.t());  // a small residual, however far the solution is from the true one
  const double scale = size * largest(x.to_double()) + size;
  if (std::isfinite(scale)) check_near("a x", wide.matmul(x.to_double()), wide.t(), scale, most);
}

const char* const kinds[] = {"random",    "zeros",       "ones",      "identity",
                             "graded",    "clustered",   "of rank 3", "nearly singular",
                             "Hilbert's", "of far rows", "large",     "small"};
Tensor matrix_of(const std::string& kind, int64_t n, int64_t m, DType d) {
  const Options o{d, {}};
  const int64_t k = std::min(n, m);
  Tensor at = arange(k, {DType::f64, {}}) / static_cast<double>(std::max<int64_t>(1, k - 1));
  auto with = [&](const Tensor& values) {
    Tensor left = qr(randn({n, k}, {DType::f64, {}})).Q,
           right = qr(randn({m, k}, {DType::f64, {}})).Q;
    return (left * values).matmul(right.t()).to(d).realize();
  };
  if (kind == "zeros") return zeros({n, m}, o);
  if (kind == "ones") return ones({n, m}, o);
  if (kind == "identity") return (mote::eye(n, m, o) * 3).realize();
  if (kind == "graded") return with(mote::pow(1e-12, at));
  if (kind == "clustered") return with((at > 0.5).to_double() + at * 1e-7 + 1e-3);
  if (kind == "of rank 3") return with((at < 3.0 / static_cast<double>(k)).to_double());
  if (kind == "nearly singular")
    return with(mote::where(at < 1, 1, eps_of(ones({1}, o))).to_double());
  Tensor row = arange(n, o).unsqueeze(1);
  if (kind == "Hilbert's") return (1 / (row + arange(m, o) + 1)).realize();
  Tensor any = randn({n, m}, o);
  if (kind == "of far rows")
    return (any * mote::pow(1e-10, row / static_cast<double>(n))).realize();
  return (any * (kind == "large" ? 1e18 : kind == "small" ? 1e-18 : 1)).realize();
}

// What is solved with a square matrix, by the residuals of the equations.
void check_equations(const Tensor& a) {
  const int64_t n = a.size(0);
  const double size = largest(a.to_double().norm()), most = bound(a);
  if (size == 0 || !std::isfinite(size)) return;
  Tensor b = randn({n, 2}, {a.dtype(), {}}).realize(), one = unit(n, a.dtype());
  Tensor scaled = (a / size).realize(), wide = scaled.to_double();
  auto near = [&](const char* what, const Tensor& x, const Tensor& wanted, double scale) {
    if (std::isfinite(scale)) check_near(what, x.to_double(), wanted.to_double(), scale, most);
  };
  Tensor inverse = inv(scaled), x = inverse.to_double();
  near("a a^-1", wide.matmul(x), one, largest(x.norm()));
  Tensor definite = (scaled.matmul(scaled.t()) + one * 1e-3).realize(), l = cholesky(definite);
  Tensor low = l.to_double();
  near("l l^T", low.matmul(low.t()), definite, 1);
  Tensor y = solve_triangular(l, b, false).to_double();
  near("l y", low.matmul(y), b, largest(low) * largest(y) + largest(b));
  const SignLog whole = slogdet(definite);
  CHECK(whole.sign.item<double>() == 1);
  near("log det", whole.logabsdet, low.diagonal().log().sum() * 2, static_cast<double>(n) * 10);
  Tensor plus = pinv(scaled).to_double();
  near("a a+ a", wide.matmul(plus).matmul(wide), wide, largest(plus.norm()));
  Tensor best = lstsq(scaled, b).solution.to_double(), rest = wide.matmul(best) - b.to_double();
  const double pull = largest(best) + largest(b);
  near("rest, of what a reaches", plus.matmul(rest), zeros({n, 2}), largest(plus.norm()) * pull);
  near("e^a e^-a", matrix_exp(scaled).to_double().matmul(matrix_exp(-scaled).to_double()), one, 8);
  near("a^3", matrix_power(scaled, 3), wide.matmul(wide).matmul(wide), 1);
}

void check_all(const std::string& kind, int64_t n, int64_t m, DType d) {
  CAPTURE(kind);
  CAPTURE(n);
  CAPTURE(m);
  CAPTURE(static_cast<int>(d));
  const Tensor a = matrix_of(kind, n, m, d);
  check_factors(a);
  if (n == m) check_equations(a);
}

TEST_CASE("linalg: a sample of odd matrices has factors") {
  const uint64_t seed = test::seed_or(std::random_device{}());
  MESSAGE("seed ", seed);
  manual_seed(seed);
  std::mt19937_64 draw(seed);
  // One size: what is compiled for one kind serves the other.
  for (int i = 0; i < 2; ++i) check_all(kinds[draw() % std::size(kinds)], 70, 70, DType::f32);
}

TEST_CASE("linalg: all odd matrices have factors" * doctest::test_suite("soak")) {
  manual_seed(12);
  for (const char* kind : kinds)
    for (int64_t n : {1, 2, 3, 31, 64, 65, 100, 256, 512}) {
      const std::string name = kind;
      const bool is_hard = name == "graded" || name == "clustered" || name == "Hilbert's";
      if (n > 100 && name != "random" && !is_hard) continue;
      check_all(kind, n, n, DType::f32);
      if (n <= 256) check_all(kind, n, n, DType::f64);
      if (n <= 256) check_all(kind, n + 13, n, DType::f32);
    }
  Tensor both =
      stack({matrix_of("random", 70, 70, DType::f32), matrix_of("graded", 70, 70, DType::f32)});
  for (int64_t i = 0; i < 2; ++i) {  // a batch is its matrices
    check_near("values", svdvals(both)[i], svdvals(both[i]), largest(both[i]), 1e-5);
    Tensor l = eigvalsh(both)[i];
    check_near("eigenvalues", l, eigvalsh(both[i]), largest(both[i]) * 10, 1e-5);
  }
}

TEST_CASE("linalg: factors are near to exact at any condition number") {
  manual_seed(5);
  for (DType d : {DType::f32, DType::f64})
    for (double condition : {1.0, 1e12, 0.0})
      for (auto [n, m] : {
               std::pair{19, 19},
               {20, 7 },
               {7,  20}
      }) {
        CAPTURE(condition);
        CAPTURE(n);
        CAPTURE(m);
        CAPTURE(static_cast<int>(d));
        check_factors(with_condition(n, m, condition, d));
      }
}

TEST_CASE("linalg: matrices of several panels have factors") {
  manual_seed(8);
  Tensor a = with_condition(70, 70, 1e6, DType::f32), wide = a.to_double();
  const double size = largest(wide.norm()), most = bound(a);
  const LU p = lu(a);
  check_near("p l u", p.P.to_double().matmul(p.L.to_double()).matmul(p.U.to_double()), wide, size,
             most);
  CHECK(largest(p.L) <= 1);  // by partial pivoting
  const LUFactor f = lu_factor(a);
  Tensor b = randn({70, 3}).realize(), x = solve(a, b);
  check_near("two ways", lu_solve(f.LU, f.pivots, b), x, largest(x), 1e-1);
  check_near("a x", a.matmul(x), b, size * largest(x), most);
  Tensor definite = (a.matmul(a.t()) + unit(70, DType::f32)).realize(), l = cholesky(definite);
  check_near("l l^T", l.to_double().matmul(l.to_double().t()), definite.to_double(),
             largest(definite.norm()), most);
  Tensor low = lu(a.narrow(1, 0, 40)).L, high = lu(a.narrow(0, 0, 40)).U;
  CHECK(low.shape() == std::vector<int64_t>{70, 40});
  CHECK(high.shape() == std::vector<int64_t>{40, 70});
}

TEST_CASE("linalg: matrices of zeros, ones, equal rows and far scales have factors") {
  for (double scale : {1.0, 1e-30, 1e30}) {
    CAPTURE(scale);
    check_factors((ones({6, 6}) * scale).realize());
    check_factors((unit(5, DType::f32) * scale).realize());
    check_factors((arange(24).reshape({6, 4}).to_float() * scale).realize());
  }
  check_factors(zeros({4, 4}).realize());
  check_factors(diag(tensor({3.f, -3.f, 3.f, 0.f, -3.f})).realize());
}

TEST_CASE("linalg: a Cholesky factor of what is not positive definite is NaN") {
  Tensor l = cholesky(tensor({
      {1.f, 2.f},
      {2.f, 1.f}
  }));
  CHECK(l(0, 0).item<float>() == 1);
  CHECK(std::isnan(l(1, 1).item<float>()));
}

TEST_CASE("linalg: a singular matrix has determinant 0 and an infinite inverse") {
  Tensor a = tensor({
      {1.f, 2.f},
      {2.f, 4.f}
  });
  CHECK(det(a).item<float>() == 0);
  CHECK(slogdet(a).logabsdet.item<float>() == -INFINITY);
  CHECK_FALSE(inv(a).isfinite().all().item<bool>());
}

TEST_CASE("linalg: a jit computes with the matrix of each call") {
  manual_seed(6);
  auto inverse = jit([](const Tensor& a) { return inv(a); });
  auto values = jit([](const Tensor& a) { return svdvals(a); });
  for (int i = 0; i < 4; ++i) {
    Tensor a = (randn({9, 9}) + unit(9, DType::f32) * 5).realize();
    check_near("a a^-1", inverse(a).matmul(a), unit(9, DType::f32), 1, 1e-5);
    check_near("values", values(a), svdvals(a), 10, 1e-6);
  }
}

// Of random directions: the derivative of a smooth function of the factors.
void check_slope(const char* what, Tensor (*f)(const Tensor& a), const Tensor& a) {
  Tensor way = randn(a.sizes(), {DType::f64, {}}).realize();
  Tensor x = a.clone().requires_grad_();
  f(x).backward();
  const double slope = (x.grad() * way).sum().item<double>(), h = 1e-5;
  const double seen = (f(a + way * h).item<double>() - f(a - way * h).item<double>()) / (2 * h);
  CHECK_MESSAGE(std::fabs(slope - seen) <= 1e-6 * (1 + std::fabs(seen)), std::string(what), ": ",
                slope, ", differences show ", seen);
}

TEST_CASE("linalg: derivatives are those that differences show") {
  manual_seed(7);
  Tensor a = (randn({5, 5}, {DType::f64, {}}) + unit(5, DType::f64) * 3).realize();
  Tensor tall = randn({6, 4}, {DType::f64, {}}).realize();
  check_slope(
      "inv", [](const Tensor& t) { return inv(t).square().sum(); }, a);
  check_slope(
      "det", [](const Tensor& t) { return det(t); }, a);
  check_slope(
      "pinv", [](const Tensor& t) { return pinv(t).sin().sum(); }, tall);
  check_slope(
      "lstsq", [](const Tensor& t) { return lstsq(t, t.square()).solution.sin().sum(); }, tall);
  check_slope(
      "lu", [](const Tensor& t) { return lu(t).U.sin().sum() + lu(t).L.sin().sum(); }, a);
  check_slope(
      "qr", [](const Tensor& t) { return qr(t).Q.sin().sum() + qr(t).R.sin().sum(); }, tall);
  check_slope(
      "cholesky", [](const Tensor& t) { return cholesky(t.matmul(t.t())).sin().sum(); }, a);
  check_slope(
      "eigh",
      [](const Tensor& t) {
        const Eigen e = eigh(t + t.t());
        return e.eigenvectors.square().sin().sum() + e.eigenvalues.sin().sum();
      },
      a);
  check_slope(
      "svd",
      [](const Tensor& t) {
        const SVD s = svd(t, false);
        return s.U.square().sin().sum() + s.Vh.square().sin().sum() + s.S.sin().sum();
      },
      tall);
  check_slope(
      "nuclear norm", [](const Tensor& t) { return matrix_norm(t, "nuc"); }, tall);
  check_slope(
      "matrix_exp", [](const Tensor& t) { return matrix_exp(t * 0.3).sin().sum(); }, a);
}

TEST_CASE("linalg: second derivatives are those of the equations") {
  Tensor a = tensor(
                 {
                     {2.0,  0.5},
                     {0.25, 1.0}
  },
                 {DType::f64, {}})
                 .requires_grad_();
  Tensor slope = det(a).gradient({a})[0];  // the adjugate: its derivative is constant
  Tensor bend = (slope(0, 0) * 2 + slope(0, 1)).gradient({a})[0];
  CHECK(bend(1, 1).item<double>() == doctest::Approx(2));
  CHECK(bend(1, 0).item<double>() == doctest::Approx(-1));
  CHECK(bend(0, 0).item<double>() == doctest::Approx(0));
}

TEST_CASE("linalg: errors name the function and the shapes") {
  Tensor a = ones({2, 3}), whole = ones({2, 2}, DType::i64);
  auto said = [](auto f) { return error_of(f); };
  CHECK(said([&] { inv(a); }).find("[inv] needs square matrices, got shape (2, 3)") !=
        std::string::npos);
  CHECK(said([&] { det(whole); }).find("[det] needs floats, got i64") != std::string::npos);
  CHECK(said([&] {
          solve(ones({3, 3}), ones({2, 2}));
        }).find("[solve] shapes") != std::string::npos);
  CHECK(said([&] { qr(a, "half"); }).find("[qr] mode is reduced, complete or r, got half") !=
        std::string::npos);
  CHECK(said([&] { svd(ones({3})); }).find("[svd] needs matrices") != std::string::npos);
}

}  // namespace
