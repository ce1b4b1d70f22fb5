#include "fuzz/fuzz.h"

FUZZ_TARGET(xz) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    mote::touch(unpack_xz(file, mote::kFuzzUnpackedLimit).span());
  });
}
