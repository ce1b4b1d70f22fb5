// `mote bench cuda`: kernels on the GPU beside a large copy and cuBLAS, measured in the same run.
#include <dlfcn.h>
#include <mote/jit.h>
#include <mote/tensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "cli/bench.h"
#include "runtime/device.h"

namespace mote {

namespace {

constexpr const char* kDevice = "CUDA";
constexpr int kSamples = 9;
constexpr double kSampleMs = 5;  // about how long a sample takes

using Run = std::function<void()>;

// ---- cuBLAS, opened at run time

struct Cublas {
  using Create = int (*)(void**);
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int,
                       const void*, int, int, const void*, void*, int, int, int, int);
  void* handle = nullptr;
  Gemm gemm = nullptr;

  Cublas() {
    void* library = nullptr;
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
                             "/usr/local/cuda/lib64/libcublas.so"})
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    const auto create = reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2"));
    gemm = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
    if (!create || create(&handle)) gemm = nullptr;
  }

  // c = a b of row-major n x n matrices: b^T a^T of the library's column-major ones.
  void multiply(int n, bool narrow, uint64_t a, uint64_t b, uint64_t c) const {
    constexpr int kBf16 = 14, kF32 = 0, kComputeF32 = 68;  // as in library_types.h
    const int type = narrow ? kBf16 : kF32;
    const float one = 1, zero = 0;
    auto at = [](uint64_t p) { return reinterpret_cast<void*>(p); };
    const int failed = gemm(handle, 0, 0, n, n, n, &one, at(b), type, n, at(a), type, n, &zero,
                            at(c), type, n, kComputeF32, -1);
    check(!failed, "[bench] cuBLAS fails with ", failed);
  }
};

// ---- rows

struct Row {
  const char* name;
  double bytes, flops;              // of one run
  std::function<Run()> ours, peer;  // a peer may be empty
};

template <class F>
Run captured(F f, std::vector<Tensor> inputs) {
  auto compiled = std::make_shared<Jit<std::function<Tensor(const std::vector<Tensor>&)>>>(
      jit(std::function<Tensor(const std::vector<Tensor>&)>(std::move(f))));
  auto result = std::make_shared<Tensor>();
  return [=] {
    *result = Tensor();  // so that a replay writes where the one before it did
    *result = (*compiled)(inputs);
  };
}

// From -1 to 1, without an order that a product or a sum would show.
Tensor scattered(const Sizes& shape, DType dtype) {
  const Tensor x = ones(shape, {.device = kDevice}).reshape({-1});
  const Tensor at = arange(x.numel(), {.dtype = DType::i64, .device = kDevice});
  return (at.fmod(9973).to(DType::f32) * 0.731f).sin().reshape(shape).to(dtype).realize();
}

constexpr int64_t kHeight = 16384, kWidth = 8192, kSide = 4096;
constexpr double kBytes = 4.0 * kHeight * kWidth;

Row stream_row(const char* name, double bytes, Tensor (*f)(const Tensor&),
               DType dtype = DType::f32) {
  return {name,
          bytes,
          0,
          [=] {
            return captured([f](const std::vector<Tensor>& in) { return f(in[0]); },
                            {scattered({kHeight, kWidth}, dtype)});
          },
          {}};
}

// Memory of numbers of either sign, from 1/2 to 2: how fast products are depends on the factors.
std::shared_ptr<MemoryBlock> filled(Device& d, int64_t count, DType dtype) {
  const bool narrow = dtype == DType::bf16;
  std::vector<uint32_t> words(static_cast<size_t>(count * size_of(dtype) / 4));
  uint32_t state = 1;
  for (uint32_t& w : words) {
    state = state * 1664525 + 1013904223;
    w = narrow ? 0x3f003f00 | (state & 0x80ff80ff) : 0x3f000000 | (state & 0x80ffffff);
  }
  auto memory = MemoryBlock::allocate(d, count * size_of(dtype), "a peer");
  d.copy_in(memory->address(), words.data(), count * size_of(dtype), {}).wait();
  return memory;
}

