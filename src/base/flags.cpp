#include "base/flags.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace mote {

namespace {

enum class Kind { Switch, Number, Text };
enum class Changes { Run, Code };
struct FlagRow {
  const char* name;
  Kind kind;
  std::string value;
  Changes changes;
  const char* doc;
};

std::string default_text(int v) { return std::to_string(v); }
std::string default_text(const char* v) { return v; }

const std::vector<FlagRow>& rows() {
  static const std::vector<FlagRow> table = {
#define FLAG(name, kind, value, changes, doc) \
  {#name, Kind::kind, default_text(value), Changes::changes, doc},
#include "base/flags.def"
#undef FLAG
  };
  return table;
}

std::atomic<bool> short_names{false};

struct Value {
  std::string text;
  int64_t number = 0;
};

Value parse(const FlagRow& row, const std::string& given) {
  Value v{given, 0};
  if (row.kind == Kind::Text) return v;
  auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), v.number);
  bool whole = error == std::errc() && end == given.data() + given.size();
  bool fits = row.kind == Kind::Number ? v.number >= 0 : v.number == 0 || v.number == 1;
  check(whole && fits, "[flags] ", row.name, "=", given, ": expected ",
        row.kind == Kind::Switch ? "0 or 1" : "a whole number, 0 or more");
  return v;
}

const std::vector<Value>& environment() {
  static const std::vector<Value> values = [] {
    std::vector<Value> out;
    for (const FlagRow& row : rows()) {
      const char* given = std::getenv((std::string("MOTE_") + row.name).c_str());
      if (!given && short_names) given = std::getenv(row.name);
      // CC names the compiler for other programs; only a number can mean the flag.
      if (given && row.kind == Kind::Switch && std::string(row.name) == "CC" &&
          (given[0] < '0' || given[0] > '9'))
        given = nullptr;
      out.push_back(parse(row, given ? given : row.value));
    }
    return out;
  }();
  return values;
}

thread_local std::vector<std::optional<Value>> overrides;

const Value& value_of(Flag f) {
  auto i = static_cast<size_t>(f);
  if (i < overrides.size() && overrides[i]) return *overrides[i];
  return environment()[i];
}

}  // namespace

int64_t flag(Flag f) { return value_of(f).number; }
const std::string& flag_text(Flag f) { return value_of(f).text; }

FlagScope::FlagScope(Flag f, int64_t value) : FlagScope(f, std::to_string(value)) {}
FlagScope::FlagScope(Flag f, std::string value) : flag_(f) {
  auto i = static_cast<size_t>(f);
  if (overrides.size() <= i) overrides.resize(rows().size());
  was_set_ = overrides[i].has_value();
  if (was_set_) before_ = overrides[i]->text;
  overrides[i] = parse(rows()[i], value);
}
FlagScope::~FlagScope() {
  auto i = static_cast<size_t>(flag_);
  if (was_set_) overrides[i] = parse(rows()[i], before_);
  else overrides[i].reset();
}

struct FlagScopes::Values {
  std::vector<std::optional<Value>> list;
};
FlagScopes::FlagScopes() : values_(new Values{overrides}) {}
FlagScopes::~FlagScopes() = default;
FlagScopes::Inherited::Inherited(const FlagScopes& from) : before_(new FlagScopes) {
  overrides = from.values_->list;
}
FlagScopes::Inherited::~Inherited() { overrides = std::move(before_->values_->list); }

uint64_t code_flags_hash() {
  uint64_t h = 0;
  for (size_t i = 0; i < rows().size(); ++i) {
    if (rows()[i].changes != Changes::Code) continue;
    const std::string& text = value_of(static_cast<Flag>(i)).text;
    h = hash_bytes(text.data(), text.size(), h + i);
  }
  return h;
}

void read_short_flag_names() { short_names = true; }

static std::string padded(std::string word, size_t width) {
  if (word.size() < width) word.resize(width, ' ');
  return word;
}

std::vector<FlagText> flag_texts() {
  std::vector<FlagText> out;
  for (const FlagRow& row : rows()) out.push_back({row.name, row.value, row.doc});
  return out;
}

std::string flags_help() {
  std::string out;
  for (const FlagText& row : flag_texts())
    out += text("  ", padded(row.name, 12), padded(row.value.empty() ? "-" : row.value, 6),
                row.meaning, "\n");
  return out;
}

}  // namespace mote
