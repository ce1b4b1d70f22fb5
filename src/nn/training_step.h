// The step that host time, kernels and compilers are measured with, in tests and benchmarks.
#pragma once
#include <mote/models.h>
#include <mote/optim.h>

#include <vector>

namespace mote {

// One step of training: everything it writes, to be realized, and the loss last.
inline std::vector<Tensor> training_step(models::MnistNet& net, optim::Adam& adam,
                                         const Tensor& images, const Tensor& labels) {
  adam.zero_grad();
  Tensor loss = net(images).cross_entropy(labels);
  loss.backward();
  adam.step();
  std::vector<Tensor> out = tensors(net);
  for (const Tensor& t : tensors(adam)) out.push_back(t);
  out.push_back(loss);
  return out;
}

}  // namespace mote
