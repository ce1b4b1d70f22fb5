// Plans as graphs: loops over statements, several devices, text.
#include "engine/plan.h"

#include <doctest/doctest.h>
#include <mote/mote.h>

#include <ctime>

#include "base/error.h"
#include "engine/call_list.h"
#include "engine/realize.h"
#include "ir/print.h"
#include "ir/spec.h"
#include "tensor/impl.h"
#include "tensor/primitives.h"
#include "test/odd_devices.h"

using namespace mote;

namespace {

constexpr int64_t kSize = 24, kLayers = 96;

UOp listed(Op op, UOp a, std::vector<int64_t> ints) {
  return make(op, a->dtype, {a}, Arg::of(intern_arg(ints)));
}

// x becomes tanh(x @ w) + x, of square matrices. Memories: 0 is x, 1 is w.
UOp layer() {
  const int64_t n = kSize;
  const UOp x = param(0, DType::f32, n * n, Space::Global, 1),
            w = param(1, DType::f32, n * n, Space::Global, 1);
  const UOp rows = listed(Op::Reshape, x, {n, n});
  const UOp left = listed(Op::Expand, listed(Op::Reshape, x, {n, n, 1}), {n, n, n}),
            right = listed(Op::Expand, listed(Op::Reshape, w, {1, n, n}), {n, n, n});
  const UOp sum = listed(Op::Reduce, left * right, {static_cast<int64_t>(Op::Add), 1});
  const UOp y = unary(Op::Tanh, listed(Op::Reshape, sum, {n, n})) + rows;
  const UOp store = make(Op::Store, DType::none, {x, listed(Op::Reshape, y, {n * n})});
  return make(Op::Sink, DType::none, {store}, Arg::of(intern_arg({})));
}

// The layer's plan with the weights of the layer at this position of memory 1.
std::vector<UOp> layer_at(UOp plan, UOp position) {
  const UOp all = param(1, DType::f32, kLayers * kSize * kSize, Space::Global, 1);
  const UOp slice = make(Op::Index, DType::f32, {all, position * (kSize * kSize)});
  std::vector<UOp> steps;
  for (UOp s : plan->src())
    steps.push_back(with_places(
        s, [&](UOp place) { return !is_temporary(place) && slot_of(place) == 1 ? slice : place; }));
  return steps;
}

UOp unrolled(UOp plan, int64_t layers) {
  std::vector<UOp> steps;
  for (int64_t l = 0; l < layers; ++l)
    for (UOp s : layer_at(plan, index(l))) steps.push_back(s);
  return linear(steps);
}

UOp looped(UOp plan) {
  const UOp loop = range(0, index(kLayers), Role::Loop);
  std::vector<UOp> steps{loop};
  for (UOp s : layer_at(plan, loop)) steps.push_back(s);
  steps.push_back(make(Op::End, DType::none, {loop}));
  return linear(steps);
}

std::vector<float> run(UOp plan) {
  Tensor x = (arange(kSize * kSize) % 7 / 7).cast(DType::f32).reshape({kSize, kSize}),
         w = (arange(kLayers * kSize * kSize) % 11 / 11 - 0.5).cast(DType::f32);
  x = x.contiguous().realize(), w = w.contiguous().realize();
  auto buffer = [](const Tensor& t) {
    return &device_buffer(*prim::base_of(node_of(t))->arg.storage);
  };
  DeviceBuffer* buffers[] = {buffer(x), buffer(w)};
  CallList(compile_plan(plan), buffers, {}).run();
  return x.to_vector<float>();
}

double planning_seconds(UOp plan, const Targets& targets) {
  double best = 1e9;
  for (int round = 0; round < 30; ++round) {
    timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    CompiledPlan planned(improve(plan, targets));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    best = std::min(best, static_cast<double>(after.tv_sec - before.tv_sec) +
                              static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9);
  }
  return best;
}

}  // namespace

