// Tensors and several threads. Runs alone under ThreadSanitizer as well.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "algebra/algebra.h"
#include "base/threads.h"
#include "engine/realize.h"

using namespace mote;

#ifdef __SANITIZE_THREAD__
// LLVM is not built with ThreadSanitizer, which then does not see its atomics.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libLLVM\nrace:libLLVM\nmutex:runtime/llvm.cpp\n";
}
#endif

namespace {

// Hands tensors from one thread to another.
class Channel {
 public:
  void put(Tensor t) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(t));
    changed_.notify_one();
  }
  Tensor take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !queue_.empty(); });
    Tensor t = std::move(queue_.front());
    queue_.pop_front();
    return t;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Tensor> queue_;
};

template <class F>
void on_threads(int count, F f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { f(i); });
  for (std::thread& t : threads) t.join();
}

// One tensor needs a lock when several threads use it; clones are tensors of their own with one
// graph in common.
std::vector<Tensor> clones(const Tensor& t, int count) {
  std::vector<Tensor> out;
  for (int i = 0; i < count; ++i) out.push_back(t.clone());
  return out;
}

std::vector<float> ramp(int n, float from = 0) {
  std::vector<float> v;
  for (int i = 0; i < n; ++i) v.push_back(from + static_cast<float>(i));
  return v;
}

}  // namespace

TEST_SUITE_BEGIN("threads");

TEST_CASE("a loader thread feeds a training thread") {
  Channel batches, losses;
  constexpr int steps = 30;
  std::thread loader([&] {
    for (int i = 0; i < steps; ++i) {
      Tensor x = (from_data(ramp(32 * 8, static_cast<float>(i)), {32, 8}) / 100).sin();
      if (i % 2) x.realize();
      batches.put(x);
    }
  });
  std::thread trainer([&] {
    Tensor w = full({8, 1}, 0.1).contiguous().requires_grad_();
    Tensor rate = full({1}, 0.05).contiguous().realize();
    for (int i = 0; i < steps; ++i) {
      Tensor x = batches.take();
      Tensor loss = (x.matmul(w) - x.sum({1}, true)).square().mean();
      w.zero_grad();
      loss.backward();
      w.assign(w.detach() - w.grad() * rate);
      realize({w, loss});
      losses.put(loss);
    }
  });
  float first = 0, last = 0;
  for (int i = 0; i < steps; ++i) {
    last = losses.take().item<float>();
    if (i == 0) first = last;
  }
  loader.join();
  trainer.join();
  CHECK(last < first);
}

TEST_CASE("tensors made on one thread are used and destroyed on others") {
  const uint64_t before = tensor_graph::live_nodes();
  for (int round = 0; round < 10; ++round) {
    Tensor shared = from_data(ramp(64), {8, 8}), lazy = shared.t() * 2 + 1;
    std::vector<Tensor> given = clones(lazy, 4);
    shared = {}, lazy = {};
    std::atomic<int> wrong{0};
    on_threads(4, [&](int i) {
      Tensor mine = std::move(given[static_cast<size_t>(i)]), sum = mine + i;
      for (int k = 0; k < 20; ++k) sum = sum + mine.sum() * 0;
      wrong += sum.sum().item<float>() != 2016 * 2 + 64 + 64 * static_cast<float>(i);
    });
    CHECK(wrong == 0);
  }
  CHECK(tensor_graph::live_nodes() <= before + 8);
}

TEST_CASE("threads build graphs that share nodes") {
  std::vector<Tensor> given = clones(from_data(ramp(100), {100}), 4), sums(4);
  on_threads(4, [&](int i) {
    Tensor x = given[static_cast<size_t>(i)], y;
    for (int k = 0; k < 200; ++k) {
      Tensor same = x * 3 + 1, mine = x + i + k;  // equal nodes on all threads, and others
      y = (k % 2 ? same : mine).reshape({10, 10}).t().reshape({100});
    }
    sums[static_cast<size_t>(i)] = y.sum();
  });
  for (const Tensor& s : sums) CHECK(s.item<float>() == 4950 * 3 + 100);
}

