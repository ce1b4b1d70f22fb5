#include "fuzz/fuzz.h"
#include "io/picture.h"

FUZZ_TARGET(png) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    const mote::Picture p = mote::parse_png(file);
    mote::touch(p.pixels);
    mote::ensure(p.pixels.size() == static_cast<size_t>(p.width * p.height * p.channels),
                 "the pixels do not fit the size");
  });
}