TEST_SUITE("plan") {
  TEST_CASE("a loop over equal layers runs as if it were unrolled, and is planned as one") {
    Arena arena;
    ArenaScope scope(arena);
    const Targets targets(device("CPU").target());
    const UOp one = schedule(layer(), targets);
    const UOp loop = improve(looped(one), targets), all = improve(unrolled(one, kLayers), targets);
    verify(loop, Stage::Plan, "a test");
    CHECK(loop->nsrc == one->nsrc + 2);
    CHECK(run(loop) == run(all));
    CHECK(planning_seconds(looped(one), targets) <=
          planning_seconds(unrolled(one, 2), targets) * 1.1);
  }

  TEST_CASE("a plan is text that parses back") {
    Arena arena;
    ArenaScope scope(arena);
    const UOp plan = schedule(layer(), Targets(device("CPU").target()));
    verify_text(plan, "schedule");
    verify_text(plan_memory(looped(plan)), "plan memory");
    CHECK(parse(print(plan)) == plan);
  }

  TEST_CASE("what is kept from one round of a loop to the next has memory of its own") {
    // t is made before the loop and read in each round; u is made anew in each.
    Arena arena;
    ArenaScope scope(arena);
    auto temporary = [](int slot) { return param(slot, DType::u8, 64, Space::Local, 1); };
    const UOp x = param(0, DType::u8, 64, Space::Global, 1), t = temporary(1), u = temporary(2),
              v = temporary(3), loop = range(0, index(4), Role::Loop);
    auto step = [](UOp to, UOp from) {
      const UOp i = range(0, index(64), Role::Loop);
      const UOp write = make(Op::Index, DType::u8, {param(0, DType::u8, 64), i}),
                read = make(Op::Index, DType::u8, {param(1, DType::u8, 64), i});
      const UOp end = make(Op::End, DType::none, {make(Op::Store, DType::none, {write, read}), i});
      return call(make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({}))),
                  std::vector{to, from}, {});
    };
    const UOp end = make(Op::End, DType::none, {loop});
    const UOp plan = plan_memory(
        linear(std::vector{step(t, x), loop, step(u, t), step(x, u), step(v, x), step(x, v), end}));
    verify(plan, Stage::Plan, "plan memory");
    auto place = [&](uint32_t statement, size_t i) {
      return UOp(places_of(plan->src(statement))[i])->src(1)->arg.i;
    };
    CHECK(place(0, 0) != place(2, 0));  // t and u
    CHECK(place(0, 0) != place(4, 0));  // t and v, though t is read before v is made
    CHECK(place(2, 0) == place(4, 0));  // u and v

    // Each round writes a slice of w that later ones may read.
    const UOp w = param(4, DType::u8, 4 * 64, Space::Local, 1);
    const UOp slice = make(Op::Index, DType::u8, {w, loop * 64});
    const UOp sliced = plan_memory(
        linear(std::vector{loop, step(slice, x), step(x, slice), step(v, x), step(x, v), end}));
    const int64_t at_w = UOp(places_of(sliced->src(1))[0])->src(1)->lo,
                  at_v = UOp(places_of(sliced->src(3))[0])->src(1)->lo;
    CHECK((at_v >= at_w + 4 * 64 || at_w >= at_v + 64));
  }

  TEST_CASE("each kernel is made for the target of its own device") {
    add_odd_devices();  // a kernel of NARROW takes 8 buffers
    Tensor sum = zeros({5}), far = zeros({5}, {.device = "NARROW"});
    std::vector<Tensor> here, there;
    for (int i = 0; i < 12; ++i) {
      here.push_back(full({5}, i).contiguous().realize());
      there.push_back(full({5}, i, {.device = "NARROW"}).contiguous().realize());
      sum = sum + here.back(), far = far + there.back();
    }
    ScheduleReport both = explain(std::vector{sum, far});
    CHECK(explain(std::vector{sum}).kernels.size() == 1);
    CHECK(both.kernels.size() == 1 + explain(std::vector{far}).kernels.size());
    CHECK(both.kernels.size() > 2);
    realize({sum, far});
    CHECK(sum.to_vector<float>() == std::vector<float>(5, 66));
    CHECK(far.to_vector<float>() == std::vector<float>(5, 66));
  }

  TEST_CASE("devices that reach each other copy without the host") {
    add_odd_devices();
    Tensor x = from_data(std::vector<float>{1, 2, 3, 4}, {4}, {.device = "FAR"});
    const FarCopies before = far_copies();
    Tensor y = (x * 2).to("FAR:1").realize();
    CHECK(far_copies().direct == before.direct + 1);
    CHECK(far_copies().through_host == before.through_host);
    CHECK(y.to_vector<float>() == std::vector<float>{2, 4, 6, 8});
  }
}
