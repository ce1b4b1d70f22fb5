// The table of `mote bench wide`: lines, classes, and sizes drawn by the seed.
#include "base/error.h"
#include "base/number.h"
#include "cli/bench_wide.h"

namespace mote::wide {

namespace {

// A row's own numbers: they change neither with the rows around it nor with their number.
class Draw {
 public:
  Draw(std::string_view name, uint64_t seed)
      : state_(name_seed(name) ^ (seed * 0x9e3779b97f4a7c15u)) {}
  uint64_t below(uint64_t n) {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % n;
  }

 private:
  uint64_t state_;
};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    const size_t end = std::min(text.find(at), text.size());
    out.push_back(text.substr(0, end));
    if (end == text.size()) return out;
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

using Sizes = std::map<std::string, int64_t, std::less<>>;

// What stands between braces.
std::string chosen(std::string_view what, Draw& draw, Sizes& named) {
  if (what.starts_with('=')) return std::to_string(integer_value(what.substr(1), named));
  const bool hidden = what.starts_with("let ");
  if (hidden) what.remove_prefix(4);
  if (auto it = named.find(what); it != named.end()) return std::to_string(it->second);
  std::string_view name;
  if (const size_t colon = what.find(':'); colon != what.npos)
    name = what.substr(0, colon), what.remove_prefix(colon + 1);
  std::string out;
  if (const size_t dots = what.find(".."); dots != what.npos) {
    int64_t low = 0, high = 0;
    check(read_number(what.substr(0, dots), low) && read_number(what.substr(dots + 2), high) &&
              low <= high,
          "[bench] not a range: ", what);
    out = std::to_string(low +
                         static_cast<int64_t>(draw.below(static_cast<uint64_t>(high - low + 1))));
  } else {
    const std::vector<std::string_view> all = split(what, '|');
    out = all[draw.below(all.size())];
  }
  if (!name.empty()) {
    int64_t size = 0;
    check(read_number(out, size), "[bench] only a number can be named: ", name);
    named.emplace(name, size);
  }
  return hidden ? "" : out;
}

Row read_row(std::string_view line, const std::string& kind, uint64_t seed) {
  const size_t colon = line.find(':');
  check(colon != line.npos, "a row is NAME: PROGRAM");
  Row row{std::string(trimmed(line.substr(0, colon))), kind, "", false};
  Draw draw(row.name, seed);
  Sizes named;
  std::string_view left = trimmed(line.substr(colon + 1));
  for (size_t open; (open = left.find('{')) != left.npos;) {
    const size_t close = left.find('}', open);
    check(close != left.npos, "no } after {");
    row.program +=
        text(left.substr(0, open), chosen(left.substr(open + 1, close - open - 1), draw, named));
    left.remove_prefix(close + 1);
    row.drawn = true;
  }
  row.program += left;
  return row;
}

}  // namespace

std::vector<Row> read_rows(std::string_view table, const std::string& file, uint64_t seed) {
  std::vector<Row> rows;
  std::string kind;
  size_t number = 0;
  for (std::string_view line : split(table, '\n')) {
    ++number;
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with('[')) {
      kind = line.substr(1, line.find(']') - 1);
      continue;
    }
    try {
      rows.push_back(read_row(line, kind, seed));
    } catch (const Error& error) {
      fail(ErrorKind::User, text(file, ":", number, ": ", error.what()));
    }
  }
  return rows;
}

}  // namespace mote::wide
