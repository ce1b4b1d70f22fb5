#include "cli/settings.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"

namespace mote {

namespace {

auto entry(const Metadata& m, std::string_view key) {
  return std::ranges::find(m, key, &Metadata::value_type::first);
}

template <class T>
T parsed(std::string_view name, const std::string& value) {
  T out{};
  check(read_number(value, out), "[train] the setting ", name, " is not a number: '",
        printable(value), "'");
  return out;
}

}  // namespace

std::string Settings::text(std::string_view name, const std::string& otherwise) {
  auto known = entry(asked_, name), saved = entry(saved_, name);
  if (known != asked_.end()) return known->second;
  asked_.emplace_back(name, words_.text(name, saved == saved_.end() ? otherwise : saved->second));
  return asked_.back().second;
}
std::string Settings::path(std::string_view name) {
  std::string given = words_.text(name);
  if (!given.empty()) set(std::string(name), std::filesystem::absolute(given).string());
  return text(name, "");
}
void Settings::set(const std::string& name, const std::string& value) {
  asked_.emplace_back(name, value);
}
int64_t Settings::integer(std::string_view name, int64_t otherwise, const Range& range) {
  auto value = parsed<int64_t>(name, text(name, std::to_string(otherwise)));
  check(contains(range, static_cast<double>(value)), "[train] --", name, " needs a whole number",
        range_text(range), ", got ", value);
  return value;
}
double Settings::number(std::string_view name, double otherwise, const Range& range) {
  std::string shortest = mote::text(otherwise);
  auto value = parsed<double>(name, text(name, shortest));
  check(contains(range, value), "[train] --", name, " needs a number", range_text(range), ", got ",
        value);
  return value;
}

Metadata settings_in(const Metadata& values) {
  const std::string prefix = std::string(kSetting) + ".";
  Metadata out;
  for (const auto& [name, value] : values)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), value);
  return out;
}

const std::string& find(const Metadata& metadata, std::string_view key, const std::string& file) {
  auto it = entry(metadata, key);
  check(it != metadata.end(), "[checkpoint] ", printable(file), ": the metadata has no '", key,
        "': this is not a checkpoint of mote train");
  return it->second;
}
int64_t find_integer(const Metadata& metadata, std::string_view key, const std::string& file) {
  const std::string& value = find(metadata, key, file);
  int64_t out = 0;
  check(read_number(value, out) && out >= 0, "[checkpoint] ", printable(file), ": '", key,
        "' must be a whole number, got '", printable(value), "'");
  return out;
}
bool same_number(const std::string& a, const std::string& b) {
  int64_t whole_a = 0, whole_b = 0;
  if (read_number(a, whole_a) && read_number(b, whole_b)) return whole_a == whole_b;
  double x = 0, y = 0;
  return read_number(a, x) && read_number(b, y) && x == y;
}

}  // namespace mote
