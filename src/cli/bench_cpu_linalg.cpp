// Rows of `mote bench cpu`: factors and equations beside LAPACK.
#include <mote/linalg.h>

#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

namespace la = mote::linalg;

// What LAPACK works in. Its matrices are stored by columns: it gets the transposed one, which is as
// much work.
struct Work {
  int n;
  Array given, right;  // what a run starts from
  std::vector<float> a, b, c, values, scratch;
  std::vector<int> whole;
  Work(int size, Array matrix, Array other)
      : n(size),
        given(std::move(matrix)),
        right(std::move(other)),
        a(count()),
        b(count()),
        c(count()),
        values(static_cast<size_t>(4 * n)),
        scratch(count() * 24 + 4096),
        whole(static_cast<size_t>(64 * n + 4096)) {}
  size_t count() const { return static_cast<size_t>(n) * static_cast<size_t>(n); }
};

// Calls the function of LAPACK with these, by reference.
template <class... A>
void call(const char* name, A*... arguments) {
  int info = 0;
  reinterpret_cast<void (*)(A * ..., int*)>(lapack(name))(arguments..., &info);
  check(info == 0, "[bench cpu] ", name, " says ", info);
}

enum class Kind { Any, Definite, Symmetric };

struct Factor {
  const char* name;
  const char* peer;  // its functions
  Kind kind;
  Tensor (*ours)(const Tensor& a, const Tensor& b);
  void (*run)(Work& w);
  Tensor (*back)(const Tensor& result, const Tensor& a, const Tensor& b);  // what should be zeros
};

Tensor joined(const Tensor& a, const Tensor& b) { return cat({a, b}, 0); }
Tensor top(const Tensor& t, int64_t rows) { return t.narrow(0, 0, rows); }
Tensor below(const Tensor& t, int64_t row) { return t.narrow(0, row, t.size(0) - row); }

