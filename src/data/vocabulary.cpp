// Vocabularies from files: GPT-2's pair of files, GGUF's metadata, llama2.c's tokenizer.bin.
#include "data/vocabulary.h"

#include <array>
#include <cmath>

#include "data/utf8.h"
#include "io/gguf.h"
#include "io/json.h"
#include "tensor/impl.h"

namespace mote::data {
namespace {

// What a piece is for; as numbered in GGUF.
enum PieceKind : int64_t { Normal = 1, Unknown, Control, UserDefined, Unused, Byte };

// GPT-2's files write bytes as characters that print: those that do stand for themselves, the
// others for 256, 257 ... in order. By character, the byte or -1.
std::array<int16_t, 0x200> byte_of_character() {
  std::array<int16_t, 0x200> out;
  out.fill(-1);
  size_t next = 256;
  for (int b = 0; b < 256; ++b) {
    bool prints = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    out[prints ? static_cast<size_t>(b) : next++] = static_cast<int16_t>(b);
  }
  return out;
}

std::string bytes_of(const std::string& file, std::string_view written) {
  static const std::array<int16_t, 0x200> table = byte_of_character();
  std::string out;
  for (std::string_view rest = written; !rest.empty();) {
    uint32_t c = take_character(rest);
    check_file(c < table.size() && table[c] >= 0, file, "the token ", quoted(written),
               " has a character that stands for no byte");
    out += static_cast<char>(table[c]);
  }
  return out;
}

// The byte of "<0x1F>", or -1.
int byte_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int value = 0;
  for (char c : piece.substr(3, 2)) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
    if (digit > 15) return -1;
    value = value * 16 + digit;
  }
  return value;
}

// `line` is "left right".
void add_merge(const std::string& file, Vocabulary& v, std::string_view line) {
  size_t space = line.find(' ');
  check_file(space != std::string_view::npos, file, "the merge ", quoted(line),
             " is not two tokens with a space between");
  std::string left = bytes_of(file, line.substr(0, space));
  std::string right = bytes_of(file, line.substr(space + 1));
  int32_t a = v.find(left), b = v.find(right), both = v.find(left + right);
  check_file(a >= 0 && b >= 0 && both >= 0, file, "the merge ", quoted(line),
             " has a token that is not in the vocabulary");
  auto rank = static_cast<int32_t>(v.merges.size());
  v.merges.emplace(Vocabulary::pair_key(a, b), Vocabulary::Merge{rank, both});
}

// Every text must have one encoding.
void check_complete(const std::string& file, const Vocabulary& v) {
  for (int b = 0; b < 256; ++b) {
    std::string piece(1, static_cast<char>(b));
    bool known = v.kind == Vocabulary::ByteLevel
                     ? v.find(piece) >= 0
                     : v.bytes[static_cast<size_t>(b)] >= 0 || v.unknown >= 0;
    check_file(known, file, "the vocabulary has no token for the byte ", b);
  }
  for (size_t i = 0; i < v.scores.size(); ++i)
    check_file(std::isfinite(v.scores[i]), file, "the score of the token ", i, " is not finite");
}

// Turns the pieces as written into what they add to a text, and indexes them.
void index_pieces(const std::string& file, Vocabulary& v, const std::vector<PieceKind>& kinds) {
  check_file(v.pieces.size() <= INT32_MAX, file, "there are too many tokens: ", v.pieces.size());
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    std::string& piece = v.pieces[i];
    int byte = byte_piece(piece);
    if (kinds[i] == Control || kinds[i] == Unknown || kinds[i] == Unused) {
      piece.clear();
    } else if (kinds[i] == Byte) {
      check_file(byte >= 0, file, "the token ", quoted(piece), " is marked as a byte");
      v.bytes[static_cast<size_t>(byte)] = static_cast<int32_t>(i);
      piece.assign(1, static_cast<char>(byte));
    } else {
      if (v.kind == Vocabulary::SentencePiece)
        piece = with_spaces(piece);
      else if (kinds[i] == Normal)
        piece = bytes_of(file, piece);
      v.ids.emplace(piece, static_cast<int32_t>(i));
    }
  }
}

// What a GGUF's metadata holds under a key, of the kind that is wanted.
struct GgufFields {
  const std::string& file;
  const Gguf& gguf;

  const GgufValue& array(const char* key, GgufValue::Kind kind, size_t count) const {
    const GgufValue* value = gguf.find(key);
    check_file(value, file, "there is no metadata ", key);
    check_file(value->is_array && value->kind == kind, file, key, " is not the array it should be");
    check_file(count == 0 || value->count == count, file, key, " has ", value->count,
               " elements, there are ", count, " tokens");
    return *value;
  }
  std::string_view string(const char* key, std::string_view otherwise) const {
    const GgufValue* value = gguf.find(key);
    if (!value) return otherwise;
    check_file(!value->is_array && value->kind == GgufValue::String, file, key, " is not a string");
    return value->strings[0];
  }
  int64_t integer(const char* key, int64_t otherwise, int64_t end) const {
    const GgufValue* value = gguf.find(key);
    if (!value) return otherwise;
    check_file(!value->is_array && value->is_integer(), file, key, " is not a whole number");
    int64_t n = value->integer();
    check_file(n >= 0 && n < end, file, key, " must be 0 ... ", end - 1, ", got ", n);
    return n;
  }
};

