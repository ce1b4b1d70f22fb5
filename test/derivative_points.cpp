#include "test/derivative_points.h"

#include <chrono>
#include <cmath>
#include <limits>

#include "test/amount.h"

namespace mote::test {

uint64_t point_seed() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return seed_or(static_cast<uint64_t>(now) % 1000000);
}

double Points::rounded(double v) const {
  return dtype_ == DType::f32 ? static_cast<double>(static_cast<float>(v)) : v;
}

double Points::any() {
  static constexpr double marks[] = {0, 0.25, 0.5, 1,  1.5, 2,   3,   6,
                                     9, 20,   30,  88, 89,  100, 104, 709};
  const double sign = below(2) ? 1 : -1, mark = sign * marks[below(std::size(marks))];
  switch (below(6)) {
    case 0: return mark;
    case 1: return mark * (1 + uniform(-1, 1) * std::ldexp(1.0, -static_cast<int>(below(52))));
    case 2: return mark + uniform(-1, 1) * std::ldexp(1.0, -static_cast<int>(below(60)));
    case 3:
      return sign * std::pow(10, dtype_ == DType::f32 ? uniform(-38, 38) : uniform(-307, 307));
    case 4: return uniform(-120, 120);
    default: return uniform(-4, 4);
  }
}

double Points::next(double lo, double hi) {
  for (int tries = 0; tries < 50; ++tries)
    if (double v = rounded(any()); v >= lo && v <= hi) return lo == 0 && v == 0 ? 0 : v;
  const double ends[] = {lo, hi, 0};
  const double v = rounded(below(2) ? ends[below(2)] : lo + (hi - lo) * uniform(0, 1));
  return std::isfinite(v) && v >= lo && v <= hi ? v : rounded(std::isfinite(lo) ? lo : hi);
}

Values Points::many(size_t count, double lo, double hi) {
  Values out;
  for (double end : {lo, hi})
    if (std::isfinite(end) && rounded(end) == end) out.push_back(end);
  while (out.size() < count) out.push_back(next(lo, hi));
  return out;
}

bool is_near(double got, long double want, DType dtype, Slack slack) {
  const bool narrow = dtype == DType::f32;
  const double epsilon =
      narrow ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  const double most =
      narrow ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  const double least =
      narrow ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  if (std::isnan(want)) return true;
  if (std::isnan(got)) return false;
  const double error = slack.relative * epsilon;
  if (std::fabs(want) > most / 16 && std::isinf(got)) return (got > 0) == (want > 0);
  if (std::fabs(want) > most)
    return (got > 0) == (want > 0) && std::fabs(got) >= most * (1 - error);
  const long double room = error * std::fabs(want) + slack.absolute * epsilon + 4 * least;
  return std::fabs(static_cast<long double>(got) - want) <= room;
}

}  // namespace mote::test
