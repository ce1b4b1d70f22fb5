// Runs an ONNX model on random inputs:
//   onnx MODEL.onnx
#include <mote/mote.h>
#include <mote/onnx.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace mote;

// Random numbers in the declared shape; a size that the file leaves open ("batch") becomes 1.
Tensor random_input(const onnx::PortInfo& port) {
  std::vector<int64_t> shape;
  for (const std::string& dim : port.dims) shape.push_back(std::max(1, std::atoi(dim.c_str())));
  return port.type == "f32" ? rand(shape) : zeros(shape, DType::i64);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::printf("usage: onnx MODEL.onnx (there is no model to run without one)\n");
    return 0;
  }
  onnx::Model model(argv[1]);
  std::printf("%lld parameters\n", static_cast<long long>(model.parameters()));
  std::vector<onnx::NamedValue> inputs;
  for (const onnx::PortInfo& port : model.inputs())
    inputs.push_back({port.name, random_input(port)});
  for (int run = 0; run < 4; ++run) {  // from the fourth run on a captured list is replayed
    const auto start = std::chrono::steady_clock::now();
    std::vector<onnx::NamedValue> outputs = model.run(inputs);
    Tensor first = outputs[0].value.tensor;
    const float largest = first.amax().item<float>();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    std::printf("%s: at most %g, %.3f ms\n", outputs[0].name.c_str(), largest, time.count());
  }
}