TEST_CASE("several threads realize at once") {
  std::atomic<int> wrong{0};
  Tensor shared = (from_data(ramp(256), {256}) + 1).realize(), lazy = shared + 1;
  std::vector<Tensor> given = clones(shared, 4), lazily = clones(lazy, 4);
  on_threads(4, [&](int i) {
    Tensor x = given[static_cast<size_t>(i)], y = lazily[static_cast<size_t>(i)];
    wrong += y.realize().sum().item<float>() != 32896 + 256;
    for (int k = 0; k < 10; ++k) {
      Tensor a = x * i + k;
      a.realize();
      Tensor b = a.reshape({16, 16}).sum(0).cumsum(0);
      wrong += b(15).item<float>() != 32896 * static_cast<float>(i) + 256 * static_cast<float>(k);
      Tensor c = zeros({16}).contiguous();
      c.add_(k);
      c(Slice(0, 4)) = 7;
      wrong += c.sum().item<float>() != static_cast<float>(28 + 12 * k);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("equal expressions of several threads are written in place by each") {
  std::atomic<int> wrong{0};
  on_threads(4, [&](int i) {
    for (int k = 0; k < 20; ++k) {
      Tensor a = full({33}, 7, int64), twin = full({33}, 7, int64), sum = twin.sum();
      a.realize();
      a.add_(i);
      a.realize();
      a.add_(1);
      wrong += a.sum().item<int64_t>() != 33 * (8 + i);
      wrong += twin.to_vector<int64_t>()[32] != 7;
      wrong += sum.item<int64_t>() != 231;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a write that is pending is made once, whoever reads it") {
  Tensor w = zeros({64}).contiguous().realize();
  std::atomic<int> wrong{0};
  for (int round = 1; round <= 50; ++round) {
    w.add_(1);
    std::vector<Tensor> sums;
    for (int i = 0; i < 4; ++i) sums.push_back((w * (i + 1)).sum());
    on_threads(4, [&](int i) {
      wrong += sums[static_cast<size_t>(i)].item<float>() != 64.0f * static_cast<float>(round * (i + 1));
    });
    wrong += w.to_vector<float>()[63] != static_cast<float>(round);
  }
  CHECK(wrong == 0);
}

TEST_CASE("threads replay their own captures at once") {
  std::atomic<int> wrong{0};
  on_threads(4, [&](int i) {
    Tensor w = full({16, 16}, 0.25).contiguous().realize(), steps = zeros({1}).contiguous().realize();
    auto step = jit([&](const Tensor& x) {
      steps.add_(1);
      w.assign((w + x.matmul(w) / 16).clamp(-1, 1));
      return w.sum() + steps.sum();
    });
    auto plain = [v = full({16, 16}, 0.25)](const Tensor& x) mutable {
      v = ((v + x.matmul(v) / 16).clamp(-1, 1)).realize();
      return v.sum();
    };
    for (int k = 0; k < 20; ++k) {
      Tensor x = (from_data(ramp(256, static_cast<float>(i + k)), {16, 16}) / 512).realize();
      const float got = step(x).item<float>(), want = plain(x).item<float>();
      wrong += got != want + static_cast<float>(k + 1);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("what a replay overwrites is read as it was") {
  std::atomic<int> wrong{0};
  Tensor state = zeros({512}).contiguous().realize();
  auto add = jit([&](const Tensor& x) {
    state.add_(x);
    return state.sum();
  });
  Tensor one = ones({1}).contiguous().realize();
  for (int round = 0; round < 60; ++round) {
    Tensor twice = state * 2, total = (twice + 1).sum();
    std::thread reads([&] { wrong += total.item<float>() != 512 * (2 * static_cast<float>(round) + 1); });
    wrong += add(one).item<float>() != 512 * static_cast<float>(round + 1);
    reads.join();
    wrong += twice.to_vector<float>()[511] != 2 * static_cast<float>(round);
  }
  CHECK(wrong == 0);
}

TEST_CASE("tensors go on one thread while another realizes what reads them") {
  Channel used;
  std::thread ends([&] {
    while (used.take().defined()) {}
  });
  for (int i = 0; i < 60; ++i) {
    Tensor x = from_data(ramp(64), {64}), y = x * 2, z = y + x;
    used.put(std::move(x));
    if (i % 2) y.realize();
    used.put(std::move(y));
    CHECK(z.sum().item<float>() == 3 * 2016);
    used.put(std::move(z));
  }
  used.put(Tensor());
  ends.join();
}

TEST_CASE("threads draw random numbers, print and fail") {
  std::atomic<int> wrong{0};
  on_threads(4, [&](int i) {
    for (int k = 0; k < 10; ++k) {
      float mean = rand({64}).mean().item<float>();
      wrong += !(mean > 0.2 && mean < 0.8);
      wrong += full({1}, i, int64).to_string() != "[" + std::to_string(i) + "]";
      try {
        zeros({2}) + zeros({3});
        ++wrong;
      } catch (const Error&) {}
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a wrong index is an error of the thread that has it") {
  std::atomic<int> wrong{0};
  on_threads(4, [&](int i) {
    Tensor x = from_data(ramp(6), {6}), zero = zeros({1}, {DType::i64}).contiguous().realize();
    for (int64_t k = 0; k < 10; ++k) {
      const int64_t index = i % 2 ? 6 : k % 6;
      bool failed = false;
      try {
        wrong += x.take(zero + index).item<float>() != static_cast<float>(index);
      } catch (const Error&) { failed = true; }
      wrong += failed != (index == 6);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a leaf may go while another thread runs backward") {
  for (int round = 0; round < 30; ++round) {
    auto* leaf = new Tensor(from_data(ramp(4), {4}).requires_grad_());
    Tensor loss = (*leaf * 2).sum();
    std::thread ends([&] { delete leaf; });
    loss.backward();
    ends.join();
    CHECK(loss.item<float>() == 12);
  }
}

TEST_CASE("a trace sees what every worker does to programs") {
  std::set<int> threads;
  int seen = 0, passes = 0;
  uint64_t kernels = 0;
  set_thread_count(4);
  // A worker that wakes late may find no kernel left.
  for (int64_t round = 1; round <= 50 && threads.size() < 2; ++round) {
    std::vector<Tensor> wanted;
    for (int64_t n = 3; n < 11; ++n)
      wanted.push_back((from_data(ramp(n * n), {n, n}) * double(round)).softmax(1).sum(0));
    Trace trace([&](const TraceEvent& e) {
      CHECK((e.kind == Change::Rule) == (e.rule != nullptr));
      CHECK((e.kind == Change::Pass || e.before != e.after));
      ++seen;
      if (e.kind == Change::Pass) threads.insert(e.thread);
      passes += e.kind == Change::Pass && e.name == std::string_view("linearize");
    });
    const uint64_t before = engine_counts().kernels_compiled;
    realize(wanted);
    kernels += engine_counts().kernels_compiled - before;
  }
  set_thread_count(usable_cores());
  CHECK(threads.size() >= 2);
  CHECK(kernels > 0);
  CHECK(static_cast<uint64_t>(passes) == kernels);
  CHECK(seen > passes);
  Tensor unseen = (from_data(ramp(12), {12}) * 3).realize();  // when there is no trace any more
  const int last = seen;
  CHECK(unseen.sum().item<float>() == 198);
  CHECK(seen == last);
}

TEST_CASE("traces come and go while threads change programs") {
  std::atomic<int> rounds{0};
  on_threads(4, [&](int i) {
    while (rounds < 200) {
      if (i < 2) {
        int seen = 0;
        Trace trace([&](const TraceEvent&) { ++seen; });
        ++rounds;
        continue;
      }
      Arena arena;
      ArenaScope scope(arena);
      simplify((range(0, index(8), Role::Loop) + i) * 4 / 4 + index(0));
    }
  });
}

TEST_SUITE_END();
