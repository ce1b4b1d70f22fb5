// The MNIST conv net and ResNets.
#include <mote/models.h>

#include "nn/module_call.h"

namespace mote::models {

MnistNet::MnistNet(const Options& o)
    : conv1(1, 32, 5, {}, true, o),
      conv2(32, 32, 5, {}, true, o),
      conv3(32, 64, 3, {}, true, o),
      conv4(64, 64, 3, {}, true, o),
      bn1(32, o),
      bn2(64, o),
      fc(576, 10, true, o) {}

Tensor MnistNet::operator()(const Tensor& images, Loc where) const {
  nn::ModuleCall call("MnistNet", where);
  Tensor x = conv2(conv1(images).relu()).relu();
  x = bn1(x).max_pool2d(2);
  x = conv4(conv3(x).relu()).relu();
  x = bn2(x).max_pool2d(2);
  return fc(x.flatten(1));
}

namespace {

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, const Options& o) {
  return nn::Conv2d(in, out, kernel, {.stride = stride, .padding = kernel / 2}, false, o);
}

ResNet::Block make_block(int64_t in, int64_t width, int64_t stride, bool bottleneck,
                         const Options& o) {
  ResNet::Block b;
  int64_t out = bottleneck ? width * 4 : width;
  if (bottleneck) {
    b.conv1 = conv(in, width, 1, 1, o);
    b.conv2 = conv(width, width, 3, stride, o);
    b.conv3 = conv(width, out, 1, 1, o);
    b.bn3 = nn::BatchNorm(out, o);
  } else {
    b.conv1 = conv(in, width, 3, stride, o);
    b.conv2 = conv(width, width, 3, 1, o);
  }
  b.bn1 = nn::BatchNorm(width, o);
  b.bn2 = nn::BatchNorm(width, o);
  if (stride != 1 || in != out)
    b.downsample.emplace(conv(in, out, 1, stride, o), nn::BatchNorm(out, o));
  return b;
}

ResNet make_resnet(const std::vector<int64_t>& depths, bool bottleneck, int64_t classes,
                   const Options& o) {
  ResNet net;
  net.conv1 = conv(3, 64, 7, 2, o);
  net.bn1 = nn::BatchNorm(64, o);
  std::vector<ResNet::Block>* stages[] = {&net.layer1, &net.layer2, &net.layer3, &net.layer4};
  int64_t in = 64;
  for (size_t s = 0; s < 4; ++s) {
    int64_t width = int64_t{64} << s;
    for (int64_t i = 0; i < depths[s]; ++i) {
      stages[s]->push_back(make_block(in, width, i == 0 && s > 0 ? 2 : 1, bottleneck, o));
      in = bottleneck ? width * 4 : width;
    }
  }
  net.fc = nn::Linear(in, classes, true, o);
  return net;
}

}  // namespace

Tensor ResNet::Block::operator()(const Tensor& x) const {
  ModuleScope module("Block");
  Tensor y = bn2(conv2(bn1(conv1(x)).relu()));
  if (conv3.weight.defined()) y = bn3(conv3(y.relu()));
  Tensor skip = downsample ? get<1>(*downsample)(get<0>(*downsample)(x)) : x;
  return (y + skip).relu();
}

Tensor ResNet::operator()(const Tensor& images, Loc where) const {
  nn::ModuleCall call("ResNet", where);
  Tensor x = bn1(conv1(images)).relu().max_pool2d(3, {.stride = 2, .padding = 1});
  for (const auto* stage : {&layer1, &layer2, &layer3, &layer4})
    for (const Block& block : *stage) x = block(x);
  return fc(x.mean({2, 3}));
}

ResNet resnet18(int64_t classes, const Options& o) {
  return make_resnet({2, 2, 2, 2}, false, classes, o);
}
ResNet resnet50(int64_t classes, const Options& o) {
  return make_resnet({3, 4, 6, 3}, true, classes, o);
}

}  // namespace mote::models
