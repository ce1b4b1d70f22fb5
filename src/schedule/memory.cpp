// Temporaries with disjoint lifetimes share memory: greedy best fit, long lives and large ones
// first. What is written in parts lives in parts, whose places are fixed to each other.
#include <algorithm>
#include <functional>
#include <span>

#include "base/integers.h"
#include "schedule/schedule.h"

namespace mote {

namespace {

int64_t whole_lines(int64_t bytes) {
  return size_add(bytes, kCacheLine - 1) / kCacheLine * kCacheLine;
}

// Bytes that are needed from the first to the last of these steps.
struct Stay {
  int first, last;
  int64_t offset, end;
  int64_t bytes() const { return end - offset; }
  bool meets(const Stay& s) const { return first <= s.last && s.first <= last; }
};

constexpr int kShort = 32;  // steps
bool is_short(const Stay& stay) { return stay.last - stay.first < kShort; }

struct Life {
  int buffer;
  int writes = 0;           // steps that write to it
  Stay whole;
  std::vector<Stay> parts;  // if written in parts: from where the whole begins
  std::span<const Stay> stays() const {
    return parts.empty() ? std::span<const Stay>(&whole, 1) : std::span<const Stay>(parts);
  }
};

// The parts of lives, by the steps that first write to them.
class LifeParts {
 public:
  explicit LifeParts(const Plan& plan) : plan_(plan) {}

  void find(Life& life) {
    find_writes(life);
    std::vector<int64_t> ends{life.whole.end};
    for (const Stay& w : writes_) ends.insert(ends.end(), {w.offset, w.end});
    std::ranges::sort(ends);
    int64_t begin = 0;
    for (int64_t end : ends) {
      if (end > begin) add(life, begin, end);
      begin = end;
    }
    if (life.parts.size() == 1) life.parts.clear();
  }

 private:
  const Plan& plan_;
  std::vector<Stay> writes_;  // to the buffer, in the order of steps

  void find_writes(const Life& life) {
    writes_.clear();
    const int64_t size = size_of(plan_.buffers[static_cast<size_t>(life.buffer)].dtype);
    for (int i = life.whole.first; i <= life.whole.last; ++i) {
      const Step& step = plan_.steps[static_cast<size_t>(i)];
      for (size_t w = 0; w < step.written.size(); ++w)
        if (step.buffers[w] == life.buffer)
          writes_.push_back({i, life.whole.last,
                             step.written[w].begin * size / kCacheLine * kCacheLine,
                             whole_lines(step.written[w].end * size)});
    }
  }

  void add(Life& life, int64_t begin, int64_t end) {
    auto write = std::ranges::find_if(
        writes_, [&](const Stay& w) { return w.offset <= begin && end <= w.end; });
    const int first = write == writes_.end() ? life.whole.first : write->first;
    if (!life.parts.empty() && life.parts.back().first == first)
      life.parts.back().end = end;
    else
      life.parts.push_back({first, life.whole.last, begin, end});
  }
};

// Lives in the order of their first step.
std::vector<Life> lives_of(const Plan& plan) {
  std::vector<Life> lives;
  std::vector<int> at(plan.buffers.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    for (size_t n = 0; n < step.buffers.size(); ++n) {
      const auto b = static_cast<size_t>(step.buffers[n]);
      if (plan.buffers[b].param >= 0) continue;
      if (at[b] < 0) {
        at[b] = static_cast<int>(lives.size());
        const int64_t bytes = std::max(whole_lines(plan.buffers[b].bytes()), kCacheLine);
        lives.push_back({step.buffers[n], 0, {static_cast<int>(i), 0, 0, bytes}, {}});
      }
      Life& life = lives[static_cast<size_t>(at[b])];
      life.whole.last = static_cast<int>(i);
      life.writes += n < step.written.size();
    }
  }
  LifeParts parts(plan);
  for (Life& life : lives)
    if (life.writes > 1) parts.find(life);
  return lives;
}

// Long lives that are neighbours in memory, in the order of their offsets. Seen as one by who lives
// before or after all of them, or together with all.
class Neighbours {
 public:
  size_t size() const { return stays_.size(); }
  int64_t offset() const { return stays_.front().offset; }

  void add(const Stay& stay) {
    stays_.insert(std::ranges::upper_bound(stays_, stay.offset, {}, &Stay::offset), stay);
    summarize();
  }

