// Loops that `mote bench cpu` compares with: streams of memory, glibc's vector functions, and
// multiply-adds for the processor's peak. Compiled with -O3 -ffast-math, once per vector width.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/integers.h"
#include "base/threads.h"
#include "cli/bench_cpu_peers.h"
#include "runtime/cpu_info.h"

namespace mote::bench {

volatile float kept = 0;

namespace {

template <int lanes>
struct VectorOf {
  typedef float Type __attribute__((vector_size(lanes * 4), aligned(4)));
  typedef float Whole __attribute__((vector_size(lanes * 4)));
};
#define INLINE inline __attribute__((always_inline))

// The function types of libmvec.
template <int lanes>
using VectorFunction = typename VectorOf<lanes>::Whole (*)(typename VectorOf<lanes>::Whole);

template <int lanes>
INLINE float sum_of(const float* p, int64_t n) {
  using V = typename VectorOf<lanes>::Type;
  constexpr int kSums = 8;
  V sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * lanes <= n; i += kSums * lanes)
    for (int u = 0; u < kSums; ++u) sums[u] += *reinterpret_cast<const V*>(p + i + u * lanes);
  float total = 0;
  for (int u = 0; u < kSums; ++u)
    for (int l = 0; l < lanes; ++l) total += sums[u][l];
  for (; i < n; ++i) total += p[i];
  return total;
}

template <int lanes>
INLINE float sum_of_four_streams(const float* p, int64_t n) {
  using V = typename VectorOf<lanes>::Type;
  const int64_t part = n / 4 / (2 * lanes) * (2 * lanes);
  V sums[8] = {};
  for (int64_t i = 0; i < part; i += 2 * lanes)
    for (int64_t s = 0; s < 4; ++s)
      for (int u = 0; u < 2; ++u)
        sums[s * 2 + u] += *reinterpret_cast<const V*>(p + s * part + i + u * lanes);
  float total = 0;
  for (int u = 0; u < 8; ++u)
    for (int l = 0; l < lanes; ++l) total += sums[u][l];
  for (int64_t i = 4 * part; i < n; ++i) total += p[i];
  return total;
}

template <int lanes>
INLINE void triad_of(const float* a, const float* b, float scale, float* out, int64_t n) {
  using V = typename VectorOf<lanes>::Type;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    *reinterpret_cast<V*>(out + i) =
        *reinterpret_cast<const V*>(a + i) + scale * *reinterpret_cast<const V*>(b + i);
  for (; i < n; ++i) out[i] = a[i] + scale * b[i];
}

template <int lanes>
INLINE void multiply_add_of(const float* a, const float* b, const float* c, float* out, int64_t n) {
  using V = typename VectorOf<lanes>::Type;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    *reinterpret_cast<V*>(out + i) =
        *reinterpret_cast<const V*>(a + i) * *reinterpret_cast<const V*>(b + i) +
        *reinterpret_cast<const V*>(c + i);
  for (; i < n; ++i) out[i] = a[i] * b[i] + c[i];
}

// Chains that do not depend on each other, more than the units can have under way; each starts
// elsewhere, or the compiler would make one of them.
template <int lanes>
INLINE float multiply_adds_of(float factor, int64_t rounds) {
  using V = typename VectorOf<lanes>::Whole;
  V sums[kChains];
  for (int u = 0; u < kChains; ++u) sums[u] = V{} + static_cast<float>(u);
  for (int64_t i = 0; i < rounds; ++i)
    for (int u = 0; u < kChains; ++u) sums[u] = sums[u] * factor + 1.0f;
  float total = 0;
  for (int u = 0; u < kChains; ++u) total += sums[u][0];
  return total;
}

template <int lanes>
INLINE void map_by(void* function, const float* in, float* out, int64_t n) {
  using V = typename VectorOf<lanes>::Type;
  auto f = reinterpret_cast<VectorFunction<lanes>>(function);
  for (int64_t i = 0; i + lanes <= n; i += lanes)
    *reinterpret_cast<V*>(out + i) = f(*reinterpret_cast<const V*>(in + i));
}

template <int lanes>
INLINE void gelu_by(void* erf, const float* in, float* out, int64_t n) {
  using V = typename VectorOf<lanes>::Type;
  auto f = reinterpret_cast<VectorFunction<lanes>>(erf);
  for (int64_t i = 0; i + lanes <= n; i += lanes) {
    auto x = *reinterpret_cast<const V*>(in + i);
    *reinterpret_cast<V*>(out + i) = 0.5f * x * (1.0f + f(x * 0.70710678f));
  }
}

// exp(x - top) in place; returns their sum. `n` is a multiple of the lanes.
template <int lanes>
INLINE float exp_and_sum_by(void* exp, float* x, float top, int64_t n) {
  using V = typename VectorOf<lanes>::Type;
  auto f = reinterpret_cast<VectorFunction<lanes>>(exp);
  typename VectorOf<lanes>::Whole sums = {};
  for (int64_t i = 0; i < n; i += lanes) {
    auto e = f(*reinterpret_cast<V*>(x + i) - top);
    *reinterpret_cast<V*>(x + i) = e;
    sums += e;
  }
  float total = 0;
  for (int l = 0; l < lanes; ++l) total += sums[l];
  return total;
}

// The loops for one width, each a function of its own.
struct WidthLoops : Loops {
  void (*map)(void* function, const float*, float*, int64_t);
  void (*gelu)(void* erf, const float*, float*, int64_t);
  float (*exp_and_sum)(void* exp, float*, float top, int64_t);
  const char* mark;  // in the names of libmvec's functions
};
// clang-format off: it takes an empty argument for the end of a declaration
#define LOOPS_OF_WIDTH(NAME, LANES, MARK, TARGET)                                                  \
  TARGET float sum_##NAME(const float* p, int64_t n) { return sum_of<LANES>(p, n); }               \
  TARGET float four_##NAME(const float* p, int64_t n) { return sum_of_four_streams<LANES>(p, n); } \
  TARGET void triad_##NAME(const float* a, const float* b, float s, float* out, int64_t n) {       \
    triad_of<LANES>(a, b, s, out, n);                                                              \
  }                                                                                                \
  TARGET void muladd_##NAME(const float* a, const float* b, const float* c, float* out,            \
                            int64_t n) {                                                           \
    multiply_add_of<LANES>(a, b, c, out, n);                                                       \
  }                                                                                                \
  TARGET float fmas_##NAME(float f, int64_t n) { return multiply_adds_of<LANES>(f, n); }           \
  TARGET void map_##NAME(void* f, const float* in, float* out, int64_t n) {                        \
    map_by<LANES>(f, in, out, n);                                                                  \
  }                                                                                                \
  TARGET void gelu_##NAME(void* f, const float* in, float* out, int64_t n) {                       \
    gelu_by<LANES>(f, in, out, n);                                                                 \
  }                                                                                                \
  TARGET float exps_##NAME(void* f, float* x, float top, int64_t n) {                              \
    return exp_and_sum_by<LANES>(f, x, top, n);                                                    \
  }                                                                                                \
  constexpr WidthLoops loops_##NAME = {                                                            \
      {sum_##NAME, four_##NAME, triad_##NAME, muladd_##NAME, fmas_##NAME, LANES},                  \
      map_##NAME,                                                                                  \
      gelu_##NAME,                                                                                 \
      exps_##NAME,                                                                                 \
      MARK                                                                                         \
  };

