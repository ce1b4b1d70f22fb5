// Temporaries with disjoint lifetimes share memory: greedy best fit, largest first.
#include <algorithm>

#include "schedule/schedule.h"

namespace mote {

namespace {

constexpr int64_t kAlign = 64;

struct Life {
  int buffer, first, last;  // the steps between which it is needed
  int64_t bytes, offset;
};

// Lives in the order of their first step.
std::vector<Life> lives_of(const Plan& plan) {
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
        lives.push_back({b, static_cast<int>(i), 0, std::max(bytes, kAlign), 0});
      }
      lives[static_cast<size_t>(life)].last = static_cast<int>(i);
    }
  return lives;
}

// The smallest gap that is large enough among those that live at the same time; `placed` is in the
// order of offsets, so that one scan finds all gaps.
int64_t best_offset(const Life& life, const std::vector<Life>& placed) {
  int64_t best = -1, best_gap = 0, end = 0;
  for (const Life& p : placed) {
    if (p.last < life.first || life.last < p.first) continue;
    int64_t gap = p.offset - end;
    if (gap >= life.bytes && (best < 0 || gap < best_gap)) best = end, best_gap = gap;
    end = std::max(end, p.offset + p.bytes);
  }
  return best < 0 ? end : best;
}

}  // namespace

int64_t Plan::arena_bytes() const {
  int64_t sum = 0;
  for (auto [device, bytes] : arenas) sum += bytes;
  return sum;
}

void plan_memory(Plan& plan) {
  std::vector<Life> lives = lives_of(plan);
  std::ranges::stable_sort(lives, std::greater<>(), &Life::bytes);
  std::map<uint8_t, std::vector<Life>> placed;
  for (Life& life : lives) {
    PlannedBuffer& buffer = plan.buffers[static_cast<size_t>(life.buffer)];
    std::vector<Life>& there = placed[buffer.device];
    buffer.offset = life.offset = best_offset(life, there);
    there.insert(std::ranges::upper_bound(there, life.offset, {}, &Life::offset), life);
    int64_t& arena = plan.arenas[buffer.device];
    arena = std::max(arena, life.offset + life.bytes);
    plan.unplanned_bytes += life.bytes;
  }
}

}  // namespace mote
