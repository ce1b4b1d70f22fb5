#include <doctest/doctest.h>
#include <mote/data.h>

#include <iterator>
#include <sstream>

#include "data/utf8.h"
#include "test/shared_data.h"

using namespace mote;

namespace {

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> out;
  size_t at = 0;
  for (size_t next; (next = text.find(separator, at)) != std::string::npos;
       at = next + separator.size())
    out.push_back(text.substr(at, next - at));
  out.push_back(text.substr(at));
  return out;
}

// The texts of an .inp file and the tokens, one line of numbers each, of the .out file beside it.
void agrees_with_files(const data::Tokenizer& tokenizer, const std::string& gguf) {
  std::vector<std::string> texts = split(read_text(gguf + ".inp"), "\n__ggml_vocab_test__\n");
  std::vector<std::string> lines = split(read_text(gguf + ".out"), "\n");
  if (texts.back().empty()) texts.pop_back();
  if (lines.back().empty()) lines.pop_back();
  REQUIRE(texts.size() == lines.size());
  CHECK(texts.size() > 40);
  for (size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(texts[i]);
    std::istringstream numbers(lines[i]);
    std::vector<int32_t> want{std::istream_iterator<int32_t>(numbers), {}};
    std::vector<int32_t> got = tokenizer.encode(texts[i]);
    CHECK(got == want);
    CHECK(tokenizer.decode(got) == texts[i]);
  }
}

}  // namespace

TEST_CASE("tokenizer: GPT-2 agrees with the expected tokens") {
  std::string gguf = shared_data("tokenizers/ggml-vocab-gpt-2.gguf");
  std::string folder = shared_data("tokenizers/gpt2");
  if (gguf.empty() || folder.empty()) return;
  data::Tokenizer a = data::Tokenizer::gguf(gguf);
  data::Tokenizer b = data::Tokenizer::gpt2(folder + "/encoder.json", folder + "/vocab.bpe");
  CHECK(a.size() == 50257);
  CHECK(a.end() == 50256);
  CHECK(b.end() == 50256);
  agrees_with_files(a, gguf);
  agrees_with_files(b, gguf);
}

TEST_CASE("tokenizer: SentencePiece agrees with the expected tokens") {
  std::string gguf = shared_data("tokenizers/ggml-vocab-llama-spm.gguf");
  if (gguf.empty()) return;
  data::Tokenizer tokenizer = data::Tokenizer::gguf(gguf);
  CHECK(tokenizer.size() == 32000);
  CHECK(tokenizer.begin() == 1);
  agrees_with_files(tokenizer, gguf);
}

TEST_CASE("tokenizer: llama2.c's file") {
  std::string path = shared_data("llm/tok512.bin");
  if (path.empty()) return;
  data::Tokenizer tokenizer = data::Tokenizer::llama2c(path);
  CHECK(tokenizer.size() == 512);
  for (const char* text :
       {"Once upon a time", "", " ", "äöü \x01 \xff", "Lily's mom said, \"no\".\n"}) {
    CAPTURE(text);
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
  CHECK(tokenizer.encode("Once upon a time").size() < 8);
  CHECK_THROWS_WITH(tokenizer.piece(512), doctest::Contains("no token 512"));
}

TEST_CASE("characters: UTF-8 there and back, bytes that are not stand for themselves") {
  std::string text = "a\u00e4\u20ac\U0001f600\xff\xc0\xed\xa0\x80z";
  std::vector<uint32_t> got;
  std::string back;
  for (std::string_view rest = text; !rest.empty();) {
    got.push_back(take_character(rest));
    append_character(back, got.back());
  }
  CHECK(got == std::vector<uint32_t>{'a', 0xe4, 0x20ac, 0x1f600, 0x1100ff, 0x1100c0, 0x1100ed,
                                     0x1100a0, 0x110080, 'z'});
  CHECK(back == text);
}

TEST_CASE("characters: classes") {
  using enum data::CharacterClass;
  for (auto [c, kind] : std::initializer_list<std::pair<uint32_t, data::CharacterClass>>{
           {'a',      Letter},
           {'Z',      Letter},
           {0xe4,     Letter},
           {0x4e00,   Letter},
           {0x10fffd, Other },
           {'5',      Number},
           {0xbd,     Number},
           {0x2167,   Number},
           {' ',      Space },
           {0x3000,   Space },
           {0xa0,     Space },
           {0x200b,   Other },
           {'_',      Other },
           {'\'',     Other },
           {0,        Other },
           {0x1100ff, Other }
  })
    CHECK(data::class_of(c) == kind);
}
