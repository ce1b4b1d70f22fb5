// The files of tokenizers. The first byte says which: GGUF, llama2.c's, or GPT-2's two, each half
// of the rest. What is accepted must have tokens for any text.
#include "data/vocabulary.h"

#include "fuzz/fuzz.h"

namespace {

mote::data::Vocabulary parse(const mote::File& file) {
  if (file.bytes.size() == 0) mote::fail_file(file.name, "it is empty");
  const mote::File rest{file.name, file.bytes.part(1, file.bytes.size() - 1)};
  const size_t half = rest.bytes.size() / 2;
  switch (file.bytes.data()[0] % 3) {
    case 0: return mote::data::vocabulary_of_gguf(rest);
    case 1: return mote::data::vocabulary_of_llama2c(rest);
    default:
      return mote::data::vocabulary_of_gpt2(
          {"encoder", rest.bytes.part(0, half)},
          {"merges", rest.bytes.part(half, rest.bytes.size() - half)});
  }
}

}  // namespace

FUZZ_TARGET(vocabulary) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    const mote::data::Vocabulary vocabulary = parse(file);
    for (const int32_t token : encode(vocabulary, " it's 4 o'clock\n\xff"))
      mote::ensure(token >= 0 && static_cast<size_t>(token) < vocabulary.pieces.size(),
                   "a text has a token that does not exist");
  });
}
