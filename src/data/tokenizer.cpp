// Byte-pair encoding: symbols in a row, of which the best pair is joined until none can be.
#include <algorithm>
#include <queue>

#include "data/utf8.h"
#include "data/vocabulary.h"
#include "tensor/impl.h"

namespace mote::data {
namespace {

struct Symbol {
  std::string_view text;
  int32_t token;  // -1: no token has this text
  int before, after;
};

// Two neighbours that can be joined. The text tells whether they are still there.
struct Pair {
  double priority;  // the least comes first; of equal ones the leftmost
  int left, right;
  int32_t token;
  size_t size;
  bool operator<(const Pair& o) const {  // std::priority_queue gives the largest
    return priority != o.priority ? priority > o.priority : left > o.left;
  }
};

struct Joined {
  int32_t token = -1;  // -1: the two do not join
  double priority = 0;
};

Joined join(const Vocabulary& v, const Symbol& a, const Symbol& b) {
  if (v.kind == Vocabulary::ByteLevel) {
    auto found = v.merges.find(Vocabulary::pair_key(a.token, b.token));
    if (found == v.merges.end()) return {};
    return {found->second.token, static_cast<double>(found->second.rank)};
  }
  int32_t token = v.find({a.text.data(), a.text.size() + b.text.size()});
  return {token, token < 0 ? 0 : -static_cast<double>(v.scores[static_cast<size_t>(token)])};
}

// Joins until nothing can be; symbols that went into their left neighbour have an empty text.
void join_all(const Vocabulary& v, std::vector<Symbol>& symbols) {
  std::priority_queue<Pair> queue;
  auto consider = [&](int left, int right) {
    if (left < 0 || right < 0) return;
    const Symbol &a = symbols[static_cast<size_t>(left)], &b = symbols[static_cast<size_t>(right)];
    Joined j = join(v, a, b);
    if (j.token >= 0) queue.push({j.priority, left, right, j.token, a.text.size() + b.text.size()});
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    consider(static_cast<int>(i), static_cast<int>(i + 1));
  while (!queue.empty()) {
    Pair p = queue.top();
    queue.pop();
    Symbol &a = symbols[static_cast<size_t>(p.left)], &b = symbols[static_cast<size_t>(p.right)];
    if (a.text.empty() || b.text.empty() || a.text.size() + b.text.size() != p.size) continue;
    a.text = {a.text.data(), p.size};
    a.token = p.token;
    a.after = b.after;
    b.text = {};
    if (a.after >= 0) symbols[static_cast<size_t>(a.after)].before = p.left;
    consider(a.before, p.left);
    consider(p.left, a.after);
  }
}

// Appends the tokens of `text`, whose symbols are bytes or characters.
void encode_symbols(const Vocabulary& v, std::string_view text, std::vector<int32_t>& out) {
  std::vector<Symbol> symbols;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view start = rest;
    if (v.kind == Vocabulary::ByteLevel)
      rest.remove_prefix(1);
    else
      take_character(rest);
    std::string_view piece = start.substr(0, start.size() - rest.size());
    auto i = static_cast<int>(symbols.size());
    symbols.push_back({piece, v.find(piece), i - 1, rest.empty() ? -1 : i + 1});
  }
  join_all(v, symbols);
  for (const Symbol& s : symbols) {
    if (s.text.empty()) continue;
    if (s.token >= 0) {
      out.push_back(s.token);
      continue;
    }
    for (char c : s.text) {
      int32_t byte = v.bytes[static_cast<uint8_t>(c)];
      out.push_back(byte >= 0 ? byte : v.unknown);
    }
  }
}

// How many bytes the characters of this class take that `text` begins with, and where the last of
// them begins.
struct Run {
  size_t size, last;
};
Run run_of(CharacterClass kind, std::string_view text) {
  Run run{0, 0};
  for (std::string_view rest = text; !rest.empty();) {
    size_t begin = text.size() - rest.size();
    if (class_of(take_character(rest)) != kind) break;
    run = {text.size() - rest.size(), begin};
  }
  return run;
}

// GPT-2 joins only within words. Its words are what this expression finds, one after another:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t word_size(std::string_view text) {
  for (std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  size_t space = text.starts_with(' ') && text.size() > 1;
  std::string_view look = text.substr(space);
  CharacterClass kind = class_of(take_character(look));
  if (kind != CharacterClass::Space) return space + run_of(kind, text.substr(space)).size;
  Run blank = run_of(kind, text);
  // The last character of white space goes with the word behind it.
  return blank.size < text.size() && blank.last > 0 ? blank.last : blank.size;
}

}  // namespace

std::string with_spaces(std::string_view text) {
  constexpr std::string_view kLowLine = "\u2581";
  std::string out;
  while (!text.empty()) {
    size_t at = std::min(text.find(kLowLine), text.size());
    out += text.substr(0, at);
    text.remove_prefix(at);
    if (text.empty()) break;
    out += ' ';
    text.remove_prefix(kLowLine.size());
  }
  return out;
}

std::vector<int32_t> encode(const Vocabulary& v, std::string_view text) {
  std::vector<int32_t> out;
  if (v.kind == Vocabulary::SentencePiece) {
    bool space = v.space_in_front && !text.empty();
    encode_symbols(v, (space ? " " : "") + with_spaces(text), out);
    return out;
  }
  while (!text.empty()) {
    size_t size = word_size(text);
    encode_symbols(v, text.substr(0, size), out);
    text.remove_prefix(size);
  }
  return out;
}

int32_t Vocabulary::find(std::string_view piece) const {
  auto found = ids.find(piece);
  return found == ids.end() ? -1 : found->second;
}

Tokenizer::Tokenizer(Vocabulary&& v) : vocabulary_(new Vocabulary(std::move(v))) {}
Tokenizer Tokenizer::gguf(const std::string& path, Loc where) {
  OuterCall call("Tokenizer::gguf", where);
  return Tokenizer(vocabulary_of_gguf(open_file(path)));
}
Tokenizer Tokenizer::gpt2(const std::string& encoder_json, const std::string& vocab_bpe,
                          Loc where) {
  OuterCall call("Tokenizer::gpt2", where);
  return Tokenizer(vocabulary_of_gpt2(open_file(encoder_json), open_file(vocab_bpe)));
}
Tokenizer Tokenizer::llama2c(const std::string& path, Loc where) {
  OuterCall call("Tokenizer::llama2c", where);
  return Tokenizer(vocabulary_of_llama2c(open_file(path)));
}
Tokenizer::~Tokenizer() { delete vocabulary_; }
int64_t Tokenizer::size() const { return static_cast<int64_t>(vocabulary_->pieces.size()); }
int32_t Tokenizer::begin() const { return vocabulary_->begin; }
int32_t Tokenizer::end() const { return vocabulary_->end; }

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  return data::encode(*vocabulary_, text);
}

const std::string& Tokenizer::piece(int32_t token, Loc where) const {
  OuterCall call("piece", where);
  expect(token >= 0 && token < size(), "no token ", token, " in a vocabulary of ", size());
  return vocabulary_->pieces[static_cast<size_t>(token)];
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, Loc where) const {
  OuterCall call("decode", where);
  std::string out;
  for (int32_t token : tokens) out += piece(token);
  bool drop = vocabulary_->kind == Vocabulary::SentencePiece && vocabulary_->space_in_front;
  if (drop && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

}  // namespace mote::data
