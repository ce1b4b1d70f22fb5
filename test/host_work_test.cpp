// How much work the host does for a training step. Counts, not times: they are the same on every
// machine and in every run.
#include <doctest/doctest.h>

#include <mote/models.h>

#include "engine/realize.h"
#include "nn/training_step.h"

using namespace mote;

namespace {

constexpr const char* device = "NULL";

// The work of the `step`-th training step of the MNIST network, as `mote bench host` runs it.
EngineCounts work_of_step(int step) {
  clear_caches();
  models::MnistNet net({DType::f32, device});
  optim::Adam adam(parameters(net));
  Tensor images = empty({512, 1, 28, 28}, {DType::f32, device}).realize();
  Tensor labels = empty({512}, {DType::i64, device}).realize();
  EngineCounts before, after;
  for (int i = 0; i < step; ++i) {
    before = engine_counts();
    realize(training_step(net, adam, images, labels));
    after = engine_counts();
  }
  after.nodes -= before.nodes;
  after.visits -= before.visits;
  after.attempts -= before.attempts;
  return after;
}

// The work of a transformer's forward and backward pass.
EngineCounts work_of_layers(int64_t layers) {
  clear_caches();
  models::BertConfig config;
  config.layers = layers;
  config.dropout = 0;
  config.options = {DType::f32, device};
  models::Bert net(config);
  auto ids = [](const Sizes& shape) { return empty(shape, {DType::i64, device}).realize(); };
  models::Bert::Batch batch{ids({4, 512}), ids({4, 512}), ids({4, 512}),
                            ids({4, 76}),  ids({4, 76}),  ids(4)};
  const EngineCounts before = engine_counts();
  Tensor loss = net.loss(batch);
  loss.backward();
  std::vector<Tensor> wanted = {loss};
  for (const Tensor& p : parameters(net))
    if (p.grad().defined()) wanted.push_back(p.grad());
  realize(wanted);
  EngineCounts after = engine_counts();
  after.nodes -= before.nodes;
  after.visits -= before.visits;
  after.attempts -= before.attempts;
  return after;
}

}  // namespace

TEST_SUITE("host work") {
  // The bounds are about a twentieth above what was counted when they were set. A pass that is
  // worth more may raise them; by accident nothing should.
  TEST_CASE("the first training step makes, visits and tries no more than it needs") {
    EngineCounts work = work_of_step(1);
    MESSAGE(work.nodes, " nodes made, ", work.visits, " visited, ", work.attempts,
            " rules tried, ", work.plan_kernels, " kernels");
    // Each of the eleven convolutions is tiled by some fifteen actions, each sum of channels by six;
    // for each of them padded planes are tried as well, whose rules are most of the attempts.
    CHECK(work.nodes <= 118'500);
    CHECK(work.visits <= 25'000);
    CHECK(work.attempts <= 73'500);
    CHECK(work.plan_kernels <= 60);
  }

  TEST_CASE("one more layer of a network is found to be like the last") {
    EngineCounts work[4];
    for (int i = 0; i < 4; ++i) work[i] = work_of_layers(4 << i);
    auto per_layer = [&](int i, uint64_t EngineCounts::* count) {
      return static_cast<double>(work[i + 1].*count - work[i].*count) / (4 << i);
    };
    for (int i = 0; i < 3; ++i) {
      MESSAGE("a layer of ", 4 << i, " to ", 8 << i, ": ", per_layer(i, &EngineCounts::nodes),
              " nodes made, ", per_layer(i, &EngineCounts::visits), " visited, ",
              per_layer(i, &EngineCounts::attempts), " rules tried");
      CHECK(per_layer(i, &EngineCounts::nodes) <= 3'060);
      CHECK(per_layer(i, &EngineCounts::visits) <= 100);
      CHECK(per_layer(i, &EngineCounts::attempts) <= 115);
    }
  }

  TEST_CASE("the second training step is found, not made again") {
    EngineCounts work = work_of_step(2);
    CHECK(work.nodes <= 1'480);
    CHECK(work.visits == 0);
    CHECK(work.attempts == 0);
  }
}