Row product_row(const char* name, DType dtype) {
  auto peer = [dtype]() -> Run {
    static const Cublas library;
    if (!library.gemm) return {};
    Device& d = device(kDevice);
    std::vector<std::shared_ptr<MemoryBlock>> memory;
    for (int i = 0; i < 3; ++i) memory.push_back(filled(d, kSide * kSide, dtype));
    return [=] {
      library.multiply(kSide, dtype == DType::bf16, memory[0]->address().handle,
                       memory[1]->address().handle, memory[2]->address().handle);
    };
  };
  return {name, 0, 2.0 * kSide * kSide * kSide,
          [dtype] {
            return captured([](const std::vector<Tensor>& in) { return in[0].matmul(in[1]); },
                            {scattered({kSide, kSide}, dtype), scattered({kSide, kSide}, dtype)});
          },
          peer};
}

std::vector<Row> rows() {
  return {
      stream_row("negation", 2 * kBytes, [](const Tensor& x) { return -x; }),
      stream_row("x gelu(1.5 x + 0.5)", 2 * kBytes,
                 [](const Tensor& x) { return x * (x * 1.5f + 0.5f).gelu(); }),
      stream_row("sum all", kBytes, [](const Tensor& x) { return x.sum(); }),
      stream_row("sum axis 0", kBytes, [](const Tensor& x) { return x.sum(0); }),
      stream_row("sum rows", kBytes, [](const Tensor& x) { return x.sum(1); }),
      stream_row("softmax", 2 * kBytes, [](const Tensor& x) { return x.softmax(-1); }),
      stream_row(
          "softmax bf16", kBytes, [](const Tensor& x) { return x.softmax(-1); }, DType::bf16),
      stream_row("transposed copy", 2 * kBytes, [](const Tensor& x) { return x.t().contiguous(); }),
      product_row("f32 product 4096", DType::f32),
      product_row("bf16 product 4096", DType::bf16),
  };
}

// ---- timing

double milliseconds(const Run& run, int times) {
  Device& d = device(kDevice);
  d.synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) run();
  d.synchronize();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count() / times;
}

double median_ms(const Run& run) {
  for (int i = 0; i < 3; ++i) run();  // called, captured, replayed
  const int times = std::clamp(static_cast<int>(kSampleMs / milliseconds(run, 1)), 1, 100);
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) samples.push_back(milliseconds(run, times));
  std::ranges::nth_element(samples, samples.begin() + kSamples / 2);
  return samples[kSamples / 2];
}

void print_row(const Row& row, bool json, bool first) {
  const double ms = median_ms(row.ours());
  const Run peer = row.peer ? row.peer() : Run();
  const double peer_ms = peer ? median_ms(peer) : 0;
  const double gbs = row.bytes / ms / 1e6, tflops = row.flops / ms / 1e9;
  if (json)
    std::printf("%s  {\"name\": \"%s\", \"ms\": %s, \"gbs\": %s, \"tflops\": %s, \"peer_ms\": %s}",
                first ? "" : ",\n", row.name, fixed_text(ms, 5).c_str(), fixed_text(gbs, 1).c_str(),
                fixed_text(tflops, 3).c_str(), fixed_text(peer_ms, 5).c_str());
  else
    std::printf("%-22s %10s %8s %9s %10s %7s\n", row.name, fixed_text(ms, 4).c_str(),
                row.bytes > 0 ? fixed_text(gbs, 0).c_str() : "-",
                row.flops > 0 ? fixed_text(tflops, 1).c_str() : "-",
                peer ? fixed_text(peer_ms, 4).c_str() : "-",
                peer ? fixed_text(peer_ms / ms, 3).c_str() : "-");
  std::fflush(stdout);
}

}  // namespace

int bench_cuda(const Words& words) {
  device(kDevice);  // an error says why there is none
  const std::string only = words.text("only");
  const bool json = words.has("json");
  if (json)
    std::printf("[\n");
  else
    std::printf("%-22s %10s %8s %9s %10s %7s\n", "row", "ms", "GB/s", "TFLOP/s", "cuBLAS ms",
                "ratio");
  bool first = true;
  for (const Row& row : rows())
    if (only.empty() || is_among(row.name, only))
      print_row(row, json, std::exchange(first, false));
  if (json) std::printf("\n]\n");
  return 0;
}

}  // namespace mote
