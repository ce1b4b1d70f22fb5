// A small residual network on CIFAR-10, with augmentation, batches made ahead, and resume:
//   cifar [FOLDER of the .bin files] [steps]      Without a folder it learns drawn digits instead.
// Stop it at any time and start it again: it goes on from cifar.safetensors.
#include <mote/checkpoint.h>
#include <mote/images.h>
#include <mote/loader.h>
#include <mote/modules.h>
#include <mote/mote.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

using namespace mote;

struct Block {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm bn1, bn2;
  MOTE_FIELDS(conv1, bn1, conv2, bn2)
  explicit Block(int64_t width)
      : conv1(width, width, 3, {.padding = 1}, false),
        conv2(width, width, 3, {.padding = 1}, false),
        bn1(width),
        bn2(width) {}
  Tensor operator()(const Tensor& x) const { return (x + bn2(conv2(bn1(conv1(x)).relu()))).relu(); }
};

struct Net {
  nn::Conv2d stem{
      3, 32, 3, {.stride = 2, .padding = 1}
  };
  std::vector<Block> blocks{Block(32), Block(32)};
  nn::Linear head{32, 10};
  MOTE_FIELDS(stem, blocks, head)
  Tensor operator()(const Tensor& x) const {
    Tensor y = stem(x).relu();
    for (const Block& block : blocks) y = block(y.max_pool2d(2));
    return head(y.mean({2, 3}));
  }
};

Tensor normalized(const Tensor& bytes) {
  Tensor x = bytes.to_float() / 255;
  if (x.size(1) == 1) x = x.expand({-1, 3, -1, -1}).pad({2, 2, 2, 2});  // digits of 28 x 28
  return transforms::normalize(x, {0.491, 0.482, 0.447}, {0.247, 0.243, 0.262});
}

Tensor augmented(const Tensor& bytes) {
  Tensor x = transforms::random_crop(normalized(bytes), 32, 4);
  return transforms::random_horizontal_flip(x);
}

int main(int argc, char** argv) {
  manual_seed(0);
  const data::Split split = argc > 1 && *argv[1]
                                ? data::cifar10(argv[1])
                                : data::Split{data::digits(2000, 1), data::digits(250, 2)};
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 60;
  Net net;
  optim::SGD opt(parameters(net), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
  const optim::Schedule rate = optim::one_cycle_lr(0.1, steps);
  data::Loader<data::Images::Batch> batches(data::Order(split.train.count(), 50),
                                            [&](auto rows) { return split.train.batch(rows); });
  int64_t step = 0;
  auto state = [&]() -> CheckpointParts {
    return {
        {"model",     net    },
        {"optimizer", opt    },
        {"batches",   batches},
        {"step",      step   }
    };
  };
  const char* path = "cifar.safetensors";
  if (std::filesystem::exists(path)) load_checkpoint(path, state());

  auto train_step = jit([&](const data::Images::Batch& batch) {
    opt.zero_grad();
    Tensor loss = net(augmented(batch.images)).cross_entropy(batch.labels);
    loss.backward();
    opt.step();
    return loss;
  });
  while (step < steps) {
    opt.set_lr(rate(step));
    Tensor loss = train_step(batches.next());
    if (++step % 20 > 0 && step < steps) continue;
    std::printf("step %3lld  loss %.3f\n", static_cast<long long>(step), loss.item<float>());
    save_checkpoint(path, state());
  }

  eval(net);
  auto scope = no_grad();
  double right = 0;
  for (const auto& rows : data::batches_in_order(split.test.count(), 100)) {  // the last is shorter
    data::Images::Batch test = split.test.batch(rows);
    right += net(normalized(test.images)).argmax(1).eq(test.labels).sum().item<double>();
  }
  std::printf("test accuracy %.1f %%\n", 100 * right / static_cast<double>(split.test.count()));
}
