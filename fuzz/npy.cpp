#include "fuzz/fuzz.h"

FUZZ_TARGET(npy) {
  return mote::fuzz(data, size,
                    [](const mote::File& file) { check_contents(file, mote::parse_npy(file)); });
}
