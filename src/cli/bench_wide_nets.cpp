#include "cli/bench_wide_nets.h"

namespace mote::wide {

Tensor MobileNetV2::Block::operator()(const Tensor& x) const {
  Tensor y = expand ? (*expand)(x).relu6() : x;
  y = project(depthwise(y).relu6());
  return skips ? x + y : y;
}

MobileNetV2::MobileNetV2() {
  struct Stage {
    int64_t widen, out, count, stride;
  };
  constexpr Stage stages[] = {
      {1, 16,  1, 1},
      {6, 24,  2, 2},
      {6, 32,  3, 2},
      {6, 64,  4, 2},
      {6, 96,  3, 1},
      {6, 160, 3, 2},
      {6, 320, 1, 1}
  };
  int64_t in = 32;
  for (const Stage& s : stages)
    for (int64_t i = 0; i < s.count; ++i) {
      const int64_t wide = in * s.widen, stride = i == 0 ? s.stride : 1;
      Block b;
      if (s.widen > 1) b.expand.emplace(in, wide, 1);
      b.depthwise = ConvBn(wide, wide, 3, stride, wide);
      b.project = ConvBn(wide, s.out, 1);
      b.skips = stride == 1 && in == s.out;
      blocks.push_back(std::move(b));
      in = s.out;
    }
}
Tensor MobileNetV2::operator()(const Tensor& images) const {
  Tensor x = stem(images).relu6();
  for (const Block& block : blocks) x = block(x);
  return fc(head(x).relu6().mean({2, 3}));
}

constexpr int64_t kVitFeatures = 192, kVitHeads = 3;

Tensor Vit::Block::operator()(const Tensor& x) const {
  std::vector<Tensor> parts = qkv(norm1(x)).chunk(3, -1);
  for (Tensor& t : parts) t = t.unflatten(-1, {kVitHeads, -1}).transpose(1, 2);
  Tensor mixed = parts[0].scaled_dot_product_attention(parts[1], parts[2]);
  Tensor y = x + proj(mixed.transpose(1, 2).flatten(2));
  return y + fc2(fc1(norm2(y)).gelu());
}

Vit::Vit()
    : patch(3, kVitFeatures, 16, {.stride = 16}), norm(kVitFeatures), head(kVitFeatures, 1000) {
  const int64_t n = kVitFeatures;
  cls_token = nn::parameter(zeros({1, 1, n}));
  positions = nn::parameter(zeros({1, 197, n}));
  for (int i = 0; i < 12; ++i)
    blocks.push_back({nn::LayerNorm(n), nn::LayerNorm(n), nn::Linear(n, 3 * n), nn::Linear(n, n),
                      nn::Linear(n, 4 * n), nn::Linear(4 * n, n)});
}
Tensor Vit::operator()(const Tensor& images) const {
  Tensor x = patch(images).flatten(2).transpose(1, 2);
  x = cat({cls_token.expand({x.size(0), -1, -1}), x}, 1) + positions;
  for (const Block& block : blocks) x = block(x);
  return head(norm(x).select(1, 0));
}

Tensor Dcgan::Generator::operator()(const Tensor& z) const {
  Tensor x = z;
  for (const Up& u : up) x = u.bn(u.conv(x)).relu();
  return last(x).tanh();
}
Tensor Dcgan::Discriminator::operator()(const Tensor& images) const {
  Tensor x = first(images).leaky_relu(0.2);
  for (const ConvBn& d : down) x = d(x).leaky_relu(0.2);
  return last(x).flatten();
}
Dcgan::Dcgan() {
  const ConvTransposeOptions twice{.stride = 2, .padding = 1};
  int64_t in = 100;
  for (int64_t out : {512, 256, 128, 64}) {
    const ConvTransposeOptions o = in == 100 ? ConvTransposeOptions{} : twice;
    generator.up.push_back({nn::ConvTranspose2d(in, out, 4, o, false), nn::BatchNorm(out)});
    in = out;
  }
  generator.last = nn::ConvTranspose2d(in, 3, 4, twice, false);
  const ConvOptions half{.stride = 2, .padding = 1};
  discriminator.first = nn::Conv2d(3, 64, 4, half, false);
  for (int64_t out : {128, 256, 512}) {
    ConvBn d;
    d.conv = nn::Conv2d(out / 2, out, 4, half, false), d.bn = nn::BatchNorm(out);
    discriminator.down.push_back(d);
  }
  discriminator.last = nn::Conv2d(512, 1, 4, {}, false);
}

Tensor LstmText::Layer::operator()(const Tensor& x) const {
  nn::LSTMCell cell;
  cell.weight_ih = weight_ih_l0, cell.weight_hh = weight_hh_l0;
  cell.bias_ih = bias_ih_l0, cell.bias_hh = bias_hh_l0;
  std::vector<Tensor> out;
  nn::LSTMCell::State state;
  for (const Tensor& step : x.unbind(0)) out.push_back((state = cell(step, state)).h);
  return stack(out, 0);
}
LstmText::LstmText() {
  for (int i = 0; i < 2; ++i) {
    const nn::LSTMCell cell(256, 256);
    layers.push_back({cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh});
  }
}
Tensor LstmText::operator()(const Tensor& tokens) const {
  Tensor x = words(tokens);
  for (const Layer& layer : layers) x = layer(x);
  return head(x);
}

}  // namespace mote::wide
