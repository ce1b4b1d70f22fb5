#include "io/json.h"

#include <doctest/doctest.h>

#include <limits>

using namespace mote;

TEST_CASE("JSON: values of all kinds") {
  const std::string text =
      " {\"a\" : [1, -2.5e3, true, null, []], \"b\\u00e9\\n\": {\"c\": \"\\ud83d\\ude00/\\/\"}}\t";
  const JsonDocument document("text", text);
  const JsonValue root = document.root();
  const auto items = root.at("a", "root").items("a");
  REQUIRE(items.size() == 5);
  auto item = items.begin();
  CHECK((*item).integer("first") == 1);
  CHECK((*++item).number("second") == -2500);
  CHECK((*++item).boolean("third"));
  CHECK((*++item).is_null());
  CHECK((*++item).items("last").size() == 0);
  CHECK(++item == items.end());
  CHECK(root.has("bé\n", "root"));
  CHECK(!root.has("c", "root"));
  CHECK(root.at("bé\n", "root").at("c", "b").string("c") == "😀//");
  std::string keys;
  for (const auto& member : root.members("root")) keys += std::string(member.key) + ";";
  CHECK(keys == "a;bé\n;");
}

TEST_CASE("JSON: what is asked for must be there") {
  const JsonDocument document("f.json", "{\"n\": 1.5, \"s\": \"x\", \"big\": 1e999, \"k\": {}}");
  const JsonValue root = document.root();
  auto says = [](auto f) {
    try {
      f();
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string("no error");
  };
  CHECK(says([&] { root.at("n", "root").integer("n"); }) ==
        "f.json: n must be a whole number of at most 63 bits");
  CHECK(says([&] { root.at("s", "root").number("s"); }) == "f.json: s must be a number");
  CHECK(says([&] { root.at("big", "root").number("big"); }) ==
        "f.json: big must be a number that a double holds");
  CHECK(says([&] { root.at("n", "root").string("n"); }) == "f.json: n must be a string");
  CHECK(says([&] { root.at("k", "root").boolean("k"); }) == "f.json: k must be true or false");
  CHECK(says([&] { root.items("root"); }) == "f.json: root must be an array");
  CHECK(says([&] { root.at("s", "root").members("s"); }) == "f.json: s must be an object");
  CHECK(says([&] { root.at("none", "root"); }) == "f.json: root has no 'none'");
}

TEST_CASE("JSON: levels up to the limit, wide texts") {
  const std::string deep = std::string(kJsonDepth, '[') + std::string(kJsonDepth, ']');
  CHECK(JsonDocument("deep", deep).root().items("root").size() == 1);
  std::string wide = "[0";
  for (int i = 1; i < 100'000; ++i) wide += "," + std::to_string(i);
  wide += "]";
  const JsonDocument document("wide", wide);
  int64_t sum = 0;
  for (const JsonValue& v : document.root().items("root")) sum += v.integer("item");
  CHECK(sum == int64_t{99'999} * 50'000);
}

TEST_CASE("JSON: writing") {
  JsonWriter json;
  json.begin('{').key("a\"\\\x01").value("é").key("list").begin('[').value(1).value(-2.5);
  json.value(true).value(std::numeric_limits<double>::infinity()).begin('{').end().end().end();
  CHECK(json.text() == "{\"a\\\"\\\\\\u0001\": \"é\", \"list\": [1, -2.5, true, null, {}]}");
  JsonWriter compact(/*compact=*/true);
  compact.begin('{').key("a").begin('[').value(1).value(2).end().key("b").value("c").end();
  CHECK(compact.text() == "{\"a\":[1,2],\"b\":\"c\"}");
}

TEST_CASE("UTF-8") {
  for (const char* good : {"", "ascii", "é", "€", "😀", "12345678é", "\xf4\x8f\xbf\xbf"})
    CHECK(is_utf8(good));
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xe2\x82",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xff", "12345678\xc3", "\xc3("})
    CHECK(!is_utf8(bad));
}
