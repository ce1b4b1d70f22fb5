// The results of both sides of a row of `mote bench wide`.
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "cli/bench_wide.h"

namespace mote::wide {

namespace {

struct Moments {
  double sum = 0, squares = 0, count = 0;
  void add(double v) { sum += v, squares += v * v, count += 1; }
  double mean() const { return sum / count; }
  double spread() const { return std::sqrt(std::max(0.0, squares / count - mean() * mean())); }
};

// Values drawn at random agree where mean and spread do.
template <class T>
std::string compare_moments(const std::vector<T>& got, const std::vector<T>& wanted) {
  Moments a, b;
  for (const T v : got) a.add(static_cast<double>(v));
  for (const T v : wanted) b.add(static_cast<double>(v));
  const double allowed = 10 * b.spread() / std::sqrt(b.count) + 1e-6;
  if (std::fabs(a.mean() - b.mean()) <= 2 * allowed &&
      std::fabs(a.spread() - b.spread()) <= 2 * allowed)
    return "";
  return text("mean ", a.mean(), " and spread ", a.spread(), ", wanted ", b.mean(), " and ",
              b.spread());
}

// Differences count against the size of the value, or the mean size where it is smaller.
template <class T>
std::string compare_values(const std::vector<T>& got, const std::vector<T>& wanted,
                           double tolerance) {
  double mean = 0;
  for (const T w : wanted)
    mean += std::isfinite(static_cast<double>(w)) ? std::fabs(static_cast<double>(w)) : 0;
  mean /= static_cast<double>(std::max<size_t>(1, wanted.size()));
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double g = static_cast<double>(got[i]), w = static_cast<double>(wanted[i]);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    const double error = std::fabs(g - w) / std::max(std::fabs(w), mean);
    if (error <= worst) continue;
    where = i, worst = std::isnan(error) ? INFINITY : error;
  }
  if (worst <= tolerance) return "";
  return text("element ", where, " of ", wanted.size(), " is ", static_cast<double>(got[where]),
              ", wanted ", static_cast<double>(wanted[where]), ": off by ", worst, " of it");
}

template <class T>
std::string compare_one(std::ifstream& file, size_t count, const Tensor& got,
                        const Script& script) {
  std::vector<T> wanted(count);
  file.read(reinterpret_cast<char*>(wanted.data()),
            static_cast<std::streamsize>(count * sizeof(T)));
  check(bool(file), "PyTorch's results are cut short");
  const std::vector<T> values = got.to_vector<T>();
  if (values.size() != count) return text(values.size(), " elements, wanted ", count);
  if (script.is_random()) return compare_moments(values, wanted);
  const bool narrow = got.dtype() == DType::f16 || got.dtype() == DType::bf16;
  const double otherwise = !std::is_floating_point_v<T> ? 0 : narrow ? 2e-2 : 1e-3;
  return compare_values(values, wanted, script.tolerance(otherwise));
}

}  // namespace

std::string compare_results(const std::string& path, const std::vector<Tensor>& got,
                            const Script& script) {
  std::ifstream file(path, std::ios::binary);
  int64_t head[2];
  size_t i = 0;
  for (; file.read(reinterpret_cast<char*>(head), sizeof head); ++i) {
    if (i >= got.size()) return "PyTorch has more results";
    const size_t count = static_cast<size_t>(head[1]);
    std::string wrong = head[0] ? compare_one<float>(file, count, got[i], script)
                                : compare_one<int64_t>(file, count, got[i], script);
    if (!wrong.empty()) return text("result ", i, ": ", wrong);
  }
  return i == got.size() ? "" : "PyTorch has fewer results";
}

}  // namespace mote::wide
