#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "schedule/plan.h"
#include "schedule/schedule.h"

using namespace mote;

namespace {

struct Life {
  int first, last;
};

UOp temporary(size_t i, int64_t bytes) {
  return param(static_cast<int>(i), DType::u8, bytes, Space::Local, 1);
}

// A kernel that reads and writes bytes of temporaries, and one byte of the caller's.
class Step {
 public:
  Step() { add(param(0, DType::u8, 1, Space::Global, 1), 0, 1); }
  void add(UOp memory, int64_t begin, int64_t end) { writes_.push_back({memory, begin, end}); }
  void read(UOp memory) { reads_.push_back(memory); }

  UOp call() const {
    std::vector<UOp> places, effects;
    auto argument = [&](UOp memory) {
      places.push_back(memory);
      return param(static_cast<int>(places.size()) - 1, DType::u8, count_of(memory));
    };
    UOp sum = constant(DType::u8, 0);
    std::vector<UOp> to;
    for (const Written& w : writes_) to.push_back(argument(w.memory));
    for (UOp r : reads_) sum = sum + make(Op::Index, DType::u8, {argument(r), index(0)});
    for (size_t i = 0; i < writes_.size(); ++i) {
      const UOp r =
          range(static_cast<int>(i % 8), index(writes_[i].end - writes_[i].begin), Role::Loop);
      const UOp place = make(Op::Index, DType::u8, {to[i], r + writes_[i].begin});
      effects.push_back(
          make(Op::End, DType::none, {make(Op::Store, DType::none, {place, sum}), r}));
    }
    return mote::call(make(Op::Sink, DType::none, effects, Arg::of(intern_arg({}))), places, {});
  }

 private:
  struct Written {
    UOp memory;
    int64_t begin, end;
  };
  std::vector<Written> writes_;
  std::vector<UOp> reads_;
};

UOp plan_of(const std::vector<Step>& steps) {
  std::vector<UOp> calls;
  for (const Step& s : steps) calls.push_back(s.call());
  return linear(calls);
}

// Temporaries that live as told: each is written by its first step and read by its last.
UOp plan_of(const std::vector<Life>& lives, const std::vector<int64_t>& bytes, int count) {
  std::vector<Step> steps(static_cast<size_t>(count));
  for (size_t i = 0; i < lives.size(); ++i) {
    steps[static_cast<size_t>(lives[i].first)].add(temporary(i, bytes[i]), 0, bytes[i]);
    if (lives[i].last > lives[i].first)
      steps[static_cast<size_t>(lives[i].last)].read(temporary(i, bytes[i]));
  }
  return plan_of(steps);
}

// By slot of the temporary.
std::vector<int64_t> offsets(UOp plan, UOp placed, size_t temporaries) {
  std::vector<int64_t> out(temporaries, -1);
  for (uint32_t i = 0; i < plan->nsrc; ++i)
    for (size_t p = 0; p < places_of(plan->src(i)).size(); ++p) {
      const UOp was = places_of(plan->src(i))[p], now = places_of(placed->src(i))[p];
      if (is_temporary(was)) out[static_cast<size_t>(slot_of(was))] = now->src(1)->arg.i;
    }
  return out;
}

// What lives at once at most, each in whole lines of memory.
int64_t most_at_once(const std::vector<Life>& lives, const std::vector<int64_t>& bytes, int steps) {
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1);
  for (size_t i = 0; i < lives.size(); ++i) {
    change[static_cast<size_t>(lives[i].first)] += (bytes[i] + 63) / 64 * 64;
    change[static_cast<size_t>(lives[i].last) + 1] -= (bytes[i] + 63) / 64 * 64;
  }
  int64_t now = 0, most = 0;
  for (int64_t c : change) most = std::max(most, now += c);
  return most;
}

