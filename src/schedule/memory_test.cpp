#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "schedule/schedule.h"

using namespace mote;

namespace {

struct Life {
  int first, last;
};

// A plan whose temporaries live as told, each used at its first and its last step.
Plan plan_of(const std::vector<Life>& lives, const std::vector<int64_t>& bytes, int steps) {
  Plan plan;
  plan.steps.resize(static_cast<size_t>(steps));
  for (size_t i = 0; i < lives.size(); ++i) {
    plan.buffers.push_back({DType::u8, bytes[i], 1, -1, -1});
    for (int step : {lives[i].first, lives[i].last})
      plan.steps[static_cast<size_t>(step)].buffers.push_back(static_cast<int>(i));
  }
  return plan;
}

bool share_memory(const PlannedBuffer& a, const PlannedBuffer& b) {
  return a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
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
  Plan plan = plan_of(lives, bytes, steps);
  plan_memory(plan);
  int clashes = 0;
  for (size_t i = 0; i < lives.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      clashes += lives[i].first <= lives[j].last && lives[j].first <= lives[i].last &&
                 share_memory(plan.buffers[i], plan.buffers[j]);
  CHECK(clashes == 0);
  const auto least = static_cast<double>(most_at_once(lives, bytes, steps));
  CHECK(static_cast<double>(plan.arena_bytes()) <= most_waste * least);
}

// A temporary that is written in parts of equal size, at one step each, and read at the last step.
struct WrittenInParts {
  std::vector<int> steps;
  int last;
  int64_t bytes;  // of each
};

Plan plan_of(const std::vector<WrittenInParts>& lives, int steps) {
  Plan plan;
  plan.steps.resize(static_cast<size_t>(steps));
  for (size_t i = 0; i < lives.size(); ++i) {
    const auto& [at, last, bytes] = lives[i];
    plan.buffers.push_back(
        {DType::u8, bytes * static_cast<int64_t>(at.size()), 1, -1, -1});
    for (size_t part = 0; part < at.size(); ++part) {
      Step& step = plan.steps[static_cast<size_t>(at[part])];
      const int64_t begin = bytes * static_cast<int64_t>(part);
      step.buffers.push_back(static_cast<int>(i));
      step.written.push_back({begin, begin + bytes});
      step.outputs = static_cast<int>(step.buffers.size());
    }
  }
  for (size_t i = 0; i < lives.size(); ++i)
    plan.steps[static_cast<size_t>(lives[i].last)].buffers.push_back(static_cast<int>(i));
  return plan;
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
    Plan plan = plan_of({{{9, 6, 3}, 10, 4096}, {{0}, 8, 4096}, {{1}, 5, 4096}}, 11);
    plan_memory(plan);
    CHECK(plan.arena_bytes() == 3 * 4096);
    CHECK(plan.unplanned_bytes == 5 * 4096);
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
      Plan plan = plan_of(lives, steps);
      plan_memory(plan);
      int clashes = 0;
      for (size_t i = 0; i < lives.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          clashes += clash(lives[i], plan.buffers[i].offset, lives[j], plan.buffers[j].offset);
      CHECK(clashes == 0);
      CHECK(plan.arena_bytes() <= plan.unplanned_bytes);
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
