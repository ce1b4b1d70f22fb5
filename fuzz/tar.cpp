#include "fuzz/fuzz.h"
#include "io/archive.h"

FUZZ_TARGET(tar) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    for (const mote::ArchiveEntry& entry : list_tar(file)) mote::touch(unpack(file, entry).span());
  });
}
