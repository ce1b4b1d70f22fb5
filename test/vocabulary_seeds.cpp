// Vocabularies of all bytes and a few pairs, as the fuzz target of that name takes them.
#include "test/file_builders.h"

namespace mote::test {
namespace {

// Unknown, begin, end, the bytes, some pieces.
std::vector<std::string> sentence_pieces() {
  std::vector<std::string> out = {"<unk>", "<s>", "</s>"};
  const char* digits = "0123456789ABCDEF";
  for (size_t b = 0; b < 256; ++b)
    out.push_back(std::string("<0x") + digits[b / 16] + digits[b % 16] + ">");
  for (const char* piece : {" ", "i", "t", "it", " it", "'", "s"}) out.emplace_back(piece);
  return out;
}

std::string seed_llama2c() {
  std::string out = le<uint32_t>(6);
  float score = 0;
  for (const std::string& piece : sentence_pieces())
    out += le(score -= 1) + le(static_cast<uint32_t>(piece.size())) + piece;
  return out;
}

std::string seed_gguf_vocabulary() {
  auto text = [](const std::string& s) { return le(uint64_t{s.size()}) + s; };
  const std::vector<std::string> pieces = sentence_pieces();
  auto array = [&](const char* key, uint32_t kind, auto element) {
    std::string out = text(std::string("tokenizer.ggml.") + key) + le<uint32_t>(9) + le(kind) +
                      le(uint64_t{pieces.size()});
    for (size_t i = 0; i < pieces.size(); ++i) out += element(i);
    return out;
  };
  std::string out = "GGUF" + le<uint32_t>(3) + le<uint64_t>(0) + le<uint64_t>(5);
  out += text("tokenizer.ggml.model") + le<uint32_t>(8) + text("llama");
  out += text("tokenizer.ggml.unknown_token_id") + le<uint32_t>(4) + le<uint32_t>(0);
  out += array("tokens", 8, [&](size_t i) { return text(pieces[i]); });
  out += array("scores", 6, [](size_t i) { return le(-static_cast<float>(i)); });
  out += array("token_type", 5, [](size_t i) {
    return le<int32_t>(i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1);
  });
  return out;
}

// Bytes that do not print are written as the characters 256, 257 ...
std::string seed_gpt2() {
  std::string json = "{";
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool prints = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    const int c = prints ? b : next++;
    const char* digits = "0123456789abcdef";
    json += std::string("\"\\u0") + digits[c >> 8] + digits[c >> 4 & 15] + digits[c & 15] +
            "\": " + std::to_string(b) + ", ";
  }
  json += R"("it": 256, "its": 257, "<|endoftext|>": 258})";
  std::string merges = "#version: 0.2\ni t\nit s\n";
  merges.append(json.size() - merges.size(), '\n');
  return json + merges;
}

}  // namespace

std::vector<std::string> seed_vocabularies() {
  return {'\0' + seed_gguf_vocabulary(), '\1' + seed_llama2c(), '\2' + seed_gpt2()};
}

}  // namespace mote::test
