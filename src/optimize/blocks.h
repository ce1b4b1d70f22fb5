// Loops for a target whose workers stand in blocks; inside this folder.
#pragma once
#include "optimize/optimize.h"

namespace mote {

Tuned choose_blocks(UOp body, const Target& target);

}  // namespace mote
