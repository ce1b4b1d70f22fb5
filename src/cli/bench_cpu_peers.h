// The libraries that `mote bench cpu` is held against, opened at run time, and loops compiled in.
// What is not there has a reason in words; calling it then is a mistake of the caller.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench_cpu.h"
#include "cli/line_child.h"

namespace mote::bench {

// Before any library is opened: the number of threads of all of them.
void set_peer_threads(int threads);

// ---- OpenBLAS (bench_cpu_openblas.cpp). Matrices are row-major and whole.
std::string openblas_missing();
struct Gemm {
  int64_t m, k, n;
  bool a_transposed = false, b_transposed = false;
  float scale = 1;
};
void openblas_gemm(const Gemm&, const float* a, const float* b, float* c);
// y = A x, or x A; A has `rows` rows.
void openblas_gemv(bool transposed, int64_t rows, int64_t columns, const float* a, const float* x,
                   float* y);

// LAPACK, which Debian's OpenBLAS has in a library beside it: a function by its name in Fortran.
std::string lapack_missing();
void* lapack(const char* name);

// ---- oneDNN (bench_cpu_onednn.cpp)
std::string onednn_missing();
struct ConvShape {
  int64_t batch, in, out, size, kernel, stride = 1, padding = 0, groups = 1;
  int64_t out_size() const { return (size + 2 * padding - kernel) / stride + 1; }
  int64_t input_count() const { return batch * in * size * size; }
  int64_t output_count() const { return batch * out * out_size() * out_size(); }
  int64_t weight_count() const { return out * (in / groups) * kernel * kernel; }
};
enum class ConvPass { Forward, GradInput, GradWeight };
// Plain layouts at both ends; what the library's own layouts cost is in each run. Takes (input,
// weight), (gradient, weight) or (input, gradient).
Run onednn_conv(const ConvShape&, ConvPass, const Array& a, const Array& b, const Array& out);
// Over the last axis.
Run onednn_softmax(int64_t rows, int64_t columns, bool log, const Array& in, const Array& out);
Run onednn_layer_norm(int64_t rows, int64_t columns, float eps, const Array& in, const Array& scale,
                      const Array& shift, const Array& out);

// ---- loops (bench_cpu_loops.cpp), in vectors as wide as the processor has, on all threads
struct Loops {
  float (*sum)(const float*, int64_t);                                              // one stream
  float (*sum_of_four)(const float*, int64_t);                                      // four streams
  void (*triad)(const float* a, const float* b, float scale, float* out, int64_t);  // a + scale*b
  void (*multiply_add)(const float* a, const float* b, const float* c, float* out, int64_t);
  float (*multiply_adds)(float factor, int64_t rounds);  // of kChains vectors in registers
  int lanes;
};
constexpr int64_t kChains = 16;
const Loops& loops();
extern volatile float kept;      // a result assigned to it has to be computed
double fma_gflops(int threads);  // measured now

// Each thread takes a part: f(first, count).
void in_parts(int64_t count, const std::function<void(int64_t, int64_t)>& f);

// glibc's vector functions: one loop per width that there is. gelu is 0.5 x (1 + erf(x / sqrt 2)).
std::string libmvec_missing(const std::string& name);
std::vector<std::function<void(const float*, float*, int64_t)>> libmvec_loops(
    const std::string& name);
// Rows 0 ... n-1 of n x n scores: softmax of the first row + 1 of them, zeros behind.
void causal_softmax(float* scores, int64_t n);

// ---- PyTorch in a child process (bench_cpu_torch.cpp)
class TorchChild : public LineChild {
 public:
  // A script of tools/ and its words; throws with its last line where it does not get ready.
  TorchChild(const std::string& script, const std::vector<std::string>& words);
};

}  // namespace mote::bench
