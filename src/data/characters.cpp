// Text by characters, and batches of tokens.
#include <mote/data.h>

#include <algorithm>
#include <set>

#include "data/utf8.h"
#include "io/bytes.h"
#include "tensor/impl.h"

namespace mote::data {

Characters characters(std::string_view text, Loc where) {
  OuterCall call("characters", where);
  expect(is_utf8(text), "the text is not UTF-8");
  std::set<uint32_t> seen;
  int64_t count = 0;
  for (std::string_view rest = text; !rest.empty(); ++count) seen.insert(take_character(rest));
  Characters out;
  out.characters.assign(seen.begin(), seen.end());
  out.train = out.encode(text);
  auto cut = out.train.begin() + count * 9 / 10;
  out.validation.assign(cut, out.train.end());
  out.train.erase(cut, out.train.end());
  return out;
}

Characters characters_of_file(const std::string& path, Loc where) {
  OuterCall call("characters_of_file", where);
  File file = open_file(path);
  check_memory(path, sizeof(int32_t) * file.bytes.size());
  check_file(is_utf8(file.bytes.text()), path, "the text is not UTF-8");
  return characters(file.bytes.text());
}

std::vector<int32_t> Characters::encode(std::string_view text, Loc where) const {
  OuterCall call("encode", where);
  std::vector<int32_t> out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::string_view before = text;
    uint32_t c = take_character(text);
    auto at = std::lower_bound(characters.begin(), characters.end(), c);
    expect(at != characters.end() && *at == c, "the character ",
           quoted(before.substr(0, before.size() - text.size())), " is not in the vocabulary");
    out.push_back(static_cast<int32_t>(at - characters.begin()));
  }
  return out;
}

std::string Characters::decode(std::span<const int32_t> tokens, Loc where) const {
  OuterCall call("decode", where);
  std::string out;
  for (int32_t token : tokens) {
    expect(token >= 0 && static_cast<size_t>(token) < characters.size(), "no token ", token,
           " in a "
           "vocabulary of ",
           characters.size());
    append_character(out, characters[static_cast<size_t>(token)]);
  }
  return out;
}

TokenBatch token_batch(std::span<const int32_t> tokens, std::span<const int64_t> starts,
                       int64_t context, const std::string& device, Loc where) {
  OuterCall call("token_batch", where);
  expect(context > 0, "the context must be positive, got ", context);
  std::vector<int64_t> now, next;
  for (int64_t start : starts) {
    expect(start >= 0 && start < token_starts(tokens, context), "a stretch of ", context,
           " tokens and one more does not fit at ", start, " of ", tokens.size());
    auto first = tokens.begin() + start;
    now.insert(now.end(), first, first + context);
    next.insert(next.end(), first + 1, first + context + 1);
  }
  Sizes shape = {starts.size(), context};
  return {from_bytes(now.data(), shape, DType::i64, device),
          from_bytes(next.data(), shape, DType::i64, device)};
}

}  // namespace mote::data
