// Shapes that are large enough for the loops that GPUs get: vectors, folds of rows and columns by
// blocks, tiles of registers, tiles that are turned.
#include <doctest/doctest.h>
#include <mote/tensor.h>

#include <cmath>

#include "test/gpu.h"

using namespace mote;

namespace {

Tensor numbers(const std::vector<int64_t>& shape, DType dtype) {
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  std::vector<float> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  return from_data(v, shape).to(dtype).realize();
}

struct Case {
  const char* name;
  Tensor (*f)(const Tensor& a, const Tensor& b);
  std::vector<int64_t> a, b;
  DType dtype = DType::f32;
};

Tensor product(const Tensor& a, const Tensor& b) { return a.matmul(b); }
Tensor softmax(const Tensor& a, const Tensor&) { return a.softmax(-1); }
Tensor rows(const Tensor& a, const Tensor&) { return a.sum(1); }
Tensor columns(const Tensor& a, const Tensor&) { return a.sum(0); }

// clang-format off
const Case cases[] = {
    {"elements", [](const Tensor& a, const Tensor&) { return a * 2.0f + 1.0f; }, {300, 256}, {1}},
    {"rows", rows, {5, 1024}, {1}},
    {"rows of no whole vectors", rows, {70, 1023}, {1}},
    {"rows of no whole rounds", rows, {3, 1284}, {1}},
    {"columns", columns, {515, 70}, {1}},
    {"softmax", softmax, {3, 4096}, {1}},
    {"softmax, odd", softmax, {3, 1021}, {1}},
    {"softmax of halves", softmax, {2, 2056}, {1}, DType::f16},
    {"turned", [](const Tensor& a, const Tensor&) { return a.t().contiguous(); }, {70, 100}, {1}},
    {"turned beside", [](const Tensor& a, const Tensor& b) { return a.t() + b; }, {64, 96},
     {96, 64}},
    {"product", product, {128, 48}, {48, 64}},
    {"product, odd", product, {131, 51}, {51, 67}},
    {"product, turned right", [](const Tensor& a, const Tensor& b) { return a.matmul(b.t()); },
     {67, 48}, {68, 48}},
    {"product, turned left", [](const Tensor& a, const Tensor& b) { return a.t().matmul(b); },
     {48, 64}, {48, 72}},
    {"product of many tiles", product, {256, 20}, {20, 200}},
    {"product of bf16", product, {130, 70}, {70, 136}, DType::bf16},
    {"product of halves", product, {128, 64}, {64, 128}, DType::f16},
    {"product of halves, odd", product, {130, 70}, {70, 136}, DType::f16},
    {"product of halves, turned", [](const Tensor& a, const Tensor& b) { return a.matmul(b.t()); },
     {128, 48}, {136, 48}, DType::f16},
};
// clang-format on

}  // namespace

TEST_CASE("blocks: shapes large enough for all that GPUs do agree with the CPU") {
  std::vector<std::string> devices{"SIMT", "SIMT_SMALL", "SIMT_BROWSER"};
  if (test::has_cuda()) devices.push_back("CUDA");
  for (const Case& c : cases) {
    const Tensor a = numbers(c.a, c.dtype), b = numbers(c.b, c.dtype);
    const std::vector<float> wanted = c.f(a, b).to(DType::f32).to_vector<float>();
    const float near = c.dtype == DType::f32 ? 1e-4f : 2e-2f;
    for (const std::string& device : devices) {
      if (c.dtype != DType::f32 && device == "SIMT_BROWSER") continue;
      CAPTURE(std::string(c.name));
      CAPTURE(device);
      const std::vector<float> got =
          c.f(a.to(device), b.to(device)).to(DType::f32).to_vector<float>();
      REQUIRE(got.size() == wanted.size());
      int wrong = 0;
      for (size_t i = 0; i < got.size(); ++i)
        wrong += !(std::fabs(got[i] - wanted[i]) <= near * (1 + std::fabs(wanted[i])));
      CHECK(wrong == 0);
    }
  }
}
