#include "runtime/gpu_target.h"

namespace mote {

namespace {

// mma.sync m16n8k16: rows of a lane are lane / 4, its columns pairs of lane % 4.
Fragment mma_of(const char* name, DType factor) {
  Fragment f{.name = name,
             .rows = 16,
             .columns = 8,
             .depth = 16,
             .lanes = 32,
             .factor = factor,
             .sum = DType::f32};
  f.a = {
      {{0, 2},  {0, 4}, {1, 0}, {2, 0}, {4, 0}},
      {{0, 1}, {8, 0},       {0, 8}       }
  };
  f.b = {
      {{2, 0},  {4, 0}, {0, 1}, {0, 2}, {0, 4}},
      {{1, 0}, {8, 0}}
  };
  f.c = {
      {{0, 2},  {0, 4}, {1, 0}, {2, 0}, {4, 0}},
      {{0, 1}, {8, 0}}
  };
  return f;
}

// What an architecture and all later ones have.
struct FragmentRow {
  int since;
  const char* name;
  DType factor;
};
constexpr FragmentRow fragment_rows[] = {
    {80, "mma16x8x16.bf16", DType::bf16},
    {80, "mma16x8x16.f16",  DType::f16 },
};
constexpr int kCopiesSince = 80, kBf16Since = 80;

}  // namespace

Target gpu_target(const GpuNumbers& n) {
  Target t;
  t.workers = n.workers, t.warp = 32;
  t.shared_bytes = n.shared_bytes;
  t.copies = n.architecture >= kCopiesSince;
  t.max_blocks = INT32_MAX;
  for (const FragmentRow& r : fragment_rows)
    if (n.architecture >= r.since) t.fragments.push_back(mma_of(r.name, r.factor));
  t.parallel_results = n.processors;
  t.vector_bytes = 16, t.vector_registers = 64;
  t.fma = true;
  t.narrow_index = true;
  t.l1_bytes = 256 << 10, t.l2_bytes = t.cache_bytes = n.l2_bytes;
  auto without = [&](DType d) { t.dtypes &= ~(1u << static_cast<int>(d)); };
  for (DType d : {DType::f8e4m3, DType::f8e5m2}) without(d);
  if (n.architecture < kBf16Since) without(DType::bf16);
  return t;
}

}  // namespace mote
