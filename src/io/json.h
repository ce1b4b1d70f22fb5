// JSON, strict (RFC 8259): valid UTF-8, no duplicate keys, nothing after the value, at most
// kJsonDepth levels. A document is a flat list of nodes of 32 bytes, at most one per byte of text;
// parsing does not recurse.
#pragma once
#include <deque>

#include "io/bytes.h"

namespace mote {

constexpr size_t kJsonDepth = 128;

class JsonValue;

class JsonDocument {
 public:
  // `text` must outlive the document. Errors name the file and the byte.
  JsonDocument(const std::string& file, std::string_view text);
  JsonDocument(const JsonDocument&) = delete;
  JsonValue root() const;

 private:
  friend class JsonValue;
  friend class JsonParser;
  enum Kind : uint8_t { Null, Bool, Number, String, Array, Object };
  struct Node {
    std::string_view text;  // a string's value, a literal as written
    uint32_t after = 0;     // the node behind this one and all it contains
    uint32_t count = 0;     // of items, or of members (a key and a value each)
    Kind kind = Null;
  };
  const std::string file_;
  std::deque<Node> nodes_;
  std::deque<std::string> unescaped_;  // strings that are not as written
};

// One value of a document, which must outlive it. What it is asked for must be what it is:
// the errors name `what`, the field as the caller calls it.
class JsonValue {
 public:
  bool is_null() const { return node().kind == JsonDocument::Null; }
  bool is_number() const { return node().kind == JsonDocument::Number; }
  bool is_string() const { return node().kind == JsonDocument::String; }
  bool is_array() const { return node().kind == JsonDocument::Array; }
  bool is_object() const { return node().kind == JsonDocument::Object; }

  bool boolean(std::string_view what) const;
  int64_t integer(std::string_view what) const;  // written as a whole number that fits
  double number(std::string_view what) const;
  std::string_view string(std::string_view what) const;  // lives as long as the document

  struct Member;
  class Items;
  class Members;
  Items items(std::string_view what) const;      // of an array
  Members members(std::string_view what) const;  // of an object, as written
  // The member with this key; looks through all of them. An error without one.
  JsonValue at(std::string_view key, std::string_view what) const;
  bool has(std::string_view key, std::string_view what) const;

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument* document, uint32_t index) : document_(document), index_(index) {}
  const JsonDocument::Node& node() const { return document_->nodes_[index_]; }
  void expect(bool ok, std::string_view what, const char* kind) const;
  const JsonDocument* document_;
  uint32_t index_;
};

class JsonValue::Items {
 public:
  struct Iterator {
    const JsonDocument* document;
    uint32_t index;
    JsonValue operator*() const { return {document, index}; }
    Iterator& operator++() {
      index = document->nodes_[index].after;
      return *this;
    }
    bool operator==(const Iterator& o) const { return index == o.index; }
  };
  Iterator begin() const { return {value_.document_, value_.index_ + 1}; }
  Iterator end() const { return {value_.document_, value_.node().after}; }
  size_t size() const { return value_.node().count; }

 private:
  friend class JsonValue;
  explicit Items(const JsonValue& value) : value_(value) {}
  JsonValue value_;
};

struct JsonValue::Member {
  std::string_view key;
  JsonValue value;
};

class JsonValue::Members {
 public:
  struct Iterator {
    const JsonDocument* document;
    uint32_t index;
    Member operator*() const {
      return {
          document->nodes_[index].text, {document, index + 1}
      };
    }
    Iterator& operator++() {
      index = document->nodes_[index + 1].after;
      return *this;
    }
    bool operator==(const Iterator& o) const { return index == o.index; }
  };
  Iterator begin() const { return {value_.document_, value_.index_ + 1}; }
  Iterator end() const { return {value_.document_, value_.node().after}; }
  size_t size() const { return value_.node().count; }

 private:
  friend class JsonValue;
  explicit Members(const JsonValue& value) : value_(value) {}
  JsonValue value_;
};

// Writes JSON on one line; commas come by themselves. `begin('{').key("a").value(1).end()`.
// Compact: without spaces. Control characters are escaped, those of base/utf8.h among them.
class JsonWriter {
 public:
  explicit JsonWriter(bool compact = false)
      : comma_(compact ? "," : ", "), colon_(compact ? ":" : ": ") {}
  JsonWriter& begin(char bracket);  // '{' or '['
  JsonWriter& end();                // closes what was begun last
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);  // must be UTF-8
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);  // null if not finite
  JsonWriter& value(bool b);
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) JsonWriter& value(T number) {
    return literal(std::to_string(number));
  }
  const std::string& text() const { return out_; }

 private:
  JsonWriter& literal(std::string_view text);
  void separate();
  void append_quoted(std::string_view text);
  const char* comma_;
  const char* colon_;
  std::string out_;
  std::string open_;  // the brackets that are open
  bool first_ = true, after_key_ = false;
};

}  // namespace mote
