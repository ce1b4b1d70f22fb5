// Temporaries with disjoint lifetimes share memory: greedy best fit, largest first.
#include <algorithm>

#include "schedule/schedule.h"

namespace mote {

namespace {

constexpr int64_t kAlign = 64;

struct Life {
  int buffer, first, last;  // the steps between which it is needed
  int64_t bytes;
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
        int64_t bytes = size_add(buffer.bytes(), kAlign - 1) / kAlign * kAlign;
        lives.push_back({b, static_cast<int>(i), 0, std::max(bytes, kAlign)});
      }
      lives[static_cast<size_t>(life)].last = static_cast<int>(i);
    }
  return lives;
}

// What was placed, in the order of offsets, so that one scan finds all gaps. When it lives stands
// apart from where it is: most are only asked for the first.
struct Placed {
  struct When {
    int first, last;
  };
  struct Where {
    int64_t offset, end;
  };
  std::vector<When> when;
  std::vector<Where> where;

  // The smallest gap that is large enough among those that live at the same time.
  int64_t best_offset(const Life& life) const {
    int64_t best = -1, best_gap = 0, end = 0;
    for (size_t i = 0; i < when.size(); ++i) {
      if (when[i].last < life.first || life.last < when[i].first) continue;
      int64_t gap = where[i].offset - end;
      if (gap == life.bytes) return end;  // none fits better
      if (gap >= life.bytes && (best < 0 || gap < best_gap)) best = end, best_gap = gap;
      end = std::max(end, where[i].end);
    }
    return best < 0 ? end : best;
  }

  void add(const Life& life, int64_t offset) {
    auto at = std::ranges::upper_bound(where, offset, {}, &Where::offset);
    when.insert(when.begin() + (at - where.begin()), {life.first, life.last});
    where.insert(at, {offset, offset + life.bytes});
  }
};

void plan_device(Plan& plan, std::vector<Life> lives, int64_t& arena) {
  std::ranges::stable_sort(lives, std::greater<>(), &Life::bytes);
  for (const Life& life : lives)
    plan.unplanned_bytes = size_add(plan.unplanned_bytes, life.bytes);
  Placed placed;
  for (const Life& life : lives) {
    const int64_t offset = placed.best_offset(life);
    placed.add(life, offset);
    plan.buffers[static_cast<size_t>(life.buffer)].offset = offset;
    arena = std::max(arena, offset + life.bytes);
  }
}

}  // namespace

int64_t Plan::arena_bytes() const {
  int64_t sum = 0;
  for (auto [device, bytes] : arenas) sum += bytes;
  return sum;
}

void plan_memory(Plan& plan) {
  std::map<uint8_t, std::vector<Life>> by_device;
  for (const Life& life : lives_of(plan))
    by_device[plan.buffers[static_cast<size_t>(life.buffer)].device].push_back(life);
  for (auto& [device, lives] : by_device) plan_device(plan, std::move(lives), plan.arenas[device]);
}

}  // namespace mote
