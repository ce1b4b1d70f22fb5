#include "base/flags.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/lifetime.h"
#include "base/nearest_name.h"
#include "base/number.h"

namespace mote {

namespace {

enum class Changes { Run, Code };
// What a flag takes: a text, or a whole number from 0 to `most`.
struct Takes {
  bool is_text;
  int64_t most;
};
constexpr Takes Text{true, 0}, Switch{false, 1};
constexpr Takes Number(int64_t most) { return {false, most}; }
struct FlagRow {
  const char* name;
  Takes takes;
  std::string value;
  Changes changes;
  const char* doc;
};

std::string default_text(int v) { return std::to_string(v); }
std::string default_text(const char* v) { return v; }

const std::vector<FlagRow>& rows() {
  static const auto& table = *new std::vector<FlagRow>{
#define FLAG(name, kind, value, changes, doc) \
  {#name, kind, default_text(value), Changes::changes, doc},
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
  if (row.takes.is_text) return v;
  const bool fits = read_number(given, v.number) && v.number >= 0 && v.number <= row.takes.most;
  check(fits, "[flags] ", row.name, "=", given, ": expected ",
        row.takes.most == 1 ? "0 or 1" : text("a whole number from 0 to ", row.takes.most));
  return v;
}

// Read from the environment by the launcher and the tests, not by the library.
constexpr std::string_view other_names[] = {"CMAKE_ARGS", "SOAK",         "DRAWS",
                                            "FILES_OUT",  "PROGRAM_SEED", "PROGRAM_PART"};

// A name that nobody reads is a setting that has no effect: say so, once.
void warn_of_unknown_names() {
  std::vector<std::string_view> names;
  for (const FlagRow& row : rows()) names.push_back(row.name);
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view name = *entry;
    if (!name.starts_with("MOTE_") || name.starts_with("MOTE_TEST_")) continue;
    name = name.substr(5, name.find('=') - 5);
    if (std::ranges::count(names, name) || std::ranges::count(other_names, name)) continue;
    const std::string_view near = nearest_name(name, names);
    std::string shown;
    for (char c : name) shown += c > ' ' && c < 127 ? c : '?';
    std::fprintf(stderr, "mote: warning: MOTE_%s is not a setting of mote%s\n", shown.c_str(),
                 near.empty() ? "" : text("; did you mean MOTE_", near, "?").c_str());
  }
}

const std::vector<Value>& environment() {
  static const auto& values = *new const std::vector<Value>([] {
    std::vector<Value> out;
    [[maybe_unused]] static const bool warned = (warn_of_unknown_names(), true);
    for (const FlagRow& row : rows()) {
      const char* given = std::getenv((std::string("MOTE_") + row.name).c_str());
      if (!given && short_names) given = std::getenv(row.name);
      // CC names the compiler for other programs; only a number can mean the flag.
      if (given && std::string_view(row.name) == "CC" && (given[0] < '0' || given[0] > '9'))
        given = nullptr;
      out.push_back(parse(row, given ? given : row.value));
    }
    return out;
  }());
  return values;
}

using Overrides = std::vector<std::optional<Value>>;
Overrides& overrides() { return PerThread<Overrides>::get(); }

const Value& value_of(Flag f) {
  auto i = static_cast<size_t>(f);
  const Overrides* own = PerThread<Overrides>::if_made();
  if (own && i < own->size() && (*own)[i]) return *(*own)[i];
  return environment()[i];
}

}  // namespace

int64_t flag(Flag f) { return value_of(f).number; }
const std::string& flag_text(Flag f) { return value_of(f).text; }

struct FlagScopes::Values {
  Overrides list;
};
FlagScopes::FlagScopes() : values_(new Values{overrides()}) {}
FlagScopes::~FlagScopes() = default;
void FlagScopes::set() const { overrides() = values_->list; }

FlagScope::FlagScope(Flag f, int64_t value) : FlagScope(f, std::to_string(value)) {}
FlagScope::FlagScope(Flag f, std::string value) {
  const auto i = static_cast<size_t>(f);
  overrides().resize(rows().size());
  overrides()[i] = parse(rows()[i], value);
}

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
