// OpenBLAS, opened at run time.
#include <dlfcn.h>

#include <cstdlib>

#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;  // as in cblas.h

struct Library {
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  using Sgemv = void (*)(int, int, int, int, float, const float*, int, const float*, int, float,
                         float*, int);
  Sgemm sgemm = nullptr;
  Sgemv sgemv = nullptr;

  Library() {
    void* opened = nullptr;
    // The build with threads of its own first; the one under the plain name may be any other.
    for (const char* name : {"/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
                             "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0",
                             "libopenblas.so.0", "libopenblas.so"})
      if (!opened) opened = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!opened) return;
    sgemm = reinterpret_cast<Sgemm>(dlsym(opened, "cblas_sgemm"));
    sgemv = reinterpret_cast<Sgemv>(dlsym(opened, "cblas_sgemv"));
  }
};
const Library& library() {
  static const Library it;
  return it;
}

}  // namespace

void set_peer_threads(int threads) {
  const std::string count = std::to_string(threads);
  for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "GOTO_NUM_THREADS"})
    setenv(name, count.c_str(), 1);
}

std::string openblas_missing() {
  return library().sgemm && library().sgemv ? "" : "no OpenBLAS (package libopenblas0-pthread)";
}

static void* lapack_library() {
  static void* const opened = [] {
    void* found = nullptr;
    for (const char* name : {"/usr/lib/x86_64-linux-gnu/openblas-pthread/liblapack.so.3",
                             "/usr/lib/aarch64-linux-gnu/openblas-pthread/liblapack.so.3",
                             "liblapack.so.3"})
      if (!found) found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return found;
  }();
  return opened;
}

std::string lapack_missing() {
  return lapack_library() ? "" : "no LAPACK (package libopenblas0-pthread)";
}

void* lapack(const char* name) { return dlsym(lapack_library(), name); }

void openblas_gemm(const Gemm& g, const float* a, const float* b, float* c) {
  const int m = static_cast<int>(g.m), k = static_cast<int>(g.k), n = static_cast<int>(g.n);
  library().sgemm(kRowMajor, g.a_transposed ? kTransposed : kPlain,
                  g.b_transposed ? kTransposed : kPlain, m, n, k, g.scale, a,
                  g.a_transposed ? m : k, b, g.b_transposed ? k : n, 0, c, n);
}

void openblas_gemv(bool transposed, int64_t rows, int64_t columns, const float* a, const float* x,
                   float* y) {
  const int width = static_cast<int>(columns);
  library().sgemv(kRowMajor, transposed ? kTransposed : kPlain, static_cast<int>(rows), width, 1, a,
                  width, x, 1, 0, y, 1);
}

}  // namespace mote::bench
