#include "fuzz/fuzz.h"

FUZZ_TARGET(zstd) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    mote::touch(unpack_zstd(file, mote::kFuzzUnpackedLimit).span());
  });
}
