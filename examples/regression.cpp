// Gradients and an optimizer: a line through noisy points.
#include <mote/mote.h>
#include <mote/optim.h>

#include <cstdio>

using namespace mote;

int main() {
  manual_seed(1);
  Tensor x = rand({200, 1}) * 4 - 2;
  Tensor y = x * 3 - 0.5 + randn({200, 1}) * 0.1;
  realize({x, y});  // otherwise every step would draw them anew

  Tensor slope = zeros({1, 1}).requires_grad_(), intercept = zeros({1}).requires_grad_();
  optim::SGD sgd({slope, intercept}, {.lr = 0.1, .momentum = 0.5});
  for (int step = 0; step <= 40; ++step) {
    sgd.zero_grad();
    Tensor loss = (x.matmul(slope) + intercept - y).square().mean();
    loss.backward();
    std::vector<Tensor> written = sgd.step();
    written.push_back(loss);
    realize(written);  // the step and the loss, in one go
    if (step % 10 == 0) std::printf("step %2d  loss %.4f\n", step, loss.item<float>());
  }
  std::printf("y = %.2f x %+.2f\n", slope.item<float>(), intercept.item<float>());
}
