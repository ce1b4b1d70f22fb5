// Rows of `mote bench cpu`: products of matrices and vectors.
#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

Sides gemm_sides(Gemm g) {
  g.m = sized(g.m), g.k = sized(g.k), g.n = sized(g.n);
  Array a = random(g.m * g.k), b = random(g.k * g.n), c(g.m * g.n);
  Tensor ta = a.tensor(g.a_transposed ? Sizes{g.k, g.m} : Sizes{g.m, g.k});
  Tensor tb = b.tensor(g.b_transposed ? Sizes{g.n, g.k} : Sizes{g.k, g.n});
  Captured ours = capture(
      [g](const std::vector<Tensor>& in) {
        return (g.a_transposed ? in[0].t() : in[0]).matmul(g.b_transposed ? in[1].t() : in[1]);
      },
      {ta, tb});
  Sides s{ours};
  s.flops = 2.0 * static_cast<double>(g.m * g.k * g.n);
  s.missing = openblas_missing();
  if (s.missing.empty()) s.peers = {[=] { openblas_gemm(g, a.data(), b.data(), c.data()); }};
  s.check = [=] { return compare(*ours.result, c.values()); };
  return s;
}

Sides batched_sides(int64_t batch, Gemm g) {
  batch = sized(batch), g.m = sized(g.m), g.k = sized(g.k), g.n = sized(g.n);
  Array a = random(batch * g.m * g.k), b = random(batch * g.k * g.n), c(batch * g.m * g.n);
  Captured ours = capture([](const std::vector<Tensor>& in) { return in[0].bmm(in[1]); },
                          {a.tensor({batch, g.m, g.k}), b.tensor({batch, g.k, g.n})});
  Sides s{ours};
  s.flops = 2.0 * static_cast<double>(batch * g.m * g.k * g.n);
  s.missing = openblas_missing();
  if (s.missing.empty())
    s.peers = {[=] {
      for (int64_t i = 0; i < batch; ++i)
        openblas_gemm(g, a.data() + i * g.m * g.k, b.data() + i * g.k * g.n,
                      c.data() + i * g.m * g.n);
    }};
  s.check = [=] { return compare(*ours.result, c.values()); };
  return s;
}

Sides gemv_sides(int64_t n, bool transposed) {
  n = sized(n);
  Array a = random(n * n), x = random(n), y(n);
  Captured ours = capture(
      [transposed](const std::vector<Tensor>& in) {
        return (transposed ? in[0].t() : in[0]).mv(in[1]);
      },
      {a.tensor({n, n}), x.tensor({n})});
  Sides s{ours};
  s.flops = 2.0 * static_cast<double>(n * n);
  s.bytes = 4.0 * static_cast<double>(n * n);
  s.missing = openblas_missing();
  if (s.missing.empty())
    s.peers = {[=] { openblas_gemv(transposed, n, n, a.data(), x.data(), y.data()); }};
  s.check = [=] { return compare(*ours.result, y.values()); };
  return s;
}

}  // namespace

void add_matrix_rows(std::vector<Row>& rows) {
  const char* sgemm = "OpenBLAS sgemm";
  const struct {
    const char* name;
    Gemm shape;
  } gemms[] = {
      {"gemm-512",          {512, 512, 512}                },
      {"gemm-1024",         {1024, 1024, 1024}             },
      {"gemm-2048",         {2048, 2048, 2048}             },
      {"gemm-1000x777x333", {1000, 777, 333}               },
      {"gemm-4096x64x4096", {4096, 64, 4096}               },
      {"gemm-64x4096x4096", {64, 4096, 4096}               },
      {"gemm-abt-1024",     {1024, 1024, 1024, false, true}},
      {"gemm-atb-1024",     {1024, 1024, 1024, true, false}},
  };
  for (const auto& g : gemms)
    rows.push_back({g.name, sgemm, 0.9, [g] { return gemm_sides(g.shape); }});
  rows.push_back({"gemm-batched-64x128x64x128", "OpenBLAS sgemm in a loop", 1.3, [] {
                    return batched_sides(64, {128, 64, 128});
                  }});
  rows.push_back({"gemv-ax-4096", "OpenBLAS sgemv", 0.9, [] { return gemv_sides(4096, false); }});
  rows.push_back({"gemv-xa-4096", "OpenBLAS sgemv", 0.9, [] { return gemv_sides(4096, true); }});
}

}  // namespace mote::bench
