// What the rows of `mote bench cpu` are made of.
#include <mote/jit.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/integers.h"
#include "base/random.h"
#include "cli/bench_cpu.h"
#include "runtime/device.h"

namespace mote::bench {

namespace {

constexpr size_t kPage = 4 << 10, kHugePage = 2 << 20;

struct DefaultDevice {
  std::string before = default_device();
  explicit DefaultDevice(const std::string& name) { set_default_device(name); }
  ~DefaultDevice() { set_default_device(before); }
};

}  // namespace

Array::Array(int64_t count) : count_(count) {
  size_t bytes = static_cast<size_t>(count) * sizeof(float);
  const size_t align = bytes < 2 * kHugePage ? kPage : kHugePage;
  bytes = round_up(bytes, align);
  auto* p = static_cast<float*>(std::aligned_alloc(align, bytes));
  check(p, "[bench] out of memory: ", bytes, " bytes requested");
  if (align == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);
  std::fill_n(p, count, 0.0f);  // its pages are there before anything is timed
  memory_.reset(p, std::free);
}

Tensor Array::tensor(const Sizes& shape) const {
  using Held = std::shared_ptr<float>;
  auto drop = [](void* held) { delete static_cast<Held*>(held); };
  return from_blob(data(), shape, DType::f32, drop, new Held(memory_));
}

Array random(int64_t count, float low, float high) {
  static uint32_t calls = 0;
  Array out(count);
  uint32_t state = 0x9e3779b9u * ++calls;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    out.data()[i] = low + (high - low) * static_cast<float>(state >> 8) * 0x1p-24f;
  }
  return out;
}

static bool small_rows = false;
SmallRows::SmallRows() { small_rows = true; }
SmallRows::~SmallRows() { small_rows = false; }
// Odd sizes, for edges.
int64_t sized(int64_t n) { return small_rows && n > 9 ? 7 + n / 32 : n; }

Captured capture(Function f, std::vector<Tensor> inputs) {
  auto on = [f, inputs](const std::string& name) {
    const DefaultDevice scope(name);  // what f makes itself
    std::vector<Tensor> there;
    for (const Tensor& t : inputs) there.push_back(t.to(name));
    return f(there).realize();
  };
  auto compiled = std::make_shared<Jit<Function>>(jit(std::move(f)));
  auto result = std::make_shared<Tensor>();
  auto run = [compiled, result, inputs = std::move(inputs)] {
    *result = Tensor();  // so that a replay writes where the one before it did
    *result = (*compiled)(inputs);
    device("CPU").synchronize();
  };
  return {run, result, on};
}

std::string compare(const Tensor& got, std::span<const float> wanted, double tolerance) {
  std::vector<float> values = got.to_vector<float>();
  if (values.size() != wanted.size())
    return text(values.size(), " elements, wanted ", wanted.size());
  double mean = 0;
  for (float w : wanted) mean += std::fabs(w);
  mean /= static_cast<double>(wanted.size());
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double off = std::fabs(static_cast<double>(values[i]) - wanted[i]);
    const double error = off / std::max<double>(std::fabs(wanted[i]), mean);
    if (error <= worst || off == 0) continue;
    worst = error, where = i;
    if (std::isnan(error)) break;
  }
  if (worst <= tolerance) return "";
  return text("element ", where, " is ", static_cast<double>(values[where]), ", wanted ",
              static_cast<double>(wanted[where]), ": off by ", worst, " of it");
}

}  // namespace mote::bench
