#include "io/json.h"

#include "fuzz/fuzz.h"

namespace {

// All values, by an explicit stack, written again: what was read must be readable.
void walk(const mote::JsonValue& root) {
  std::vector<mote::JsonValue> left{root};
  while (!left.empty()) {
    const mote::JsonValue v = left.back();
    left.pop_back();
    if (v.is_string()) {
      mote::JsonWriter out;
      out.begin('[').value(v.string("a string")).end();
      const mote::JsonDocument again("output", out.text());
      mote::ensure(
          (*again.root().items("the array").begin()).string("a string") == v.string("a string"),
          "a string is not what was written");
    } else if (v.is_number()) {
      try {
        v.integer("a number");
      } catch (const mote::Error&) { v.number("a number"); }
    } else if (v.is_array()) {
      for (const mote::JsonValue& item : v.items("an array")) left.push_back(item);
    } else if (v.is_object()) {
      for (const auto& member : v.members("an object")) left.push_back(member.value);
    }
  }
}

}  // namespace

FUZZ_TARGET(json) {
  return mote::fuzz(data, size, [](const mote::File& file) {
    const mote::JsonDocument document(file.name, file.bytes.text());
    walk(document.root());
  });
}
