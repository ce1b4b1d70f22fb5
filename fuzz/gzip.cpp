#include "fuzz/fuzz.h"

FUZZ_TARGET(gzip) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    mote::touch(unpack_gzip(file, mote::kFuzzUnpackedLimit).span());
  });
}
