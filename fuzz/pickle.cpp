// The pickle inside a checkpoint, without the sum that guards it there.
#include "io/pickle.h"

#include "fuzz/fuzz.h"

FUZZ_TARGET(pickle) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    static const mote::Bytes storage(std::vector<uint8_t>(96, 7));
    auto storage_of = [&](std::string_view key) {
      if (key != "0") mote::fail_file(file.name, "there is no such storage");
      return storage;
    };
    const mote::Pickle pickle(file, storage_of, file.bytes.size());
    check_contents(file, flatten(file, pickle, file.bytes.size()));
  });
}
