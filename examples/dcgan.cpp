// A DCGAN on drawn digits: one network draws, the other one tells drawn from real. Writes
// dcgan.png.
#include <mote/data.h>
#include <mote/images.h>
#include <mote/modules.h>
#include <mote/mote.h>

#include <cstdio>
#include <cstdlib>

using namespace mote;

// 1 x 1 codes grow to 28 x 28 pictures between -1 and 1.
auto make_generator() {
  return nn::Sequential(nn::ConvTranspose2d(32, 64, 7, {}, false), nn::BatchNorm(64), nn::ReLU(),
                        nn::ConvTranspose2d(64, 32, 4, {.stride = 2, .padding = 1}, false),
                        nn::BatchNorm(32), nn::ReLU(),
                        nn::ConvTranspose2d(32, 1, 4, {.stride = 2, .padding = 1}), nn::Tanh());
}
auto make_judge() {
  return nn::Sequential(nn::Conv2d(1, 32, 4, {.stride = 2, .padding = 1}), nn::LeakyReLU{0.2},
                        nn::Conv2d(32, 64, 4, {.stride = 2, .padding = 1}, false),
                        nn::BatchNorm(64), nn::LeakyReLU{0.2}, nn::Flatten(),
                        nn::Linear(64 * 49, 1));
}

Tensor called(const Tensor& logits, double real) {
  return logits.binary_cross_entropy_with_logits(logits.detach().full_like(real));
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 100;
  manual_seed(0);
  data::Images digits = data::digits(2000, 1);
  auto generator = make_generator();
  auto judge = make_judge();
  optim::Adam draw(parameters(generator), {.lr = 2e-4, .beta1 = 0.5});
  optim::Adam tell(parameters(judge), {.lr = 2e-4, .beta1 = 0.5});

  auto step = jit([&](const Tensor& bytes) {
    Tensor real = bytes.to_float() / 127.5 - 1;
    Tensor drawn = generator(randn({real.size(0), 32, 1, 1}));
    tell.zero_grad();
    Tensor telling = called(judge(real), 0.9) + called(judge(drawn.detach()), 0);
    telling.backward();
    tell.step();
    draw.zero_grad();
    Tensor drawing = called(judge(drawn), 1);
    drawing.backward();  // also adds to the judge's gradients, which the next step drops
    draw.step();
    return std::vector{telling, drawing};
  });
  data::Order order(digits.count(), 50);
  for (int i = 0; i < steps; ++i) {
    std::vector<Tensor> losses = step(digits.batch(order.next()).images);
    if (i % 25 == 0)
      std::printf("step %3d  judge %.3f  generator %.3f\n", i, losses[0].item<float>(),
                  losses[1].item<float>());
  }
  eval(generator);
  auto scope = no_grad();
  save_png("dcgan.png", image_grid(generator(randn({64, 32, 1, 1})) * 0.5 + 0.5));
  std::printf("wrote dcgan.png\n");
}
