// Points at which formulas of derivatives break, and what is asked of derivatives there.
#pragma once
#include <mote/mote.h>

#include <random>
#include <string>
#include <vector>

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

}  // namespace mote::test
