// What loading tensors by name is made of.
#pragma once
#include <mote/fields.h>

namespace mote {

// One error that says all that load_tensors, strict, would refuse.
void check_fit(const std::vector<NamedTensor>& into, const std::vector<NamedTensor>& from);

}  // namespace mote
