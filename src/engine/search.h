// Searching one kernel: a beam of action lists, measured on the device.
//
// Starts from all that is proposed and from the bare kernel. The best list not yet expanded is
// changed in every way there is: another size of a cut, or of two; an action less; one more legal
// action at its end (optimize/moves.h). What compiles to new text is measured, hopeless ones only
// once. The `width` best are kept until all of them are expanded or the time is up. The best then
// runs in turn with the first choice, has to win clearly, and has to give what plain loops give.
#pragma once
#include <vector>

#include "ir/flat.h"
#include "runtime/device.h"

namespace mote {

struct SearchLimits {
  int width = 4;
  double seconds = 60;  // for each kernel
};

struct SearchCounts {
  int64_t kernels = 0, improved = 0, tried = 0;
  double before_ms = 0, after_ms = 0;
};

// Those that are not remembered yet; with a line of progress where stderr is a terminal (or with
// DEBUG=1). Nothing is compiled for use: whoever compiles next finds what is remembered.
SearchCounts search_kernels(const std::vector<const Flat*>& bodies, Device& device,
                            const SearchLimits& limits);

}  // namespace mote
