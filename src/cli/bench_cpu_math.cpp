// Rows of `mote bench cpu`: functions of one number, on chunks that stay in the cache.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

constexpr int64_t kChunk = 64 << 10;  // 256 KB in, as many out

struct MathRow {
  const char* name;
  float low, high;
  double ulps;      // at most so far from the true value
  double most = 0;  // where x < 0: at most so far in absolute terms instead; 0: as above
  Tensor (*ours)(const Tensor&);
  double (*truth)(double);
};

double true_gelu(double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }

double ulps_between(float got, double wanted) {
  const float near = static_cast<float>(wanted);
  const double step = std::nextafter(std::fabs(near), INFINITY) - std::fabs(near);
  return std::fabs(got - wanted) / step;
}

std::string compare_with_truth(const MathRow& row, const Array& x, const Tensor& got) {
  std::vector<float> values = got.to_vector<float>();
  for (int64_t i = 0; i < x.size(); ++i) {
    const float in = x.data()[i], out = values[static_cast<size_t>(i)];
    const double wanted = row.truth(in);
    const bool absolute = row.most > 0 && in < 0;
    const double error = absolute ? std::fabs(out - wanted) : ulps_between(out, wanted);
    if (error <= (absolute ? row.most : row.ulps)) continue;
    return text(row.name, "(", static_cast<double>(in), ") is ", static_cast<double>(out), ", ",
                error, absolute ? "" : " ulp", " from ", wanted);
  }
  return "";
}

Sides math_sides(const MathRow& row) {
  Array x = random(kChunk, row.low, row.high), out(kChunk);
  Captured ours = capture([row](const std::vector<Tensor>& in) { return row.ours(in[0]); },
                          {x.tensor({kChunk})});
  Sides s{ours};
  s.bytes = 8.0 * kChunk;
  s.missing = libmvec_missing(row.name);
  for (const auto& loop : libmvec_loops(row.name))
    s.peers.push_back([=] { loop(x.data(), out.data(), kChunk); });
  s.check = [=] { return compare_with_truth(row, x, *ours.result); };
  return s;
}

}  // namespace

void add_math_rows(std::vector<Row>& rows) {
  // clang-format off
  const MathRow table[] = {
      {"exp",  -87,   88,  1, 0,    [](const Tensor& x) { return x.exp(); },  std::exp},
      {"log",  1e-6f, 100, 1, 0,    [](const Tensor& x) { return x.log(); },  std::log},
      {"tanh", -9,    9,   1, 0,    [](const Tensor& x) { return x.tanh(); }, std::tanh},
      {"sin",  -100,  100, 2, 0,    [](const Tensor& x) { return x.sin(); },  std::sin},
      {"gelu", -6,    6,   2, 1e-7, [](const Tensor& x) { return x.gelu(); }, true_gelu},
  };
  // clang-format on
  for (const MathRow& m : table)
    rows.push_back({std::string(m.name) + "-64k", "libmvec", 1, [m] { return math_sides(m); }});
}

}  // namespace mote::bench