std::vector<PieceKind> piece_kinds(const GgufFields& in, size_t count) {
  const GgufValue& types = in.array("tokenizer.ggml.token_type", GgufValue::I32, count);
  std::vector<PieceKind> out;
  for (size_t i = 0; i < count; ++i) {
    int64_t type = types.integer(i);
    check_file(type >= Normal && type <= Byte, in.file, "the token ", i, " has the unknown type ",
               type);
    out.push_back(static_cast<PieceKind>(type));
  }
  return out;
}

}  // namespace

Vocabulary vocabulary_of_gguf(const File& gguf_file) {
  const std::string& file = gguf_file.name;
  Gguf gguf = read_gguf(gguf_file);
  GgufFields in{file, gguf};
  Vocabulary v;
  std::string_view model = in.string("tokenizer.ggml.model", ""),
                   words = in.string("tokenizer.ggml.pre", "default");
  check_file(model == "gpt2" || model == "llama", file, "tokenizer.ggml.model is ", quoted(model),
             ", not gpt2 or llama");
  v.kind = model == "gpt2" ? Vocabulary::ByteLevel : Vocabulary::SentencePiece;
  check_file(words == "default" || (model == "gpt2" && words == "gpt-2"), file,
             "tokenizer.ggml.pre is ", quoted(words), ", not gpt-2 or default");
  const GgufValue& tokens = in.array("tokenizer.ggml.tokens", GgufValue::String, 0);
  v.pieces.assign(tokens.strings.begin(), tokens.strings.end());
  auto count = static_cast<int64_t>(tokens.count);
  auto token = [&](const char* key) { return static_cast<int32_t>(in.integer(key, -1, count)); };
  v.begin = token("tokenizer.ggml.bos_token_id"), v.end = token("tokenizer.ggml.eos_token_id");
  v.unknown = token("tokenizer.ggml.unknown_token_id");
  v.space_in_front = in.integer("tokenizer.ggml.add_space_prefix", 1, 2) == 1;
  index_pieces(file, v, piece_kinds(in, tokens.count));
  if (v.kind == Vocabulary::ByteLevel) {
    for (std::string_view line : in.array("tokenizer.ggml.merges", GgufValue::String, 0).strings)
      add_merge(file, v, line);
  } else {
    const GgufValue& scores = in.array("tokenizer.ggml.scores", GgufValue::F32, tokens.count);
    for (size_t i = 0; i < scores.count; ++i)
      v.scores.push_back(static_cast<float>(scores.number(i)));
  }
  check_complete(file, v);
  return v;
}

// The pieces' numbers in one file; in the other, after a line with the version, the merges.
Vocabulary vocabulary_of_gpt2(const File& encoder, const File& bpe) {
  JsonDocument json(encoder.name, encoder.bytes.text());
  auto members = json.root().members("the vocabulary");
  Vocabulary v;
  v.pieces.resize(members.size());
  std::vector<PieceKind> kinds(members.size(), Normal);
  std::vector<bool> seen(members.size());
  for (const auto& [piece, value] : members) {
    int64_t id = value.integer("a token's number");
    bool fits = id >= 0 && static_cast<size_t>(id) < seen.size() && !seen[static_cast<size_t>(id)];
    check_file(fits, encoder.name, "the token ", quoted(piece), " has the number ", id,
               ", which is taken or not below ", seen.size());
    auto at = static_cast<size_t>(id);
    seen[at] = true;
    v.pieces[at] = piece;
    if (piece != "<|endoftext|>") continue;
    kinds[at] = Control;
    v.begin = v.end = static_cast<int32_t>(id);
  }
  index_pieces(encoder.name, v, kinds);
  for (std::string_view rest = bpe.bytes.text(); !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) add_merge(bpe.name, v, line);
  }
  check_complete(encoder.name, v);
  return v;
}

// The longest piece's length; then for each piece its score, length and bytes.
Vocabulary vocabulary_of_llama2c(const File& file) {
  Reader in(file);
  auto longest = in.u32("the longest piece's length");
  Vocabulary v;
  v.kind = Vocabulary::SentencePiece;
  std::vector<PieceKind> kinds;
  while (in.left()) {
    v.scores.push_back(in.read<float>("a piece's score"));
    uint32_t size = in.u32("a piece's length");
    in.check(size <= longest, "the piece ", v.pieces.size(), " has ", size, " bytes, the longest ",
             longest);
    auto bytes = in.take(size, "a piece");
    v.pieces.emplace_back(bytes.begin(), bytes.end());
    kinds.push_back(byte_piece(v.pieces.back()) >= 0 ? Byte : Normal);
  }
  in.check(v.pieces.size() >= 3, "there must be pieces for unknown, begin and end, got ",
           v.pieces.size(), " pieces");
  v.unknown = 0, v.begin = 1, v.end = 2;
  kinds[0] = Unknown, kinds[1] = kinds[2] = Control;
  index_pieces(file.name, v, kinds);
  check_complete(file.name, v);
  return v;
}

}  // namespace mote::data
