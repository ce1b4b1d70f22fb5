// Reading an array between its elements.
#pragma once
#include "onnx/ops.h"

namespace mote::onnx {

enum class Outside : uint8_t { zeros, border, reflection };

// One element that takes part in a value, along one axis.
struct Tap {
  Tensor place, weight;  // (N, P)
};
std::vector<Tap> linear_taps(const Tensor& at);
std::vector<Tap> cubic_taps(const Tensor& at, double a);

// x (N, C, spatial...) at places given by taps for each spatial axis: (N, C, P).
struct Reading {
  Outside outside = Outside::zeros;
  bool from_centres = false;  // borders and reflection: at the outer pixels' centres, not edges
};
Tensor sample(const Tensor& x, const std::vector<std::vector<Tap>>& taps, const Reading& how);
Tensor sample_linear(const Tensor& x, const std::vector<Tensor>& at);
// Back into lo ... hi, mirrored as often as it takes.
Tensor reflected(const Tensor& t, double lo, double hi);

}  // namespace mote::onnx