LOOPS_OF_WIDTH(narrow, 4, "_ZGVbN4v_", )
#if defined(__x86_64__)
LOOPS_OF_WIDTH(half, 8, "_ZGVdN8v_", __attribute__((target("avx2,fma"))))
LOOPS_OF_WIDTH(wide, 16, "_ZGVeN16v_", __attribute__((target("avx512f,fma"))))
#endif
// clang-format on

// The widths that this processor has, the widest first.
std::vector<const WidthLoops*> usable_widths() {
  std::vector<const WidthLoops*> out;
#if defined(__x86_64__)
  if (cpu_info().vector_bytes >= 64) out.push_back(&loops_wide);
  if (cpu_info().vector_bytes >= 32 && cpu_info().fma) out.push_back(&loops_half);
#endif
  out.push_back(&loops_narrow);
  return out;
}

void* libmvec_function(const WidthLoops& width, const std::string& name) {
  static void* library = dlopen("libmvec.so.1", RTLD_NOW);
  const std::string scalar = name == "gelu" ? "erff" : name + "f";
  return library ? dlsym(library, (width.mark + scalar).c_str()) : nullptr;
}

}  // namespace

const Loops& loops() {
  static const WidthLoops* widest = usable_widths()[0];
  return *widest;
}

void in_parts(int64_t count, const std::function<void(int64_t, int64_t)>& f) {
  constexpr int64_t kStep = 1024;  // whole vectors and lines for each
  const int64_t parts = thread_count(), steps = count / kStep;
  if (parts == 1 || steps < parts) return f(0, count);
  parallel_for(parts, [&](int64_t i) {
    const int64_t first = steps * i / parts * kStep;
    f(first, (i + 1 == parts ? count : steps * (i + 1) / parts * kStep) - first);
  });
}

double fma_gflops(int threads) {
  constexpr int64_t kRounds = 2'000'000;
  const int before = thread_count();
  set_thread_count(threads);
  double best = 0;
  for (int i = 0; i < 7; ++i) {
    auto start = std::chrono::steady_clock::now();
    parallel_for(threads, [&](int64_t) { kept = loops().multiply_adds(0.5f, kRounds); });
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kChains * loops().lanes * kRounds * threads / took.count());
  }
  set_thread_count(before);
  return best;
}

std::string libmvec_missing(const std::string& name) {
  for (const WidthLoops* width : usable_widths())
    if (libmvec_function(*width, name)) return "";
  return "this system's libmvec has no " + name;
}

std::vector<std::function<void(const float*, float*, int64_t)>> libmvec_loops(
    const std::string& name) {
  std::vector<std::function<void(const float*, float*, int64_t)>> out;
  for (const WidthLoops* width : usable_widths()) {
    void* f = libmvec_function(*width, name);
    auto loop = name == "gelu" ? width->gelu : width->map;
    if (f && width->lanes > 4)
      out.push_back([f, loop](const float* in, float* result, int64_t n) {
        in_parts(n,
                 [&](int64_t first, int64_t count) { loop(f, in + first, result + first, count); });
      });
  }
  return out;
}

void causal_softmax(float* scores, int64_t n) {
  static const WidthLoops* width = usable_widths()[0];
  static void* exp = libmvec_function(*width, "exp");
  in_parts(n * n, [&](int64_t first, int64_t count) {
    for (int64_t row = first / n; row < (first + count) / n; ++row) {
      float* x = scores + row * n;
      const int64_t used = row + 1,
                    padded = round_up(used, width->lanes);
      float top = *std::max_element(x, x + used);
      std::fill(x + used, x + n, -std::numeric_limits<float>::max() / 2);
      float sum = 0;
      if (exp && padded <= n)
        sum = width->exp_and_sum(exp, x, top, padded);
      else
        for (int64_t i = 0; i < used; ++i) sum += x[i] = std::exp(x[i] - top);
      std::fill(x + used, x + n, 0.0f);
      for (int64_t i = 0; i < used; ++i) x[i] /= sum;
    }
  });
}

}  // namespace mote::bench
