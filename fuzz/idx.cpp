#include "data/images.h"
#include "fuzz/fuzz.h"

FUZZ_TARGET(idx) {
  return mote::fuzz(data, size, [](const mote::File& file) { mote::data::parse_idx(file); });
}
