// Temporaries with disjoint lifetimes share memory: greedy best fit, long lives and large ones
// first.
#include <algorithm>
#include <functional>
#include <span>

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

constexpr int kShort = 32;  // steps
bool is_short(const Life& life) { return life.last - life.first < kShort; }

// A life that has its place.
struct Stay {
  int first, last;
  int64_t offset, end;
  bool meets(const Life& life) const { return first <= life.last && life.first <= last; }
};

// Long lives that are neighbours in memory, in the order of their offsets. Seen as one by who lives
// before or after all of them, or together with all.
class Block {
 public:
  size_t size() const { return stays_.size(); }
  int64_t offset() const { return stays_.front().offset; }

  void add(const Stay& stay) {
    stays_.insert(std::ranges::upper_bound(stays_, stay.offset, {}, &Stay::offset), stay);
    summarize();
  }

  // The upper half, taken off.
  Block split() {
    Block upper;
    const auto half = stays_.begin() + static_cast<std::ptrdiff_t>(size() / 2);
    upper.stays_.assign(half, stays_.end());
    stays_.erase(half, stays_.end());
    upper.summarize();
    summarize();
    return upper;
  }

  // Adds those that live at the same time.
  void gather(const Life& life, std::vector<Stay>& out) const {
    if (!any_.meets(life)) return;
    if (all_.meets(life) && widest_gap_ < life.bytes) {
      out.push_back(any_);
      return;
    }
    for (const Stay& s : stays_)
      if (s.meets(life)) out.push_back(s);
  }

 private:
  std::vector<Stay> stays_;
  Stay any_{};              // from the first to the last of them
  Stay all_{};              // the latest first and the earliest last: who meets this meets all
  int64_t widest_gap_ = 0;  // while all live

  void summarize() {
    any_ = all_ = stays_[0];
    widest_gap_ = 0;
    for (const Stay& s : stays_) {
      widest_gap_ = std::max(widest_gap_, s.offset - any_.end);
      any_ = {std::min(any_.first, s.first), std::max(any_.last, s.last), any_.offset,
              std::max(any_.end, s.end)};
      all_.first = std::max(all_.first, s.first);
      all_.last = std::min(all_.last, s.last);
    }
  }
};

// What was placed. Few are looked at, however deep a network is: of the long lives, such as those
// of values kept for the backward pass, whole blocks live together or not at all, and of the short
// ones only those of the same period can live at the same time.
class Placed {
 public:
  // The smallest gap that is large enough among those that live at the same time.
  int64_t best_offset(const Life& life) {
    gather(life);
    int64_t best = -1, best_gap = 0, end = 0;
    for (const Stay& next : meets_) {
      int64_t gap = next.offset - end;
      if (gap == life.bytes) return end;  // none fits better
      if (gap >= life.bytes && (best < 0 || gap < best_gap)) best = end, best_gap = gap;
      end = std::max(end, next.end);
    }
    return best < 0 ? end : best;
  }

  void add(const Life& life, int64_t offset) {
    const Stay stay{life.first, life.last, offset, offset + life.bytes};
    if (is_short(life)) return add_short(stay);
    auto above = std::ranges::upper_bound(long_, offset, {}, &Block::offset);
    if (above == long_.begin()) above = long_.insert(above, Block()) + 1;
    Block& block = *(above - 1);
    block.add(stay);
    if (block.size() == kBlock) {
      Block upper = block.split();
      long_.insert(above, std::move(upper));
    }
  }

 private:
  static constexpr size_t kBlock = 64;
  std::vector<Block> long_;                // in the order of their offsets
  std::vector<std::vector<Stay>> short_;   // by the period that they begin in
  std::vector<Stay> meets_;                // of gather, kept warm

  static size_t period_of(int step) { return static_cast<size_t>(step / kShort); }

  void add_short(const Stay& stay) {
    const size_t period = period_of(stay.first);
    if (short_.size() <= period) short_.resize(period + 1);
    short_[period].push_back(stay);
  }

  // Those that live at the same time, in the order of their offsets.
  void gather(const Life& life) {
    meets_.clear();
    for (const Block& block : long_) block.gather(life, meets_);
    const auto from_long = static_cast<std::ptrdiff_t>(meets_.size());
    const size_t from = period_of(std::max(0, life.first - kShort)), to = period_of(life.last);
    for (size_t p = from; p <= to && p < short_.size(); ++p)
      for (const Stay& s : short_[p])
        if (s.meets(life)) meets_.push_back(s);
    const auto middle = meets_.begin() + from_long;
    std::sort(middle, meets_.end(), by_offset);
    std::inplace_merge(meets_.begin(), middle, meets_.end(), by_offset);
  }
  static bool by_offset(const Stay& a, const Stay& b) { return a.offset < b.offset; }
};

struct Places {
  std::vector<int64_t> offsets;  // in the order of lives
  int64_t end = 0;
};

Places place(std::span<const Life> lives) {
  Placed placed;
  Places out;
  for (const Life& life : lives) {
    out.offsets.push_back(placed.best_offset(life));
    placed.add(life, out.offsets.back());
    out.end = std::max(out.end, out.offsets.back() + life.bytes);
  }
  return out;
}

// Long lives first: the short ones fit into what is free for a while. Of few lives the large ones
// first, if that takes less.
void plan_device(Plan& plan, std::vector<Life> lives, int64_t& arena) {
  constexpr size_t kFew = 512;
  for (const Life& life : lives)
    plan.unplanned_bytes = size_add(plan.unplanned_bytes, life.bytes);
  std::ranges::stable_sort(lives, std::greater(), &Life::bytes);
  Places best;
  std::vector<Life> order = lives;
  if (lives.size() <= kFew) best = place(lives);
  std::ranges::stable_partition(lives, [](const Life& life) { return !is_short(life); });
  if (Places other = place(lives); best.offsets.empty() || other.end < best.end)
    best = std::move(other), order = std::move(lives);
  for (size_t i = 0; i < order.size(); ++i)
    plan.buffers[static_cast<size_t>(order[i].buffer)].offset = best.offsets[i];
  arena = best.end;
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
