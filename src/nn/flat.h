// Parameters that are one tensor.
#pragma once
#include <mote/tensor.h>

#include <vector>

namespace mote::nn {

// Replaces the parameters of each dtype, where there are several, by one leaf that holds their
// elements one after the other; they become views of it. Gives these leaves.
std::vector<Tensor> join_parameters(std::vector<Tensor>& parameters);

// The joined leaf's gradient becomes a buffer, each part written to its place. backward() leaves a
// sum of parts padded to the whole length; as such a sum every element would look at all parts.
void gather_gradient(const Tensor& joined);

}  // namespace mote::nn
