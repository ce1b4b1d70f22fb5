#include "fuzz/fuzz.h"

FUZZ_TARGET(torch) {
  return mote::fuzz(data, size,
                    [](const mote::File& file) { check_contents(file, mote::parse_torch(file)); });
}
