// U-Net.
#include <mote/models.h>

#include "nn/module_call.h"

namespace mote::models {

static UNet::Block make_block(int64_t in, int64_t out, const UNetConfig& c) {
  ConvOptions keep{.padding = 1};
  auto norm = [&] { return nn::GroupNorm(c.groups, out, 1e-5, true, c.options); };
  return {nn::Conv2d(in, out, 3, keep, false, c.options),
          nn::Conv2d(out, out, 3, keep, false, c.options), norm(), norm()};
}

UNet::UNet(const UNetConfig& c) {
  expect(!c.features.empty(), "a U-Net has at least one level");
  int64_t in = c.in_channels;
  for (int64_t out : c.features) {
    expect(c.groups > 0 && out % c.groups == 0, out, " features are not ", c.groups,
           " equal groups");
    down.push_back(make_block(in, out, c));
    in = out;
  }
  for (size_t level = c.features.size() - 1; level-- > 0; in = c.features[level]) {
    int64_t out = c.features[level];
    nn::ConvTranspose2d grow(in, out, 2, {.stride = 2}, true, c.options);
    up.push_back({grow, make_block(2 * out, out, c)});
  }
  head = nn::Conv2d(in, c.out_channels, 1, {}, true, c.options);
}

Tensor UNet::Block::operator()(const Tensor& x) const {
  ModuleScope module("Block");
  return norm2(conv2(norm1(conv1(x)).silu())).silu();
}

Tensor UNet::operator()(const Tensor& images, Loc where) const {
  nn::ModuleCall call("UNet", where);
  expect(images.dim() == 4, "U-Net needs (batch, channels, height, width), got ", images);
  int64_t step = int64_t{1} << up.size();
  expect(images.size(2) % step == 0 && images.size(3) % step == 0, "U-Net of ", down.size(),
         " levels needs sizes divisible by ", step, ", got ", images);
  std::vector<Tensor> passed;
  Tensor x = images;
  for (const Block& block : down) {
    if (!passed.empty()) x = x.max_pool2d(2);
    x = block(x);
    passed.push_back(x);
  }
  for (const Up& u : up) {
    passed.pop_back();
    x = u.block(cat({passed.back(), u.grow(x)}, 1));
  }
  return head(x);
}

}  // namespace mote::models
