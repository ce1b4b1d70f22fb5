#include "fuzz/fuzz.h"

FUZZ_TARGET(npz) {
  return mote::fuzz(data, size,
                    [](const mote::File& file) { check_contents(file, mote::parse_npz(file)); });
}
