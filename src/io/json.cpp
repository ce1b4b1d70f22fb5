#include "io/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/number.h"

namespace mote {

// One pass over the text. `open_` holds the arrays and objects not yet closed.
class JsonParser {
 public:
  JsonParser(JsonDocument& document, std::string_view text) : doc_(document), text_(text) {}

  void parse() {
    check(text_.size() < UINT32_MAX, "the text has ", text_.size(), " bytes, too many");
    check(is_utf8(text_), "not valid UTF-8");
    do {
      skip_space();
      if (!open_.empty() && take_closing()) continue;
      if (!open_.empty()) begin_element();
      parse_value();
    } while (!open_.empty());
    skip_space();
    check(at_ == text_.size(), "extra text after the value");
  }

 private:
  using Doc = JsonDocument;

  template <class... A>
  void check(bool ok, const A&... parts) {
    check_file(ok, doc_.file_, "JSON byte ", at_, ": ", parts...);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() &&
           std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  Doc::Node& innermost() { return doc_.nodes_[open_.back()]; }

  bool take_closing() {
    if (!take(innermost().kind == Doc::Object ? '}' : ']')) return false;
    if (innermost().kind == Doc::Object) check_keys(open_.back());
    innermost().after = static_cast<uint32_t>(doc_.nodes_.size());
    open_.pop_back();
    return true;
  }

  // The comma before, and the key of a member.
  void begin_element() {
    const bool object = innermost().kind == Doc::Object;
    if (innermost().count++) {
      check(take(','), "expected ',' or '", object ? '}' : ']', "'");
      skip_space();
    }
    if (!object) return;
    check(peek() == '"', "expected a key in quotes");
    parse_string();
    skip_space();
    check(take(':'), "expected ':'");
    skip_space();
  }

  void parse_value() {
    const char c = peek();
    if (c == '{' || c == '[') {
      check(open_.size() < kJsonDepth, "more than ", kJsonDepth, " levels");
      ++at_;
      open_.push_back(static_cast<uint32_t>(doc_.nodes_.size()));
      add(c == '{' ? Doc::Object : Doc::Array, {});
    } else if (c == '"') {
      parse_string();
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      parse_number();
    } else {
      parse_word();
    }
  }

  void add(Doc::Kind kind, std::string_view text) {
    const auto after = static_cast<uint32_t>(doc_.nodes_.size() + 1);
    doc_.nodes_.push_back({.text = text, .after = after, .kind = kind});
  }

  void parse_word() {
    for (const std::string_view word : {"null", "true", "false"})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return add(word == "null" ? Doc::Null : Doc::Bool, word);
      }
    check(at_ < text_.size(), "the text ends where a value is expected");
    check(false, "expected a value, got ", quoted(text_.substr(at_, 1)));
  }

  void take_digits() {
    check(peek() >= '0' && peek() <= '9', "expected a digit");
    while (peek() >= '0' && peek() <= '9') ++at_;
  }
  void parse_number() {
    const size_t begin = at_;
    take('-');
    if (!take('0')) take_digits();
    if (take('.')) take_digits();
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      take_digits();
    }
    add(Doc::Number, text_.substr(begin, at_ - begin));
  }

  // A string without escapes is a part of the text.
  void parse_string() {
    const size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\') check_plain(text_[at_++]);
    check(at_ < text_.size(), "the text ends in a string");
    if (text_[at_] == '"') return add(Doc::String, text_.substr(begin, at_++ - begin));
    std::string& out = doc_.unescaped_.emplace_back(text_.substr(begin, at_ - begin));
    while (!take('"')) {
      check(at_ < text_.size(), "the text ends in a string");
      if (take('\\')) {
        append_escape(out);
      } else {
        check_plain(text_[at_]);
        out += text_[at_++];
      }
    }
    add(Doc::String, out);
  }
  void check_plain(char c) {
    check(static_cast<uint8_t>(c) >= 0x20, "a control character in a string");
  }

