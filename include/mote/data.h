// Data to train on: pictures, text, tokens, and the order in which examples come.
//
// Data sets stay in host memory; batches are made from chosen rows, as tensors on a device.
// Files may be compressed by gzip or xz. A malformed file is an error that names it and the field.
#pragma once
#include <mote/fields.h>

#include <span>

namespace mote::data {

// Pictures of one size and their classes.
struct Images {
  struct Batch {
    Tensor images;  // u8 (batch, channels, height, width); to_float() / 255 is what nets take
    Tensor labels;  // i64 (batch)
    MOTE_FIELDS(images, labels)
  };
  std::vector<uint8_t> pixels;  // row-major (count, channels, height, width)
  std::vector<uint8_t> labels;
  int64_t channels = 1, height = 0, width = 0, classes = 0;

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  Batch batch(std::span<const int64_t> rows, const std::string& device = {},
              Loc = MOTE_HERE) const;
  Images slice(int64_t first, int64_t end, Loc = MOTE_HERE) const;
};

// An array of bytes in MNIST's idx format: its shape and elements.
struct Idx {
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};
Idx read_idx(const std::string& path, Loc = MOTE_HERE);

struct Split {
  Images train, test;
};
// A folder with MNIST's four files under their usual names, plain or .gz.
Split mnist(const std::string& folder, Loc = MOTE_HERE);
// Records of CIFAR-10's binary format: a class and 3 x 32 x 32 bytes.
Images cifar10(const std::vector<std::string>& files, Loc = MOTE_HERE);
// A folder with data_batch_*.bin and test_batch.bin; or any folder with .bin files (plain, .gz or
// .xz), whose last tenth of records becomes the test set.
Split cifar10(const std::string& folder, Loc = MOTE_HERE);

// Handwriting-like digits, 28 x 28, drawn by this library: several shapes of each digit, with
// random slant, size, rotation, position, pen width, tremor and noise, in random order. Digit i
// depends only on the seed and i.
Images digits(int64_t count, uint64_t seed = 0, Loc = MOTE_HERE);

// The order of examples: each epoch goes through 0 ... count - 1 in a new order, which depends only
// on the seed and the epoch. After restore() an order continues exactly as the original would have.
class Order {
 public:
  struct State {
    uint64_t seed = 0;
    int64_t epoch = 0, position = 0;  // position: examples of the epoch already given
    // For checkpoints, as Metadata.
    operator std::vector<std::pair<std::string, std::string>>() const;
  };
  // If the last examples of an epoch do not fill a batch, they are skipped.
  Order(int64_t count, int64_t batch, uint64_t seed = 0, Loc = MOTE_HERE);
  std::span<const int64_t> next();  // valid until the next call
  int64_t batches_per_epoch() const { return static_cast<int64_t>(order_.size()) / batch_; }
  State state() const { return state_; }
  void restore(const State& state, Loc = MOTE_HERE);
  void restore(const std::vector<std::pair<std::string, std::string>>& state,
               Loc = MOTE_HERE);

 private:
  void shuffle();
  std::vector<int64_t> order_;
  int64_t batch_;
  State state_;
};

// Character-level text, as nanoGPT prepares it: the vocabulary is the sorted list of distinct
// (UTF-8) characters; the first 90 % of the text are for training, the rest is for validation.
struct Characters {
  std::vector<uint32_t> characters;
  std::vector<int32_t> train, validation;
  std::vector<int32_t> encode(std::string_view text, Loc = MOTE_HERE) const;
  std::string decode(std::span<const int32_t> tokens, Loc = MOTE_HERE) const;
};
Characters characters(std::string_view text, Loc = MOTE_HERE);
Characters characters_of_file(const std::string& path, Loc = MOTE_HERE);

// Excerpts of a token sequence and, as targets, the same excerpts shifted by one token.
struct TokenBatch {
  Tensor tokens, targets;  // i64 (batch, context)
  MOTE_FIELDS(tokens, targets)
};
// `starts` are in 0 ... token_starts(tokens, context) - 1; make an Order of that many examples.
inline int64_t token_starts(std::span<const int32_t> tokens, int64_t context) {
  return static_cast<int64_t>(tokens.size()) - context;
}
TokenBatch token_batch(std::span<const int32_t> tokens, std::span<const int64_t> starts,
                       int64_t context, const std::string& device = {}, Loc = MOTE_HERE);

struct Vocabulary;

// Byte-pair encoding, as in GPT-2 (bytes, joined by a list of merges within words) or SentencePiece
// (characters, joined by the scores of pieces; unknown characters become bytes).
class Tokenizer {
 public:
  static Tokenizer gpt2(const std::string& encoder_json, const std::string& vocab_bpe,
                        Loc = MOTE_HERE);
  static Tokenizer gguf(const std::string& path, Loc = MOTE_HERE);
  // The tokenizer.bin of llama2.c; its length determines the number of pieces.
  static Tokenizer llama2c(const std::string& path, Loc = MOTE_HERE);
  Tokenizer(Tokenizer&& o) noexcept : vocabulary_(o.vocabulary_) { o.vocabulary_ = nullptr; }
  Tokenizer& operator=(Tokenizer&& o) noexcept {
    std::swap(vocabulary_, o.vocabulary_);
    return *this;
  }
  ~Tokenizer();

  // No tokens for the beginning or the end are added, and none are recognised in the text.
  std::vector<int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const int32_t> tokens, Loc = MOTE_HERE) const;
  // The text of a token; empty for those that mark the beginning or the end. SentencePiece begins
  // texts with a space, which decode removes.
  const std::string& piece(int32_t token, Loc = MOTE_HERE) const;
  int64_t size() const;
  int32_t begin() const;  // the token before a text; -1: none
  int32_t end() const;    // and after it

 private:
  explicit Tokenizer(Vocabulary&& vocabulary);
  Vocabulary* vocabulary_;
};

}  // namespace mote::data
