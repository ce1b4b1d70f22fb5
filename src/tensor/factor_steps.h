// What factors are made of: loops over steps, and values that stay in memory between them.
#pragma once
#include "tensor/factor.h"

namespace mote::factor {

constexpr int64_t kAtOnce = 16;  // steps that become one schedule
constexpr int64_t kPanel = 32;   // columns that are done step by step; more are halved

// A value that its readers find in memory.
Tensor stored(const Tensor& t);
// The same, made now: for what is computed from it at several times.
Tensor kept(const Tensor& t);

// Positions of rows and of columns, to be compared with a step.
Tensor rows_of(const Tensor& t);
Tensor columns_of(const Tensor& t);
Tensor column(const Tensor& t, const Tensor& k);
Tensor row(const Tensor& t, const Tensor& k);
// (batch, n) of positions: rows of t in that order.
Tensor in_order(const Tensor& t, const Tensor& order);

// The direction, of length sqrt(2), of the reflection that leaves in column k nothing below row
// `from` and changes nothing above; or 0 where there is none to make. The signs are LAPACK's.
Tensor direction(const Tensor& a, const Tensor& k, const Tensor& from);
// The reflections of v, the last one first (or the first one), of x: x - v T (v^T x), where the
// inverse of T is 1 on its diagonal and holds the products of the directions above it.
Tensor reflect(const Tensor& v, const Tensor& x, bool last_first);

// Of a symmetric matrix by Jacobi's method, which takes n rounds and more for each of some sweeps.
Spectrum eigh_by_rotations(const Tensor& a);

// Reads what is realized from memory also where a derivative is made.
class AsRealized {
 public:
  AsRealized() : before_(UnrealizedScope::open) { UnrealizedScope::open = false; }
  ~AsRealized() { UnrealizedScope::open = before_; }
  AsRealized(const AsRealized&) = delete;

 private:
  bool before_;
};

// Runs step(k, state) for `count` steps from `first` on, upwards or downwards. k is (1), i32. What
// a step does not change stays where it is.
template <class Step>
void run_steps(int64_t first, int64_t count, int64_t by, std::vector<Tensor>& state, Step step) {
  const AsRealized from_memory;
  Tensor k = stored(full({1}, first, {DType::i32, state[0].device()}));
  for (Tensor& t : state) t = stored(t);
  std::vector<Tensor> next = state;
  next.push_back(k);
  realize(next);
  for (int64_t i = 0; i < count; ++i) {
    next = state;
    step(k, next);
    for (size_t t = 0; t < state.size(); ++t)
      if (next[t].impl() != state[t].impl()) state[t] = stored(next[t]);
    k = stored(k + by);
    if (i % kAtOnce < kAtOnce - 1 && i < count - 1) continue;
    next = state;
    next.push_back(k);
    realize(next);
  }
}

}  // namespace mote::factor
