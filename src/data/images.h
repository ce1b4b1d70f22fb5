// Pictures in files, from their bytes.
#pragma once
#include <mote/data.h>

#include "io/bytes.h"

namespace mote::data {

Idx parse_idx(const File& file);
void append_cifar10(const File& file, Images& out);

}  // namespace mote::data
