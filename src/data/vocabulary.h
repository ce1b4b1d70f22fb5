// The tables of a tokenizer, and the files they come from.
#pragma once
#include <mote/data.h>

#include <unordered_map>

#include "io/bytes.h"

namespace mote::data {

// Read-only once made; `ids` looks into `pieces`.
struct Vocabulary {
  enum Kind : uint8_t {
    ByteLevel,      // GPT-2: symbols are bytes, pairs are joined in the order of a list
    SentencePiece,  // symbols are characters, pairs are joined by the score of what they make
  } kind = ByteLevel;
  std::vector<std::string> pieces;                    // what each token adds to a text
  std::unordered_map<std::string_view, int32_t> ids;  // of the pieces that texts are made of
  int32_t begin = -1, end = -1, unknown = -1;         // -1: there is none

  struct Merge {
    int32_t rank, token;
  };
  std::unordered_map<uint64_t, Merge> merges;                  // ByteLevel: by pair_key
  std::vector<float> scores;                                   // SentencePiece: of each piece
  std::vector<int32_t> bytes = std::vector<int32_t>(256, -1);  // SentencePiece: a token for a byte
  bool space_in_front = true;  // SentencePiece: texts begin with a space

  static uint64_t pair_key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  int32_t find(std::string_view piece) const;  // -1: there is none
};

Vocabulary vocabulary_of_gguf(const File& file);
Vocabulary vocabulary_of_gpt2(const File& encoder, const File& bpe);
Vocabulary vocabulary_of_llama2c(const File& file);

std::vector<int32_t> encode(const Vocabulary& v, std::string_view text);

// SentencePiece writes spaces as U+2581; here they are spaces, in pieces and texts.
std::string with_spaces(std::string_view text);

}  // namespace mote::data
