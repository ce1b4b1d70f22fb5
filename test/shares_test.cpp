// What threads share out: drawn kernels of every kind, and drawn numbers of threads.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cmath>
#include <functional>
#include <map>
#include <sstream>

#include "base/random.h"
#include "base/threads.h"
#include "engine/workbench.h"
#include "lower/lower.h"

using namespace mote;

namespace {

// Instructions that a program executes, at most, without those for positions.
double executed(const Program& p) {
  double all = 0, times = 1;
  std::vector<double> around;
  std::map<int, double> tiles;  // by slot, without lanes
  for (UOp n : toposort(p.linear))
    if (is_tile_range(n) && range_role(n) != Role::Vector)
      tiles[range_slot(n)] = static_cast<double>(n->src(0)->hi);
  for (Node* n : p.linear->src()) {
    if (n->op == Op::Range) {
      around.push_back(times);
      times *= static_cast<double>(n->sources[0]->hi);
    } else if (n->op == Op::End) {
      times = around.back();
      around.pop_back();
    } else if (is_float(n->dtype) || n->op == Op::Store) {
      double each = times;
      for (auto [slot, size] : tiles)
        if (n->ranges >> slot & 1) each *= size;
      all += each;
    }
  }
  return all;
}

// Of the worker that has most, where each has as many parts.
double unevenness(const Program& p, int threads) {
  const double parts = static_cast<double>(p.global_extent);
  return std::ceil(parts / threads) / parts * threads;
}

class Drawer {
 public:
  Drawer(uint64_t seed, std::string device) : random_(seed, 1), device_(std::move(device)) {}

  int64_t size(int64_t least, int64_t most) { return least + random_.below(most - least + 1); }
  Tensor input(const Sizes& shape) {
    if (device_ == "CPU") return (rand(shape) - 0.5f).realize();
    return empty(shape, {.device = device_}).realize();
  }

  struct Kind {
    std::string name;
    std::function<std::vector<Tensor>()> make;
  };
  // Of lengths up to so many.
  std::vector<Kind> kinds(int64_t s) {
    auto conv = [this, s](int wanted) -> std::vector<Tensor> {
      const int64_t k = size(1, 5), side = k + size(4, s / 16), n = size(1, s / 8);
      Tensor x = input({n, size(1, 40), side, side}).requires_grad_();
      Tensor w = input({size(1, 70), x.size(1), k, k}).requires_grad_();
      Tensor y = x.conv2d(w, {}, {.padding = k / 2});
      if (!wanted) return {y};
      return {y.gradient({x, w}, input(y.shape()))[wanted == 1 ? 0 : 1]};
    };
    auto folded = [this, s](int64_t axis) -> std::vector<Tensor> {
      return {input({size(1, 20), size(1, s), size(1, s)}).sum({axis})};
    };
    auto in = [this](auto... n) { return input({n...}); };
    auto some = [this](int64_t most) { return size(1, most); };
    using List = std::vector<Tensor>;
    // clang-format off
    return {
        {"product", [=] { return List{matmul(in(some(s), 300), in(300, some(s)))}; }},
        {"products", [=] {
           const int64_t n = some(20);
           return List{matmul(in(n, some(s), 64), in(n, 64, some(s)))};
         }},
        {"by a vector", [=] { return List{in(some(4 * s), 700).mv(in(700))}; }},
        {"convolution", [=] { return conv(0); }},
        {"gradient of its input", [=] { return conv(1); }},
        {"gradient of its weight", [=] { return conv(2); }},
        {"fold of the first axis", [=] { return folded(0); }},
        {"fold of the second axis", [=] { return folded(1); }},
        {"fold of the last axis", [=] { return folded(2); }},
        {"attention", [=, this] {
           const Sizes q{some(20), size(20, s), 64};
           const bool causal = size(0, 1) == 1;
           return List{input(q).scaled_dot_product_attention(input(q), input(q),
                                                             {.is_causal = causal})};
         }},
        {"softmax", [=, this] { return List{in(some(s), some(2 * s)).softmax(size(0, 1))}; }},
        {"elementwise", [=] { return List{in(some(s), some(s)).exp() * in(1, 1)}; }},
        {"scan", [=, this] { return List{in(some(s), some(s)).cumsum(size(0, 1))}; }},
        {"transposed", [=] { return List{in(some(9), some(s), some(s)).transpose(1, 2).contiguous()}; }},
        {"writes in order", [=, this] {
           const int64_t rows = size(2, s), n = some(4 * s), width = some(s);
           Tensor at = input({n}).abs().to(int64);
           return List{in(rows, width).index_add(0, at, in(n, width))};
         }},
    };
    // clang-format on
  }