const Factor factors[] = {
    {"cholesky",   "spotrf",            Kind::Definite,
     [](const Tensor& a,                                                     const Tensor&) { return la::cholesky(a); },
     [](Work& w) { call("spotrf_", const_cast<char*>("U"), &w.n, w.a.data(), &w.n); },
     [](const Tensor& l,                                                                                   const Tensor& a, const Tensor&) { return l.matmul(l.t()) - a; }     },
    {"lu",         "sgetrf",            Kind::Any,       [](const Tensor& a, const Tensor&) { return la::lu_factor(a).LU; },
     [](Work& w) { call("sgetrf_", &w.n, &w.n, w.a.data(), &w.n, w.whole.data()); },
     [](const Tensor& f,                                                                                   const Tensor& a, const Tensor&) {
       Tensor one = mote::eye(a.size(0), a.size(0), {a.dtype(), {}});
       return (f.tril(-1) + one).matmul(f.triu()) - la::lu(a).P.to(a.dtype()).t().matmul(a);
     }                                              },
    {"qr",         "sgeqrf and sorgqr", Kind::Any,
     [](const Tensor& a,                                                     const Tensor&) {
       const la::QR f = la::qr(a);
       return joined(f.Q, f.R);
     },                                                                                                              [](Work& w) {
       int room = static_cast<int>(w.scratch.size());
       call("sgeqrf_", &w.n, &w.n, w.a.data(), &w.n, w.values.data(), w.scratch.data(), &room);
       w.c = w.a;  // R
       call("sorgqr_", &w.n, &w.n, &w.n, w.a.data(), &w.n, w.values.data(), w.scratch.data(),
            &room);
     },                                                 [](const Tensor& f, const Tensor& a, const Tensor&) {
       return top(f, a.size(0)).matmul(below(f, a.size(0))) - a;
     }                                              },
    {"solve",      "sgesv",             Kind::Any,       [](const Tensor& a, const Tensor& b) { return la::solve(a, b); },
     [](Work& w) {
       call("sgesv_", &w.n, &w.n, w.a.data(), &w.n, w.whole.data(), w.b.data(), &w.n);
     },                                                                                [](const Tensor& x, const Tensor& a, const Tensor& b) {
       return (a.matmul(x) - b) / x.abs().max().clamp_min(1);
     }                                              },
    {"triangular", "strtrs",            Kind::Definite,
     [](const Tensor& a,                                                     const Tensor& b) { return la::solve_triangular(a, b, false); },
     [](Work& w) {
       call("strtrs_", const_cast<char*>("L"), const_cast<char*>("N"), const_cast<char*>("N"), &w.n,
            &w.n, w.a.data(), &w.n, w.b.data(), &w.n);
     },                                                                                [](const Tensor& x, const Tensor& a, const Tensor& b) { return a.tril().matmul(x) - b; }},
    {"inverse",    "sgetrf and sgetri", Kind::Any,
     [](const Tensor& a,                                                     const Tensor&) { return la::inv(a); },
     [](Work& w) {
       int room = static_cast<int>(w.scratch.size());
       call("sgetrf_", &w.n, &w.n, w.a.data(), &w.n, w.whole.data());
       call("sgetri_", &w.n, w.a.data(), &w.n, w.whole.data(), w.scratch.data(), &room);
     },                                                                                [](const Tensor& x, const Tensor& a, const Tensor&) {
       Tensor one = mote::eye(a.size(0), a.size(0), {a.dtype(), {}});
       return (a.matmul(x) - one) / x.abs().max().clamp_min(1);
     }                                              },
    {"slogdet",    "sgetrf",            Kind::Any,
     [](const Tensor& a,                                                     const Tensor&) { return la::slogdet(a).logabsdet; },
     [](Work& w) { call("sgetrf_", &w.n, &w.n, w.a.data(), &w.n, w.whole.data()); },
     [](const Tensor& d,                                                                                   const Tensor& a, const Tensor&) {
       return (d - la::slogdet(a.to_double()).logabsdet) / static_cast<double>(a.size(0));
     }                                              },
    {"lstsq",      "sgelsd",            Kind::Any,
     [](const Tensor& a,                                                     const Tensor& b) { return la::lstsq(a, b).solution; },
     [](Work& w) {
       int room = static_cast<int>(w.scratch.size()), rank = 0;
       float least = -1;
       call("sgelsd_", &w.n, &w.n, &w.n, w.a.data(), &w.n, w.b.data(), &w.n, w.values.data(),
            &least, &rank, w.scratch.data(), &room, w.whole.data());
     },                                                                                [](const Tensor& x, const Tensor& a, const Tensor& b) {
       return (a.matmul(x) - b) / x.abs().max().clamp_min(1);
     }                                              },
    {"eigh",       "ssyevd",            Kind::Symmetric,
     [](const Tensor& a,                                                     const Tensor&) {
       const la::Eigen e = la::eigh(a);
       return joined(e.eigenvectors, e.eigenvalues.unsqueeze(0));
     },                                                                                                              [](Work& w) {
       int room = static_cast<int>(w.scratch.size()), places = static_cast<int>(w.whole.size());
       call("ssyevd_", const_cast<char*>("V"), const_cast<char*>("L"), &w.n, w.a.data(), &w.n,
            w.values.data(), w.scratch.data(), &room, w.whole.data(), &places);
     },                                                 [](const Tensor& e, const Tensor& a, const Tensor&) {
       Tensor v = top(e, a.size(0));
       return (v * below(e, a.size(0))).matmul(v.t()) - a;
     }                                              },
    {"svd",        "sgesdd",            Kind::Any,
     [](const Tensor& a,                                                     const Tensor&) {
       const la::SVD s = la::svd(a);
       return joined(s.U * s.S, s.Vh);
     },                                                                                                              [](Work& w) {
       int room = static_cast<int>(w.scratch.size());
       call("sgesdd_", const_cast<char*>("A"), &w.n, &w.n, w.a.data(), &w.n, w.values.data(),
            w.b.data(), &w.n, w.c.data(), &w.n, w.scratch.data(), &room, w.whole.data());
     },                                                 [](const Tensor& s, const Tensor& a, const Tensor&) {
       return top(s, a.size(0)).matmul(below(s, a.size(0))) - a;
     }                                              },
};

Sides factor_sides(const Factor& f) {
  const int64_t n = sized(256);
  Array given = random(n * n), right = random(n * n);
  Tensor a = given.tensor({n, n});
  if (f.kind == Kind::Symmetric) a.assign((a + a.t()) * 0.5);
  if (f.kind == Kind::Definite)
    a.assign(a.matmul(a.t()) / static_cast<double>(n) + mote::eye(n, n));
  a.realize();
  Tensor b = right.tensor({n, n});
  auto work = std::make_shared<Work>(static_cast<int>(n), given, right);
  Sides s{capture([ours = f.ours](const std::vector<Tensor>& in) { return ours(in[0], in[1]); },
                  {a, b})};
  s.missing = lapack_missing();
  if (s.missing.empty())
    s.peers = {[work, run = f.run] {
      std::ranges::copy(work->given.values(), work->a.begin());
      std::ranges::copy(work->right.values(), work->b.begin());
      run(*work);
    }};
  s.check = [=, result = s.ours.result, back = f.back]() -> std::string {
    Tensor off = back(result->to_double(), a.to_double(), b.to_double()).abs().max();
    const double bound = 50 * static_cast<double>(n) * 0x1p-23 * std::sqrt(static_cast<double>(n));
    const double most = off.item<double>();
    return most <= bound ? "" : text("a residual of ", most, ", more than ", bound);
  };
  return s;
}

}  // namespace

void add_linalg_rows(std::vector<Row>& rows) {
  for (const Factor& f : factors)
    rows.push_back({text("linalg-", f.name, "-256"), text("LAPACK's ", f.peer), 0.3,
                    [&f] { return factor_sides(f); }});
}

}  // namespace mote::bench
