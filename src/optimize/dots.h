// Whether a sum of products may be one of products of words; inside this folder.
#pragma once
#include "ir/dots.h"
#include "optimize/apply.h"

namespace mote {

// Whether the factors are narrow enough, and what rounding shows is allowed.
bool may_be_words(UOp sum, const Dot& dot);

}  // namespace mote