 private:
  Random random_;
  std::string device_;
};

// What realizing these compiles for a device.
std::vector<KnownKernel> kernels_of(const std::string& device, const std::vector<Tensor>& results) {
  clear_kernel_cache();
  realize(results);
  std::vector<KnownKernel> all = known_kernels();
  std::erase_if(all, [&](const KnownKernel& k) { return k.device != device; });
  return all;
}

struct ThreadCount {
  int before = thread_count();
  ~ThreadCount() { set_thread_count(before); }
};

constexpr uint64_t kSeed = 20000;

}  // namespace

TEST_SUITE("shares") {
  TEST_CASE("shares of threads are alike, and little is done twice") {
    constexpr double kShort = 40'000;  // instructions: not worth sending to many
    const Target target = device("CPU").target();
    Drawer draw(kSeed, "NULL");
    int drawn = 0, large = 0;
    std::ostringstream text;
    for (int round = 0; round < 3; ++round)
      for (const Drawer::Kind& kind : draw.kinds(600))
        for (const KnownKernel& known : kernels_of("NULL", kind.make())) {
          Arena arena;
          ArenaScope scope(arena);
          const UOp body = unflatten_graph(known.body);
          Target some = target;
          some.threads = 1;
          const double alone = executed(lower(choose_actions(body, some).body, some));
          for (int i = 0; i < 4 && alone > 5 * kShort; ++i) {
            some.threads = static_cast<int>(draw.size(2, 16));
            const Tuned tuned = choose_actions(body, some);
            const Program shared = lower(tuned.body, some);
            const double share = alone / some.threads, repeated = executed(shared) / alone;
            const double uneven = unevenness(shared, some.threads);
            const double most = (repeated * uneven * share - kShort) / share;
            ++drawn;
            if (most < 1.15) continue;
            ++large;
            text << kind.name << ", round " << round << ", " << some.threads << " threads with "
                 << share << " instructions each: work is " << repeated
                 << " of one thread's, the largest share " << uneven << " of the mean, by '"
                 << to_string(tuned.actions) << "'\n";
          }
        }
    // Some have few outputs, or tiles that have no parts in common.
    INFO("seed ", kSeed, ": ", large, " of ", drawn, " large\n", text.str());
    CHECK(large * 8 <= drawn);
  }

  TEST_CASE("drawn kernels give the same bits on any number of threads") {
    Drawer draw(kSeed + 1, "CPU");
    Device& cpu = device("CPU");
    const ThreadCount before;
    for (const Drawer::Kind& kind : draw.kinds(260))
      for (const KnownKernel& known : kernels_of("CPU", kind.make())) {
        Arena arena;
        ArenaScope scope(arena);
        const UOp body = unflatten_graph(known.body);
        if (!Workbench::cannot_try(body, cpu).empty()) continue;
        Workbench bench(body, cpu);
        Target some = cpu.target();
        std::vector<HostArray> alone;
        for (int threads : {1, static_cast<int>(draw.size(2, 16))}) {
          set_thread_count(some.threads = threads);
          const std::vector<Action> actions = choose_actions(body, some).actions;
          const std::vector<HostArray> got =
              bench.outputs(compile_kernel(known.body, actions, cpu));
          if (threads == 1) alone = got;
          for (size_t i = 0; i < got.size(); ++i)
            CHECK_MESSAGE(got[i].bytes == alone[i].bytes, kind.name, ", seed ", kSeed + 1, ", ",
                          threads, " threads: ", to_string(actions));
        }
      }
  }
}
