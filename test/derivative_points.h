// Points at which formulas of derivatives break, and what is asked of derivatives there.
#pragma once
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <random>
#include <string>
#include <vector>

#include "test/amount.h"

namespace mote::test {

using Values = std::vector<double>;

// MOTE_TEST_SEED, else of the clock.
uint64_t point_seed();

// Zeros of both signs, ones, small integers and their neighbours, halves, places where functions
// saturate, and magnitudes of the whole range of the dtype; all representable in it, within
// [lo, hi], the ends of which are among them.
class Points {
 public:
  Points(uint64_t seed, DType dtype) : random_(seed), dtype_(dtype) {}
  double next(double lo, double hi);
  Values many(size_t count, double lo, double hi);
  double uniform(double lo, double hi) {
    return std::uniform_real_distribution<double>(lo, hi)(random_);
  }
  size_t below(size_t n) { return random_() % n; }

 private:
  double any();
  double rounded(double v) const;
  std::mt19937_64 random_;
  DType dtype_;
};

// How close a computed derivative must be: relative and absolute, in units of the dtype's epsilon.
struct Slack {
  double relative = 64, absolute = 4;
};
// NaN says that nothing is known. What is beyond the dtype's range may be infinite or as large as
// it gets, what is below the smallest normal number anything small.
bool is_near(double got, long double want, DType dtype, Slack slack);

// check(row, count, dtype, device, seed) for each row of a table; it gives how many derivatives
// it has looked at.
template <class Rows, class Check>
void check_rows(const Rows& rows, Check check, size_t count, DType dtype, const std::string& device,
                uint64_t seed) {
  size_t points = 0, functions = 0;
  for (const auto& row : rows) points += check(row, count, dtype, device, seed + functions++);
  MESSAGE(device, " ", std::string(name(dtype)), ", seed ", seed, ": ", points, " derivatives of ",
          functions, " functions");
}
// As much as a usual run of the tests has time for.
template <class Rows, class Check>
void check_rows(const Rows& rows, Check check) {
  const uint64_t seed = point_seed();
  check_rows(rows, check, scaled<size_t>(400), DType::f32, "CPU", seed);
  check_rows(rows, check, scaled<size_t>(400), DType::f64, "CPU", seed);
  check_rows(rows, check, scaled<size_t>(40), DType::f64, "INTERP", seed);
}

}  // namespace mote::test