  void append_escape(std::string& out) {
    const char c = peek();
    if (c == 'u') {
      ++at_;
      return append_code_point(out);
    }
    constexpr std::string_view escapes = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    const size_t which = at_ < text_.size() ? escapes.find(c) : std::string_view::npos;
    check(which != std::string_view::npos, "no such escape");
    ++at_;
    out += meanings[which];
  }
  uint32_t take_hex() {
    uint32_t code = 0;
    const char* begin = text_.data() + at_;
    const char* end = begin + std::min<size_t>(4, text_.size() - at_);
    const auto [stop, error] = std::from_chars(begin, end, code, 16);
    check(error == std::errc() && stop == begin + 4, "expected four hexadecimal digits");
    at_ += 4;
    return code;
  }
  void append_code_point(std::string& out) {
    uint32_t code = take_hex();
    if (code >= 0xd800 && code < 0xe000) {
      check(code < 0xdc00 && take('\\') && take('u'), "half of a surrogate pair");
      const uint32_t low = take_hex();
      check(low >= 0xdc00 && low < 0xe000, "half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_character(out, code);
  }

  void check_keys(uint32_t object) {
    keys_.clear();
    for (uint32_t i = object + 1; i < doc_.nodes_.size(); i = doc_.nodes_[i + 1].after)
      keys_.push_back(doc_.nodes_[i].text);
    std::sort(keys_.begin(), keys_.end());
    const auto twice = std::adjacent_find(keys_.begin(), keys_.end());
    if (twice != keys_.end())
      check(false, "the key ", quoted(*twice), " appears twice in an object");
  }

  JsonDocument& doc_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<uint32_t> open_;
  std::vector<std::string_view> keys_;
};

JsonDocument::JsonDocument(const std::string& file, std::string_view text) : file_(file) {
  JsonParser(*this, text).parse();
}

JsonValue JsonDocument::root() const { return {this, 0}; }

void JsonValue::expect(bool ok, std::string_view what, const char* kind) const {
  check_file(ok, document_->file_, what, " must be ", kind);
}

bool JsonValue::boolean(std::string_view what) const {
  expect(node().kind == JsonDocument::Bool, what, "true or false");
  return node().text == "true";
}

int64_t JsonValue::integer(std::string_view what) const {
  expect(is_number(), what, "a number");
  int64_t out = 0;
  expect(read_number(node().text, out), what, "a whole number of at most 63 bits");
  return out;
}

double JsonValue::number(std::string_view what) const {
  expect(is_number(), what, "a number");
  double out = 0;
  expect(read_number(node().text, out), what, "a number that a double holds");
  return out;
}

std::string_view JsonValue::string(std::string_view what) const {
  expect(is_string(), what, "a string");
  return node().text;
}

JsonValue::Items JsonValue::items(std::string_view what) const {
  expect(is_array(), what, "an array");
  return Items(*this);
}

JsonValue::Members JsonValue::members(std::string_view what) const {
  expect(is_object(), what, "an object");
  return Members(*this);
}

bool JsonValue::has(std::string_view key, std::string_view what) const {
  for (const Member& m : members(what))
    if (m.key == key) return true;
  return false;
}

JsonValue JsonValue::at(std::string_view key, std::string_view what) const {
  for (const Member& m : members(what))
    if (m.key == key) return m.value;
  fail_file(document_->file_, mote::text(what, " has no ", quoted(key)));
}

void JsonWriter::separate() {
  if (!first_ && !after_key_) out_ += comma_;
  first_ = after_key_ = false;
}

JsonWriter& JsonWriter::literal(std::string_view text) {
  separate();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::begin(char bracket) {
  separate();
  out_ += bracket;
  open_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end() {
  ensure(!open_.empty(), "nothing to close in JSON");
  out_ += open_.back() == '{' ? '}' : ']';
  open_.pop_back();
  first_ = false;
  return *this;
}

void JsonWriter::append_quoted(std::string_view text) {
  ensure(is_utf8(text), "text for JSON is not UTF-8: ", quoted(text));
  out_ += '"';
  while (!text.empty()) {
    const uint32_t c = take_character(text);
    if (c == '"' || c == '\\')
      out_ += {'\\', static_cast<char>(c)};
    else if (is_control(c))
      out_ += "\\u" + hex_text(uint64_t{c}, 4);
    else
      append_character(out_, c);
  }
  out_ += '"';
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_quoted(name);
  out_ += colon_;
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  append_quoted(text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return literal("null");
  return literal(shortest_text(number));
}

JsonWriter& JsonWriter::value(bool b) { return literal(b ? "true" : "false"); }

}  // namespace mote