void check_plan(const std::vector<Life>& lives, const std::vector<int64_t>& bytes, int steps,
                double most_waste) {
  Arena arena;
  ArenaScope scope(arena);
  const UOp plan = plan_of(lives, bytes, steps), placed = plan_memory(plan);
  const std::vector<int64_t> at = offsets(plan, placed, lives.size());
  int clashes = 0;
  for (size_t i = 0; i < lives.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      clashes += lives[i].first <= lives[j].last && lives[j].first <= lives[i].last &&
                 at[i] < at[j] + bytes[j] && at[j] < at[i] + bytes[i];
  CHECK(clashes == 0);
  const auto least = static_cast<double>(most_at_once(lives, bytes, steps));
  CHECK(static_cast<double>(temporary_bytes(placed)) <= most_waste * least);
}

// A temporary that is written in parts of equal size, at one step each, and read at the last step.
struct WrittenInParts {
  std::vector<int> steps;
  int last;
  int64_t bytes;  // of each
};

UOp plan_of(const std::vector<WrittenInParts>& lives, int count) {
  std::vector<Step> steps(static_cast<size_t>(count));
  for (size_t i = 0; i < lives.size(); ++i) {
    const auto& [at, last, bytes] = lives[i];
    const UOp memory = temporary(i, bytes * static_cast<int64_t>(at.size()));
    for (size_t part = 0; part < at.size(); ++part) {
      const int64_t begin = bytes * static_cast<int64_t>(part);
      steps[static_cast<size_t>(at[part])].add(memory, begin, begin + bytes);
    }
    steps[static_cast<size_t>(last)].read(memory);
  }
  return plan_of(steps);
}

bool clash(const WrittenInParts& a, int64_t at_a, const WrittenInParts& b, int64_t at_b) {
  for (size_t i = 0; i < a.steps.size(); ++i)
    for (size_t j = 0; j < b.steps.size(); ++j) {
      const int64_t x = at_a + a.bytes * static_cast<int64_t>(i),
                    y = at_b + b.bytes * static_cast<int64_t>(j);
      if (a.steps[i] <= b.last && b.steps[j] <= a.last && x < y + b.bytes && y < x + a.bytes)
        return true;
    }
  return false;
}

}  // namespace

TEST_SUITE("memory plan") {
  TEST_CASE("what is not written yet is free for others") {
    // Gradients that come last to first into one buffer, while activations go.
    Arena arena;
    ArenaScope scope(arena);
    const UOp plan = plan_of(
        {
            {{9, 6, 3}, 10, 4096},
            {{0},       8,  4096},
            {{1},       5,  4096}
    },
        11);
    CHECK(temporary_bytes(plan_memory(plan)) == 3 * 4096);
    CHECK(temporary_bytes(plan) == 5 * 4096);
  }

  TEST_CASE("parts that live at the same time share nothing") {
    std::mt19937 random(11);
    auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    for (int round = 0; round < 30; ++round) {
      const int steps = 10 + below(120);
      std::vector<WrittenInParts> lives;
      for (int i = below(100); i >= 0; --i) {
        WrittenInParts life{{}, below(steps), 1 + below(below(2) ? 200 : 20'000)};
        for (int part = below(6); part >= 0; --part) life.steps.push_back(below(life.last + 1));
        lives.push_back(life);
      }
      Arena arena;
      ArenaScope scope(arena);
      const UOp plan = plan_of(lives, steps), placed = plan_memory(plan);
      const std::vector<int64_t> at = offsets(plan, placed, lives.size());
      int clashes = 0;
      for (size_t i = 0; i < lives.size(); ++i)
        for (size_t j = 0; j < i; ++j) clashes += clash(lives[i], at[i], lives[j], at[j]);
      CHECK(clashes == 0);
      CHECK(temporary_bytes(placed) <= temporary_bytes(plan) + 64 * std::ssize(lives));
    }
  }

  TEST_CASE("temporaries that live at the same time share nothing, and others much") {
    std::mt19937 random(7);
    auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    for (int round = 0; round < 20; ++round) {
      const int steps = 40 + below(400);
      std::vector<Life> lives;
      std::vector<int64_t> bytes;
      for (int i = below(600); i >= 0; --i) {
        const int first = below(steps), most = below(2) ? 12 : steps;
        lives.push_back({first, std::min(steps - 1, first + below(most))});
        bytes.push_back(below(3) ? 64 << below(12) : 1 + below(100'000));
      }
      check_plan(lives, bytes, steps, 1.35);
    }
  }

  TEST_CASE("a deep network keeps what its backward pass needs, and little more") {
    constexpr int layers = 150, steps = 8 * layers;
    std::vector<Life> lives;
    std::vector<int64_t> bytes;
    for (int l = 0; l < layers; ++l) {
      const int forward = 4 * l, backward = steps - 4 - forward;
      for (int kept = 0; kept < 3; ++kept) {
        lives.push_back({forward + kept, backward + 3 - kept});
        bytes.push_back(4096 << kept);
      }
      for (int at : {forward, backward})
        for (int passing = 0; passing < 3; ++passing) {
          lives.push_back({at + passing, at + passing + 1 - (at + passing + 1 == steps)});
          bytes.push_back(8192);
        }
    }
    check_plan(lives, bytes, steps, 1.01);
  }
}