  // The upper half, taken off.
  Neighbours split() {
    Neighbours upper;
    const auto half = stays_.begin() + static_cast<std::ptrdiff_t>(size() / 2);
    upper.stays_.assign(half, stays_.end());
    stays_.erase(half, stays_.end());
    upper.summarize();
    summarize();
    return upper;
  }

  // Adds those that live at the same time.
  void gather(const Stay& stay, std::vector<Stay>& out) const {
    if (!any_.meets(stay)) return;
    if (all_.meets(stay) && widest_gap_ < stay.bytes()) {
      out.push_back(any_);
      return;
    }
    for (const Stay& s : stays_)
      if (s.meets(stay)) out.push_back(s);
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
// of values kept for the backward pass, neighbours live together or not at all, and of the short
// ones only those of the same period can live at the same time.
class Placed {
 public:
  // The smallest gap that is large enough among those that live at the same time.
  int64_t best_offset(const Life& life) {
    bars_.clear();
    for (const Stay& part : life.stays()) bar(part);
    if (!life.parts.empty()) std::ranges::sort(bars_, {}, &Bar::from);
    int64_t best = -1, best_room = 0, end = 0;
    for (const Bar& next : bars_) {
      const int64_t room = next.from - end;
      if (room == 0) return end;  // none fits better
      if (room > 0 && (best < 0 || room < best_room)) best = end, best_room = room;
      end = std::max(end, next.to);
    }
    return best < 0 ? end : best;
  }

  void add(const Life& life, int64_t offset) {
    for (Stay s : life.stays()) add({s.first, s.last, s.offset + offset, s.end + offset});
  }

 private:
  static constexpr size_t kMostNeighbours = 64;
  // Between these the life cannot begin, for a part of it would meet one that has its place.
  struct Bar {
    int64_t from, to;
  };
  std::vector<Neighbours> long_;           // in the order of their offsets
  std::vector<std::vector<Stay>> short_;   // by the period that they begin in
  std::vector<Stay> meets_;                // of gather, kept warm
  std::vector<Bar> bars_;

  void add(const Stay& stay) {
    if (is_short(stay)) return add_short(stay);
    auto above = std::ranges::upper_bound(long_, stay.offset, {}, &Neighbours::offset);
    if (above == long_.begin()) above = long_.insert(above, Neighbours()) + 1;
    Neighbours& beside = *(above - 1);
    beside.add(stay);
    if (beside.size() == kMostNeighbours) {
      Neighbours upper = beside.split();
      long_.insert(above, std::move(upper));
    }
  }

  void bar(const Stay& part) {
    gather(part);
    for (const Stay& s : meets_) bars_.push_back({s.offset - part.end, s.end - part.offset});
  }

  static size_t period_of(int step) { return static_cast<size_t>(step / kShort); }

  void add_short(const Stay& stay) {
    const size_t period = period_of(stay.first);
    if (short_.size() <= period) short_.resize(period + 1);
    short_[period].push_back(stay);
  }

  // Those that live at the same time, in the order of their offsets.
  void gather(const Stay& stay) {
    meets_.clear();
    for (const Neighbours& n : long_) n.gather(stay, meets_);
    const auto from_long = static_cast<std::ptrdiff_t>(meets_.size());
    const size_t from = period_of(std::max(0, stay.first - kShort)), to = period_of(stay.last);
    for (size_t p = from; p <= to && p < short_.size(); ++p)
      for (const Stay& s : short_[p])
        if (s.meets(stay)) meets_.push_back(s);
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
    out.end = std::max(out.end, out.offsets.back() + life.whole.end);
  }
  return out;
}

// Long lives first: the short ones fit into what is free for a while. Of few lives the large ones
// first, if that takes less.
void plan_device(Plan& plan, std::vector<Life> lives, int64_t& arena) {
  constexpr size_t kFew = 512;
  for (const Life& life : lives)
    plan.unplanned_bytes = size_add(plan.unplanned_bytes, life.whole.end);
  std::ranges::stable_sort(lives, std::greater(), [](const Life& life) { return life.whole.end; });
  Places best;
  std::vector<Life> order = lives;
  if (lives.size() <= kFew) best = place(lives);
  std::ranges::stable_partition(lives, [](const Life& life) { return !is_short(life.whole); });
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
