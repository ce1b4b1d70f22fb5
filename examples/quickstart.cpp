#include <mote/mote.h>

#include <cstdio>

int main() {
  mote::manual_seed(0);
  mote::Tensor x = mote::randn({256, 8}), y = x.square().sum(1, true).sqrt();
  mote::Tensor w1 = (mote::randn({8, 32}) * 0.3).requires_grad_();
  mote::Tensor w2 = (mote::randn({32, 1}) * 0.3).requires_grad_();
  for (int step = 0; step <= 100; ++step) {
    mote::Tensor loss = (x.matmul(w1).relu().matmul(w2) - y).square().mean();
    loss.backward();                   // adds to w1.grad() and w2.grad(), still lazily
    for (mote::Tensor w : {w1, w2}) {  // a Tensor is a shared handle
      w.assign(w.detach() - w.grad() * 0.05);
      w.zero_grad();
    }
    mote::realize({loss, w1, w2});     // one schedule, found again in the next step
    if (step % 20 == 0) std::printf("%3d  %.4f\n", step, loss.item<float>());
  }
}
