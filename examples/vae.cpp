// A variational autoencoder on drawn digits; writes what it imagines to vae.png.
#include <mote/data.h>
#include <mote/images.h>
#include <mote/modules.h>
#include <mote/mote.h>

#include <cstdio>
#include <cstdlib>

using namespace mote;

struct Vae {
  nn::Linear encode{784, 256}, mean{256, 16}, log_variance{256, 16};
  nn::Sequential<nn::Linear, nn::ReLU, nn::Linear> decode{nn::Linear(16, 256), nn::ReLU(),
                                                          nn::Linear(256, 784)};
  MOTE_FIELDS(encode, mean, log_variance, decode)

  // The evidence lower bound, negated: how well pictures come back, and how far their codes are
  // from a normal distribution.
  Tensor loss(const Tensor& x) const {
    Tensor h = encode(x).relu(), mu = mean(h), log_var = log_variance(h);
    Tensor code = mu + (log_var * 0.5).exp() * mu.detach().randn_like();
    Tensor wrong = decode(code).binary_cross_entropy_with_logits(x, {}, {}, Reduction::sum);
    Tensor far = (mu.square() + log_var.exp() - 1 - log_var).sum() * 0.5;
    return (wrong + far) / x.size(0);
  }
};

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;
  manual_seed(0);
  data::Images digits = data::digits(2000, 1);
  Vae vae;
  optim::Adam adam(parameters(vae), {.lr = 2e-3});
  auto step = jit([&](const Tensor& bytes) {
    adam.zero_grad();
    Tensor loss = vae.loss(bytes.flatten(1).to_float() / 255);
    loss.backward();
    adam.step();
    return loss;
  });
  data::Order order(digits.count(), 100);
  for (int i = 0; i < steps; ++i) {
    Tensor loss = step(digits.batch(order.next()).images);
    if (i % 50 == 0) std::printf("step %3d  loss %.1f\n", i, loss.item<float>());
  }
  auto scope = no_grad();
  Tensor imagined = vae.decode(randn({64, 16})).sigmoid().reshape({64, 1, 28, 28});
  save_png("vae.png", image_grid(imagined));
  std::printf("wrote vae.png\n");
}
