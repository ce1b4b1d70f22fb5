#include "fuzz/fuzz.h"
#include "io/archive.h"

FUZZ_TARGET(zip) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    for (mote::ArchiveEntry entry : list_zip(file))
      if (entry.size <= mote::kFuzzUnpackedLimit) mote::touch(unpack(file, entry).span());
  });
}
