// Temporaries with disjoint lifetimes share memory: greedy best fit, long lives and large ones
// first. What is written in parts lives in parts, whose places are fixed to each other.
#include <algorithm>
#include <functional>
#include <map>
#include <span>

#include "base/integers.h"
#include "ir/memo.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace mote {

namespace {

int64_t whole_lines(int64_t bytes) {
  return size_add(bytes, kCacheLine - 1) / kCacheLine * kCacheLine;
}

// Bytes that are needed from the first to the last of these statements.
struct Stay {
  int first, last;
  int64_t offset, end;
  int64_t bytes() const { return end - offset; }
  bool meets(const Stay& s) const { return first <= s.last && s.first <= last; }
};

constexpr int kShort = 32;  // steps
bool is_short(const Stay& stay) { return stay.last - stay.first < kShort; }

struct Life {
  UOp memory;
  Stay whole;
  std::vector<Stay> writes;  // from the statement that makes each to the end of its life
  std::vector<Stay> parts;  // if written in parts: from where the whole begins
  std::span<const Stay> stays() const {
    return parts.empty() ? std::span<const Stay>(&whole, 1) : std::span<const Stay>(parts);
  }
};

// The parts of a life, by the statements that first write to them.
void find_parts(Life& life) {
  std::vector<int64_t> ends{life.whole.end};
  for (const Stay& w : life.writes) ends.insert(ends.end(), {w.offset, w.end});
  std::ranges::sort(ends);
  int64_t begin = 0;
  for (int64_t end : ends) {
    if (end <= begin) continue;
    auto write = std::ranges::find_if(
        life.writes, [&](const Stay& w) { return w.offset <= begin && end <= w.end; });
    const int first = write == life.writes.end() ? life.whole.first : write->first;
    if (!life.parts.empty() && life.parts.back().first == first)
      life.parts.back().end = end;
    else
      life.parts.push_back({first, life.whole.last, begin, end});
    begin = end;
  }
  if (life.parts.size() == 1) life.parts.clear();
}

// Finds when temporaries live. What a loop over statements uses may be needed in its next round:
// it lives as long as the loop, unless the loop alone uses it and makes it anew in each round.
class Lives {
 public:
  explicit Lives(UOp plan) {
    find_loops(plan);
    for (int i = 0; i < static_cast<int>(plan->nsrc); ++i)
      if (UOp s = plan->src(static_cast<uint32_t>(i)); is_step(s)) use_all(s, i);
    for (Life& life : lives_) {
      for (const Loop& loop : loops_) extend(life, loop);
      for (Stay& w : life.writes) w.last = life.whole.last;
      if (life.writes.size() > 1) find_parts(life);
    }
  }
  std::vector<Life> result() { return std::move(lives_); }  // by their first statements

 private:
  struct Loop {
    int first, last;
  };
  std::vector<Loop> loops_;  // inner ones first
  std::vector<Life> lives_;
  MemoLease<int> lease_;     // by memory: which life, plus one
  Facts facts_;

  void find_loops(UOp plan) {
    std::vector<int> open;
    for (int i = 0; i < static_cast<int>(plan->nsrc); ++i) {
      const UOp s = plan->src(static_cast<uint32_t>(i));
      if (s->is(Op::Range)) open.push_back(i);
      if (!s->is(Op::End)) continue;
      loops_.push_back({open.back(), i});
      open.pop_back();
    }
  }

  void use_all(UOp step, int at) {
    const std::span<Node* const> places = places_of(step);
    for (uint32_t p = 0; p < places.size(); ++p) {
      const UOp memory = memory_of(places[p]);
      if (!is_temporary(memory)) continue;
      int& known = (*lease_)[memory];
      if (!known) {
        const int64_t bytes = std::max(whole_lines(bytes_of(memory)), kCacheLine);
        lives_.push_back({memory, {at, at, 0, bytes}, {}, {}});
        known = static_cast<int>(lives_.size());
      }
      Life& life = lives_[static_cast<size_t>(known - 1)];
      life.whole.last = at;
      if (p < written_by(step)) life.writes.push_back(written(step, p, at));
    }
  }

  // Of a slice, which may be anywhere, nothing is known to be written.
  Stay written(UOp step, uint32_t p, int at) {
    const UOp place = places_of(step)[p], memory = memory_of(place);
    if (place->is(Op::Index)) return {at, at, 0, 0};
    Elements e{0, count_of(memory)};
    if (is_kernel(step)) e = facts_.of(step->src(0)).written[p];
    const int64_t size = size_of(memory->dtype);
    return {at, at, e.begin * size / kCacheLine * kCacheLine, whole_lines(e.end * size)};
  }

  static void extend(Life& life, const Loop& loop) {
    Stay& all = life.whole;
    if (all.last < loop.first || loop.last < all.first) return;
    const bool within = loop.first < all.first && all.last < loop.last;
    const bool made_anew = !life.writes.empty() && life.writes[0].first == all.first &&
                           life.writes[0].bytes() == all.bytes();
    if (within && made_anew) return;
    all.first = std::min(all.first, loop.first);
    all.last = std::max(all.last, loop.last);
    for (Stay& w : life.writes)
      if (loop.first < w.first && w.first < loop.last) w.first = loop.first;
  }
};

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
// first, if that takes less. Gives each memory its place in the arena of the device.
void plan_device(std::vector<Life> lives, uint8_t device, std::vector<std::pair<UOp, UOp>>& places) {
  constexpr size_t kFew = 512;
  std::ranges::stable_sort(lives, std::greater(), [](const Life& life) { return life.whole.end; });
  Places best;
  std::vector<Life> order = lives;
  if (lives.size() <= kFew) best = place(lives);
  std::ranges::stable_partition(lives, [](const Life& life) { return !is_short(life.whole); });
  if (Places other = place(lives); best.offsets.empty() || other.end < best.end)
    best = std::move(other), order = std::move(lives);
  const UOp arena = param(0, DType::u8, best.end, Space::Local, device);
  for (size_t i = 0; i < order.size(); ++i)
    places.emplace_back(order[i].memory,
                        make(Op::Index, DType::u8, {arena, index(best.offsets[i])}));
}

// A slice of what is now a slice of the arena, in bytes.
UOp moved(UOp place, Memo<Node*>& now) {
  const UOp memory = memory_of(place), to = now[memory];
  if (!to || memory == place) return to ? to : place;
  const UOp offset = place->src(1) * size_of(memory->dtype) + to->src(1);
  return make(Op::Index, DType::u8, {to->src(0), offset});
}

}  // namespace

UOp plan_memory(UOp plan) {
  std::map<uint8_t, std::vector<Life>> by_device;
  for (Life& life : Lives(plan).result()) by_device[life.memory->device].push_back(std::move(life));
  std::vector<std::pair<UOp, UOp>> places;
  for (auto& [device, lives] : by_device) plan_device(std::move(lives), device, places);
  MemoLease<Node*> lease;
  for (auto [memory, place] : places) (*lease)[memory] = place.get();
  return map_steps(plan, [&](std::vector<UOp> steps) {
    for (UOp& step : steps)
      step = with_places(step, [&](UOp place) { return moved(place, *lease); });
    return steps;
  });
}

}  // namespace mote
