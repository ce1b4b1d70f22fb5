// The MNIST conv net on the built-in digits, its training step captured and replayed.
#include <mote/data.h>
#include <mote/jit.h>
#include <mote/models.h>
#include <mote/optim.h>

#include <cstdio>
#include <numeric>

using namespace mote;

int main() {
  manual_seed(0);
  data::Images train_set = data::digits(2000, 1), test_set = data::digits(250, 2);
  models::MnistNet net;
  optim::Adam adam(parameters(net));

  auto step = jit([&](const data::Images::Batch& batch) {
    adam.zero_grad();
    Tensor loss = net(batch.images.to_float() / 255).cross_entropy(batch.labels);
    loss.backward();
    adam.step();
    return loss;
  });

  const int steps = 40;
  optim::Schedule rate = optim::one_cycle_lr(5e-3, steps);
  data::Order order(train_set.count(), 50);
  for (int i = 0; i < steps; ++i) {
    adam.set_lr(rate(i));
    Tensor loss = step(train_set.batch(order.next()));
    if (i % 10 == 0) std::printf("step %2d  loss %.3f\n", i, loss.item<float>());
  }

  eval(net);  // batch norm uses what it has seen in training
  std::vector<int64_t> rows(static_cast<size_t>(test_set.count()));
  std::iota(rows.begin(), rows.end(), 0);
  data::Images::Batch test = test_set.batch(rows);
  Tensor right = net(test.images.to_float() / 255).argmax(1).eq(test.labels).to_float().mean();
  std::printf("test accuracy %.1f %%\n", 100 * right.item<float>());
}
