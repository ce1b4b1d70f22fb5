// Mixed precision: f32 parameters and products in bf16; then in f16, with a scaled loss; then bf16
// parameters with f32 norms and master weights.
#include <mote/autocast.h>
#include <mote/jit.h>
#include <mote/nn.h>
#include <mote/optim.h>

#include <cstdio>

using namespace mote;

struct Net {
  nn::Linear in{2, 64}, out{64, 1};
  nn::LayerNorm norm{64};
  MOTE_FIELDS(in, norm, out)
  Tensor operator()(const Tensor& x) const {
    return out(norm(in(x.to(in.weight.dtype())).gelu())).squeeze(-1);
  }
};

Tensor loss_of(const Net& net, const Tensor& points) {  // inside the unit circle, or outside?
  Tensor inside = (points.square().sum(1) < 1).to_float();
  return net(points).binary_cross_entropy_with_logits(inside);
}

void train_in_bf16() {
  Net net;
  optim::AdamW adam(parameters(net), {.lr = 2e-2});
  auto step = jit([&](const Tensor& points) {
    adam.zero_grad();
    Tensor loss;
    {
      auto scope = autocast(DType::bf16);
      loss = loss_of(net, points);  // the products are bf16, the loss is f32
    }
    loss.backward();  // gradients have their parameters' dtype, f32
    adam.step();
    return loss;
  });
  for (int i = 0; i <= 100; ++i) {
    Tensor loss = step(rand({128, 2}) * 3 - 1.5);
    if (i % 50 == 0) std::printf("bf16  step %3d  loss %.3f\n", i, loss.item<float>());
  }
}

void train_in_f16() {
  Net net;
  optim::AdamW adam(parameters(net), {.lr = 2e-2});
  optim::LossScaler scaler;
  auto step = jit([&](const Tensor& points) {
    adam.zero_grad();
    Tensor loss;
    {
      auto scope = autocast(DType::f16);
      loss = loss_of(net, points);
    }
    scaler.scale(loss).backward();
    scaler.unscale(adam);  // only needed before clipping
    adam.clip_grad_norm(1);
    scaler.step(adam);  // changes nothing but the scale where a gradient is not finite
    return loss;
  });
  for (int i = 0; i <= 100; ++i) {
    Tensor loss = step(rand({128, 2}) * 3 - 1.5);
    if (i % 50 == 0)
      std::printf("f16   step %3d  loss %.3f  scale %.0f\n", i, loss.item<float>(),
                  scaler.factor.item<float>());
  }
}

void train_bf16_parameters() {
  Net net;
  to(net, DType::bf16);
  walk_fields(net, "", [](const std::string&, nn::LayerNorm& norm) { to(norm, DType::f32); });
  optim::AdamW adam(parameters(net), {.lr = 2e-2, .master_weights = true});
  auto step = jit([&](const Tensor& points) {
    adam.zero_grad();
    Tensor loss = loss_of(net, points);
    loss.backward();
    adam.step();
    return loss;
  });
  for (int i = 0; i <= 100; ++i) {
    Tensor loss = step(rand({128, 2}) * 3 - 1.5);
    if (i % 50 == 0) std::printf("bf16 parameters  step %3d  loss %.3f\n", i, loss.item<float>());
  }
}

int main() {
  manual_seed(4);
  train_in_bf16();
  train_in_f16();
  train_bf16_parameters();
}
