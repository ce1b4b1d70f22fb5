#include "fuzz/fuzz.h"

FUZZ_TARGET(any) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    check_contents(file, parse_any(file, mote::kFuzzUnpackedLimit));
  });
}
