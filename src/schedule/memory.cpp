// Temporaries with disjoint lifetimes share memory: greedy best fit, largest first.
#include <algorithm>

#include "schedule/schedule.h"

namespace mote {

int64_t Plan::arena_bytes() const {
  int64_t sum = 0;
  for (auto [device, bytes] : arenas) sum += bytes;
  return sum;
}

void plan_memory(Plan& plan) {
  constexpr int64_t kAlign = 64;
  struct Life {
    int buffer, first, last;
    int64_t bytes;
  };
  std::vector<Life> lives;
  std::vector<int> at(plan.buffers.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i)
    for (int b : plan.steps[i].buffers) {
      const PlannedBuffer& buffer = plan.buffers[static_cast<size_t>(b)];
      if (buffer.param >= 0) continue;
      int& life = at[static_cast<size_t>(b)];
      if (life < 0) {
        life = static_cast<int>(lives.size());
        int64_t bytes = (buffer.bytes() + kAlign - 1) / kAlign * kAlign;
        lives.push_back({b, static_cast<int>(i), 0, std::max(bytes, kAlign)});
      }
      lives[static_cast<size_t>(life)].last = static_cast<int>(i);
    }
  std::ranges::stable_sort(lives, std::greater<>(), &Life::bytes);
  auto device_of = [&](const Life& l) {
    return plan.buffers[static_cast<size_t>(l.buffer)].device;
  };
  std::vector<Life> placed;
  for (const Life& life : lives) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const Life& p : placed)
      if (device_of(p) == device_of(life) && p.first <= life.last && life.first <= p.last)
        taken.emplace_back(plan.buffers[static_cast<size_t>(p.buffer)].offset, p.bytes);
    std::ranges::sort(taken);
    int64_t best = -1, best_gap = 0, end = 0;
    for (auto [offset, bytes] : taken) {
      int64_t gap = offset - end;
      if (gap >= life.bytes && (best < 0 || gap < best_gap)) best = end, best_gap = gap;
      end = std::max(end, offset + bytes);
    }
    if (best < 0) best = end;
    plan.buffers[static_cast<size_t>(life.buffer)].offset = best;
    int64_t& arena = plan.arenas[device_of(life)];
    arena = std::max(arena, best + life.bytes);
    plan.unplanned_bytes += life.bytes;
    placed.push_back(life);
  }
}

}  // namespace mote
