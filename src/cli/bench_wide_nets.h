// Networks of `mote bench wide` that models.h does not have. tools/bench_wide_models.py has them
// with the same names, by which weights are filled.
#pragma once
#include <mote/models.h>

namespace mote::wide {

struct Mlp {
  nn::Linear fc1{784, 256}, fc2{256, 128}, fc3{128, 10};
  MOTE_FIELDS(fc1, fc2, fc3)
  Tensor operator()(const Tensor& x) const { return fc3(fc2(fc1(x).relu()).relu()); }
};

struct ConvBn {
  nn::Conv2d conv;
  nn::BatchNorm bn;
  MOTE_FIELDS(conv, bn)
  ConvBn() = default;
  ConvBn(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1, int64_t groups = 1)
      : conv(in, out, kernel, {.stride = stride, .padding = kernel / 2, .groups = groups}, false),
        bn(out) {}
  Tensor operator()(const Tensor& x) const { return bn(conv(x)); }
};

// An inverted residual: wider by a 1x1, 3x3 per channel, narrow again.
struct MobileNetV2 {
  struct Block {
    std::optional<ConvBn> expand;
    ConvBn depthwise, project;
    bool skips = false;
    MOTE_FIELDS(expand, depthwise, project)
    Tensor operator()(const Tensor& x) const;
  };
  ConvBn stem{3, 32, 3, 2}, head{320, 1280, 1};
  std::vector<Block> blocks;
  nn::Linear fc{1280, 1000};
  MOTE_FIELDS(stem, blocks, head, fc)
  MobileNetV2();
  Tensor operator()(const Tensor& images) const;
};

// ViT-tiny: 224x224 pictures in patches of 16x16, 192 features, 3 heads, 12 blocks.
struct Vit {
  struct Block {
    nn::LayerNorm norm1, norm2;
    nn::Linear qkv, proj, fc1, fc2;
    MOTE_FIELDS(norm1, qkv, proj, norm2, fc1, fc2)
    Tensor operator()(const Tensor& x) const;
  };
  nn::Conv2d patch;
  Tensor cls_token, positions;
  std::vector<Block> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  MOTE_FIELDS(patch, cls_token, positions, blocks, norm, head)
  Vit();
  Tensor operator()(const Tensor& images) const;
};

// 64x64 pictures from 100 numbers, and what tells them from others.
struct Dcgan {
  struct Up {
    nn::ConvTranspose2d conv;
    nn::BatchNorm bn;
    MOTE_FIELDS(conv, bn)
  };
  struct Generator {
    std::vector<Up> up;
    nn::ConvTranspose2d last;
    MOTE_FIELDS(up, last)
    Tensor operator()(const Tensor& z) const;
  };
  struct Discriminator {
    nn::Conv2d first;
    std::vector<ConvBn> down;
    nn::Conv2d last;
    MOTE_FIELDS(first, down, last)
    Tensor operator()(const Tensor& images) const;
  };
  Generator generator;
  Discriminator discriminator;
  MOTE_FIELDS(generator, discriminator)
  Dcgan();
};

// A language model of words: (length, batch) to (length, batch, 1000).
struct LstmText {
  struct Layer {
    Tensor weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0;  // as nn.LSTM names them
    MOTE_FIELDS(weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0)
    Tensor operator()(const Tensor& x) const;
  };
  nn::Embedding words{1000, 256};
  std::vector<Layer> layers;
  nn::Linear head{256, 1000};
  MOTE_FIELDS(words, layers, head)
  LstmText();
  Tensor operator()(const Tensor& tokens) const;
};

}  // namespace mote::wide
