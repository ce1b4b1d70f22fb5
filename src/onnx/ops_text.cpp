// Text, on the host.
#include <algorithm>
#include <map>

#include "onnx/ops.h"

namespace mote::onnx {

namespace {

using Gram = std::vector<std::string>;

// Words, or numbers as words.
Gram words_of(Call& c) {
  if (c.value(0).kind == Value::Strings) return c.value(0).strings;
  Gram out;
  for (const int64_t n : c.ints(0)) out.push_back(std::to_string(n));
  return out;
}

// From each n-gram that is looked for to its number in the pool.
std::map<Gram, size_t> pool_of(Call& c, int64_t least, int64_t most) {
  Gram pool = c.ss("pool_strings");
  for (const int64_t n : c.is("pool_int64s")) pool.push_back(std::to_string(n));
  std::vector<int64_t> starts = c.is("ngram_counts");
  starts.push_back(static_cast<int64_t>(pool.size()));
  std::map<Gram, size_t> out;
  size_t number = 0;
  for (size_t n = 1; n < starts.size(); ++n)
    for (int64_t at = starts[n - 1]; at < starts[n]; at += static_cast<int64_t>(n), ++number) {
      const auto end = at + static_cast<int64_t>(n);
      expect(at >= 0 && end <= static_cast<int64_t>(pool.size()), "ngram_counts leave the pool");
      if (static_cast<int64_t>(n) >= least && static_cast<int64_t>(n) <= most)
        out.emplace(Gram(pool.begin() + at, pool.begin() + end), number);
    }
  return out;
}

Outputs tf_idf(Call& c) {
  const int64_t least = c.i("min_gram_length", 1), most = c.i("max_gram_length", 1);
  const std::map<Gram, size_t> pool = pool_of(c, least, most);
  const std::vector<int64_t> columns = c.is("ngram_indexes");
  const std::vector<double> weights = c.fs("weights");
  const Gram words = words_of(c);
  std::vector<int64_t> shape =
      c.value(0).kind == Value::Strings ? c.value(0).shape : c.value(0).tensor.shape();
  expect(shape.size() <= 2 && !columns.empty(), "the input must have at most 2 axes");
  const int64_t length = shape.empty() ? 1 : shape.back();
  const int64_t rows = shape.size() == 2 ? shape[0] : 1;
  const int64_t width = *std::max_element(columns.begin(), columns.end()) + 1;
  std::vector<float> counts(static_cast<size_t>(rows * width));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t skip = 0; skip <= c.i("max_skip_count", 0); ++skip)
      for (int64_t n = least; n <= most; ++n) {
        if (n == 1 && skip > 0) continue;  // single words have no distance
        for (int64_t at = 0; at + (n - 1) * (skip + 1) < length; ++at) {
          Gram gram;
          for (int64_t k = 0; k < n; ++k)
            gram.push_back(words[static_cast<size_t>(row * length + at + k * (skip + 1))]);
          const auto found = pool.find(gram);
          if (found == pool.end()) continue;
          expect(found->second < columns.size(), "ngram_indexes are fewer than the pool's");
          ++counts[static_cast<size_t>(row * width + columns[found->second])];
        }
      }
  const std::string mode = c.s("mode", "TF");
  std::vector<float> weight(static_cast<size_t>(width), 1);
  for (size_t i = 0; i < weights.size() && i < columns.size(); ++i)
    weight[static_cast<size_t>(columns[i])] = static_cast<float>(weights[i]);
  for (size_t i = 0; i < counts.size(); ++i) {
    const float w = weight[i % static_cast<size_t>(width)];
    if (mode == "IDF") counts[i] = counts[i] > 0 ? w : 0;
    if (mode == "TFIDF") counts[i] *= w;
  }
  if (shape.size() == 2) return {c.constant(counts, {rows, width})};
  return {c.constant(counts, Sizes({width}))};
}

Value strings(std::vector<std::string> list, std::vector<int64_t> shape) {
  Value out;
  out.kind = Value::Strings, out.type = kString;
  out.strings = std::move(list), out.shape = std::move(shape);
  return out;
}

const Value& strings_at(Call& c, size_t i) {
  const Value& v = c.value(i);
  expect(v.kind == Value::Strings, "input ", i, " must be strings");
  return v;
}

Outputs concat(Call& c) {
  const Value &a = strings_at(c, 0), &b = strings_at(c, 1);
  const Broadcast both(a.shape, b.shape);
  std::vector<std::string> out;
  for (size_t i = 0; i < both.a.size(); ++i)
    out.push_back(a.strings[both.a[i]] + b.strings[both.b[i]]);
  return {strings(std::move(out), both.shape)};
}

// At each delimiter, or where there is none at runs of spaces.
Gram pieces_of(std::string_view s, const std::string& delimiter, int64_t most) {
  Gram out;
  const bool by_space = delimiter.empty();
  const std::string_view at = by_space ? std::string_view(" ") : std::string_view(delimiter);
  auto skip = [&] {
    while (by_space && s.starts_with(' ')) s.remove_prefix(1);
  };
  for (skip(); !(by_space && s.empty()); skip()) {
    const size_t end = most >= 0 && static_cast<int64_t>(out.size()) == most ? s.npos : s.find(at);
    out.emplace_back(s.substr(0, end));
    if (end == s.npos) break;
    s.remove_prefix(end + at.size());
  }
  return out;
}

Outputs split(Call& c) {
  const Value& v = strings_at(c, 0);
  const int64_t most = c.has("maxsplit") ? c.i("maxsplit", -1) : -1;
  std::vector<Gram> all;
  std::vector<int64_t> counts;
  size_t widest = 0;
  for (const std::string& s : v.strings) {
    all.push_back(pieces_of(s, c.s("delimiter", ""), most));
    counts.push_back(static_cast<int64_t>(all.back().size()));
    widest = std::max(widest, all.back().size());
  }
  Gram flat;
  for (Gram& g : all) {
    g.resize(widest);
    flat.insert(flat.end(), g.begin(), g.end());
  }
  std::vector<int64_t> shape = v.shape;
  shape.push_back(static_cast<int64_t>(widest));
  c.depends_on_data();
  return {strings(std::move(flat), shape), from_data(counts, v.shape, {.device = c.device()})};
}

constexpr OpRow rows[] = {
    {"StringConcat",    20, concat},
    {"StringSplit",     20, split },
    {"TfIdfVectorizer", 9,  tf_idf},
};

}  // namespace

OpTable text_ops() { return rows; }

}  // namespace mote::onnx
