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

struct Extent {
  int64_t offset, end;
};

// Lives in the order of their offsets. When something lives stands apart from where it is: most are
// only asked for the first.
class Shelf {
 public:
  size_t size() const { return when_.size(); }
  int64_t offset() const { return where_.front().offset; }

  void add(const Life& life, Extent extent) {
    auto at = std::ranges::upper_bound(where_, extent.offset, {}, &Extent::offset);
    when_.insert(when_.begin() + (at - where_.begin()), {life.first, life.last});
    where_.insert(at, extent);
  }

  // What lives at the same time.
  void gather(const Life& life, std::vector<Extent>& out) const {
    for (size_t i = 0; i < when_.size(); ++i)
      if (when_[i].first <= life.last && life.first <= when_[i].last) out.push_back(where_[i]);
  }

  // The upper half, taken off.
  Shelf split() {
    Shelf upper;
    const auto half = static_cast<std::ptrdiff_t>(size() / 2);
    upper.when_.assign(when_.begin() + half, when_.end());
    upper.where_.assign(where_.begin() + half, where_.end());
    when_.resize(size() / 2);
    where_.resize(when_.size());
    return upper;
  }

 protected:
  struct When {
    int first, last;
  };
  std::vector<When> when_;
  std::vector<Extent> where_;
};

// A shelf that is seen as one thing by who lives before or after all of it, or together with all.
class Block : public Shelf {
 public:
  Block() = default;
  explicit Block(Shelf shelf) : Shelf(std::move(shelf)) { summarize(); }

  void add(const Life& life, Extent extent) {
    Shelf::add(life, extent);
    summarize();
  }
  Block split() {
    Block upper(Shelf::split());
    summarize();
    return upper;
  }

  void gather(const Life& life, std::vector<Extent>& out) const {
    if (life.last < any_.first || any_.last < life.first) return;
    const bool with_all = all_.first <= life.last && life.first <= all_.last;
    if (with_all && widest_gap_ < life.bytes) out.push_back(whole_);
    else Shelf::gather(life, out);
  }

 private:
  When any_{}, all_{};      // the steps at which some live, and the latest first and earliest last
  Extent whole_{};
  int64_t widest_gap_ = 0;  // while all live

  void summarize() {
    any_ = all_ = when_[0];
    whole_ = where_[0];
    widest_gap_ = 0;
    for (size_t i = 1; i < size(); ++i) {
      any_ = {std::min(any_.first, when_[i].first), std::max(any_.last, when_[i].last)};
      all_ = {std::max(all_.first, when_[i].first), std::min(all_.last, when_[i].last)};
      widest_gap_ = std::max(widest_gap_, where_[i].offset - whole_.end);
      whole_.end = std::max(whole_.end, where_[i].end);
    }
  }
};

constexpr int kShort = 32;  // steps
bool is_short(const Life& life) { return life.last - life.first < kShort; }

// Short lives are found by time when a short one asks: it meets only those of a few steps.
class ShortLives {
 public:
  void add(const Life& life, Extent extent) {
    by_offset_.add(life, extent);
    const size_t period = period_of(life.first);
    if (by_period_.size() <= period) by_period_.resize(period + 1);
    by_period_[period].push_back({life.first, life.last, extent});
  }

  void gather(const Life& life, std::vector<Extent>& out) const {
    if (!is_short(life)) return by_offset_.gather(life, out);
    const size_t from = period_of(std::max(0, life.first - kShort));
    for (size_t p = from; p <= period_of(life.last) && p < by_period_.size(); ++p)
      for (const Stay& s : by_period_[p])
        if (s.first <= life.last && life.first <= s.last) out.push_back(s.extent);
    std::ranges::sort(out, {}, &Extent::offset);
  }

 private:
  struct Stay {
    int first, last;
    Extent extent;
  };
  Shelf by_offset_;
  std::vector<std::vector<Stay>> by_period_;  // by first
  static size_t period_of(int step) { return static_cast<size_t>(step / kShort); }
};

// What was placed. Long lives, such as those of values kept for the backward pass, stand in blocks:
// most blocks live together or not at all, so that in a deep network few lives are looked at.
class Placed {
 public:
  // The smallest gap that is large enough among those that live at the same time.
  int64_t best_offset(const Life& life) {
    long_busy_.clear();
    short_busy_.clear();
    busy_.clear();
    for (const Block& block : long_) block.gather(life, long_busy_);
    short_.gather(life, short_busy_);
    std::ranges::merge(long_busy_, short_busy_, std::back_inserter(busy_), {}, &Extent::offset,
                       &Extent::offset);
    int64_t best = -1, best_gap = 0, end = 0;
    for (const Extent& next : busy_) {
      int64_t gap = next.offset - end;
      if (gap == life.bytes) return end;  // none fits better
      if (gap >= life.bytes && (best < 0 || gap < best_gap)) best = end, best_gap = gap;
      end = std::max(end, next.end);
    }
    return best < 0 ? end : best;
  }

  void add(const Life& life, int64_t offset) {
    const Extent extent{offset, offset + life.bytes};
    if (is_short(life)) return short_.add(life, extent);
    auto above = std::ranges::upper_bound(long_, offset, {}, &Block::offset);
    if (above == long_.begin()) above = long_.insert(above, Block()) + 1;
    Block& block = *(above - 1);
    block.add(life, extent);
    if (block.size() == kBlock) {
      Block upper = block.split();
      long_.insert(above, std::move(upper));
    }
  }

 private:
  static constexpr size_t kBlock = 64;
  std::vector<Block> long_;  // in the order of their offsets
  ShortLives short_;
  std::vector<Extent> long_busy_, short_busy_, busy_;  // kept warm
};

void plan_device(Plan& plan, std::vector<Life> lives, int64_t& arena) {
  std::ranges::stable_sort(lives, std::greater<>(), &Life::bytes);
  int64_t rest = 0;
  for (const Life& life : lives) rest = size_add(rest, life.bytes);
  plan.unplanned_bytes = size_add(plan.unplanned_bytes, rest);
  Placed placed;
  for (const Life& life : lives) {
    // When all that is left is nothing beside the rest, sharing is not worth the search.
    const bool search = rest > arena / 1024;
    const int64_t offset = search ? placed.best_offset(life) : arena;
    if (search) placed.add(life, offset);
    plan.buffers[static_cast<size_t>(life.buffer)].offset = offset;
    arena = std::max(arena, offset + life.bytes);
    rest -= life.bytes;
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
