// `mote bench cpu`: kernels beside the best libraries, row by row.
//
// A row has two sides that do the same work on the same inputs: ours is a captured function whose
// replays write to the same memory, so what is timed is its kernels and the few microseconds a
// replay takes; the peer's is a call into a library, a loop compiled in, or a child process. Both
// sides run in turn, warm or cold alike, and medians are compared.
#pragma once
#include <mote/tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mote::bench {

using Run = std::function<void()>;

// Our side: f(inputs), captured.
using Function = std::function<Tensor(const std::vector<Tensor>&)>;
struct Captured {
  Run run;
  std::shared_ptr<Tensor> result = {};  // of the latest run
  // The same once more, on a device, as the flags are; empty where a row is more than a function.
  std::function<Tensor(const std::string& device)> on = {};
};

struct Sides {
  Captured ours;
  std::vector<Run> peers;  // the fastest one counts; none: `missing` says why
  std::string missing;
  double flops = 0, bytes = 0;         // of one run; 0: not told
  std::function<std::string()> check;  // after all have run: what is wrong with our result, or ""
};

struct Row {
  std::string name, peer;
  double bar;
  std::function<Sides()> make;  // takes the row's memory, which its sides hold
};

std::vector<Row> all_rows();
// For tests: while it lives, rows are as small as an interpreter can do.
struct SmallRows {
  SmallRows();
  ~SmallRows();
};
int64_t sized(int64_t n);  // n, or less

// The table, by the file that has them.
void add_matrix_rows(std::vector<Row>&);     // bench_cpu_matrices.cpp
void add_linalg_rows(std::vector<Row>&);     // bench_cpu_linalg.cpp
void add_stream_rows(std::vector<Row>&);     // bench_cpu_streams.cpp
void add_norm_rows(std::vector<Row>&);       // bench_cpu_streams.cpp
void add_copy_rows(std::vector<Row>&);       // bench_cpu_streams.cpp
void add_conv_rows(std::vector<Row>&);       // bench_cpu_convs.cpp
void add_attention_rows(std::vector<Row>&);  // bench_cpu_models.cpp
void add_model_rows(std::vector<Row>&);      // bench_cpu_models.cpp
void add_math_rows(std::vector<Row>&);       // bench_cpu_math.cpp
void add_variable_rows(std::vector<Row>&);   // bench_cpu_variables.cpp

// ---- what rows are made of (bench_cpu_sides.cpp)

// Floats in memory like that of tensors: aligned, in large pages where there are many.
class Array {
 public:
  Array() = default;
  explicit Array(int64_t count);
  float* data() const { return memory_.get(); }
  int64_t size() const { return count_; }
  std::span<const float> values() const { return {data(), static_cast<size_t>(count_)}; }
  Tensor tensor(const Sizes& shape) const;  // in this memory, and keeping it

 private:
  std::shared_ptr<float> memory_;
  int64_t count_ = 0;
};
Array random(int64_t count, float low = -1, float high = 1);  // others in each call

Captured capture(Function f, std::vector<Tensor> inputs);

// What is wrong with `got`, or "": an element differs from the one wanted by more than `tolerance`
// of it, or of the mean size of all where it is smaller than that.
std::string compare(const Tensor& got, std::span<const float> wanted, double tolerance = 1e-4);

}  // namespace mote::bench
