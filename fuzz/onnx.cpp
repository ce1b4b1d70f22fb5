// A model is loaded: its structs, its operators and all its weights. Nothing runs.
#include "fuzz/fuzz.h"
#include "onnx/model.h"

FUZZ_TARGET(onnx) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    const mote::onnx::ModelCore model(file, {}, "CPU");
    mote::ensure(model.inputs.size() == model.ports().size(), "an input has no port");
  });
}
