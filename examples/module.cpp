// A module of your own: a struct, one line that names its tensors, and a call operator.
#include <mote/jit.h>
#include <mote/nn.h>
#include <mote/optim.h>

#include <cstdio>

using namespace mote;

struct Block {
  nn::LayerNorm norm;
  nn::Linear up, down;
  nn::Dropout dropout;
  MOTE_FIELDS(norm, up, down, dropout)
  explicit Block(int64_t width)
      : norm(width), up(width, 4 * width), down(4 * width, width), dropout{0.1} {}
  Tensor operator()(const Tensor& x) const { return x + dropout(down(up(norm(x)).gelu())); }
};

struct Net {
  nn::Linear in{2, 16};
  std::vector<Block> blocks{Block(16), Block(16)};
  nn::Linear out{16, 1};
  MOTE_FIELDS(in, blocks, out)
  Tensor operator()(const Tensor& x) const {
    Tensor y = in(x);
    for (const Block& block : blocks) y = block(y);
    return out(y).squeeze(-1);
  }
};

int main() {
  manual_seed(3);
  Net net;
  int64_t count = 0;
  for (const NamedTensor& p : named_parameters(net)) count += p.tensor.numel();
  std::printf("%lld parameters, the first is %s, the last %s\n", static_cast<long long>(count),
              state_dict(net).front().name.c_str(), state_dict(net).back().name.c_str());

  optim::AdamW adam(parameters(net), {.lr = 5e-3});
  auto step = jit([&](const Tensor& points) {  // inside the unit circle, or outside?
    adam.zero_grad();
    Tensor inside = (points.square().sum(1) < 1).to_float();
    Tensor loss = net(points).binary_cross_entropy_with_logits(inside);
    loss.backward();
    adam.clip_grad_norm(1);
    adam.step();
    return loss;
  });
  for (int i = 0; i < 200; ++i) {
    Tensor loss = step(rand({128, 2}) * 3 - 1.5);
    if (i % 50 == 0) std::printf("step %3d  loss %.3f\n", i, loss.item<float>());
  }
  eval(net);  // no dropout any more
  Tensor points = tensor({
      {0.0,  0.1},
      {0.5,  0.5},
      {1.2,  1.2},
      {-1.4, 0.3}
  });
  for (float p : net(points).sigmoid().to_vector<float>()) std::printf("%.2f ", p);
  std::printf("\n");
}
