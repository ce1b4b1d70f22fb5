#include "cli/options.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/number.h"

namespace mote {

namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    size_t end = std::min(text.find(at), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string_view> names,
                         std::string_view before) {
  std::string_view near = nearest_name(typed, names);
  return near.empty() ? "" : text(" (did you mean ", before, near, "?)");
}

void check_value(const Command& command, const Option& option, std::string_view value) {
  const bool whole = option.value == "N";
  if (!whole && option.value != "X") {
    check(!value.empty(), "[", command.name, "] --", option.name, " needs ", option.value,
          ", got nothing");
    return;
  }
  int64_t integer = 0;
  double number = 0;
  const bool parses = whole ? read_number(value, integer) : read_number(value, number);
  if (whole) number = static_cast<double>(integer);
  const Range& range = option.range;
  check(parses && std::isfinite(number) && contains(range, number),
        "[", command.name, "] --", option.name, " needs a ", whole ? "whole " : "", "number",
        range_text(range), ", got '", value, "'");
}

// "gpt|llama2c" as "gpt, llama2c: ".
std::string before_meaning(const Option& option) {
  std::string out;
  for (std::string_view choice : split(option.of, '|'))
    out += text(out.empty() ? "" : ", ", choice);
  return out.empty() ? "" : out + ": ";
}

}  // namespace

bool contains(const Range& range, double value) {
  return (range.above ? value > range.least : value >= range.least) && value <= range.most;
}

std::string range_text(const Range& range) {
  if (range.above && std::isfinite(range.most))
    return text(" above ", range.least, " and at most ", range.most);
  if (range.above) return text(" above ", range.least);
  return std::isfinite(range.most) ? text(" from ", range.least, " to ", range.most)
                                   : text(", ", range.least, " or more");
}

Words::Words(const Command& command, std::span<const char* const> words) {
  bool only_operands = false;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (only_operands || !word.starts_with("-") || word == "-") {
      operands_.emplace_back(word);
    } else if (word == "--") {
      only_operands = true;
    } else if (word == "--help" || word == "-h") {
      wants_help_ = true;
    } else {
      check(word.starts_with("--"), "[", command.name, "] options begin with --, got '", word, "'");
      size_t equals = word.find('=');
      std::string_view name = word.substr(2, equals == word.npos ? word.npos : equals - 2);
      auto known = std::ranges::find(command.options, name, &Option::name);
      std::string value;
      if (equals != word.npos) {
        value = word.substr(equals + 1);
        check(known == command.options.end() || !known->value.empty(), "[", command.name, "] --",
              name, " takes no value, got '", value, "'");
      } else if (known != command.options.end() && !known->value.empty()) {
        check(i + 1 < words.size(), "[", command.name, "] --", name, " needs ", known->value,
              ", got nothing");
        value = words[++i];
      }
      take_option(command, name, value);
    }
  }
  if (wants_help_) return;
  check_operands(command);
  check_choice(command);
}

void Words::take_option(const Command& command, std::string_view name, const std::string& value) {
  auto known = std::ranges::find(command.options, name, &Option::name);
  if (known == command.options.end()) {
    std::vector<std::string_view> names;
    for (const Option& option : command.options) names.push_back(option.name);
    fail(ErrorKind::User, mote::text("[", command.name, "] there is no option --", name,
                                     did_you_mean(name, names, "--"), "; `mote help ", command.name,
                                     "` lists them"));
  }
  if (!known->value.empty()) check_value(command, *known, value);
  values_[std::string(name)] = value;
}

void Words::check_operands(const Command& command) const {
  std::vector<std::string_view> wanted = split(command.operands, ' ');
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i >= operands_.size()) {
      check(wanted[i].starts_with('['), "[", command.name, "] needs ", wanted[i], "; `mote help ",
            command.name, "` says more");
      continue;
    }
    std::vector<std::string_view> choices = split(wanted[i], '|');
    check(choices.size() < 2 || std::ranges::find(choices, operands_[i]) != choices.end(), "[",
          command.name, "] needs one of ", wanted[i], ", got '", operands_[i], "'",
          did_you_mean(operands_[i], choices, ""));
  }
  check(operands_.size() <= wanted.size(), "[", command.name, "] takes ",
        command.operands.empty() ? "no operands" : command.operands, ", but got '",
        operands_.size() > wanted.size() ? operands_[wanted.size()] : "", "'");
}

void Words::check_choice(const Command& command) const {
  for (const Option& option : command.options) {
    if (option.of.empty() || !has(option.name)) continue;
    check(std::ranges::count(split(option.of, '|'), operands_[0]) > 0, "[", command.name, "] --",
          option.name, " is not an option of `", command.name, " ", operands_[0], "`");
  }
}

std::string Words::text(std::string_view name, const std::string& otherwise) const {
  auto it = values_.find(name);
  return it == values_.end() ? otherwise : it->second;
}
int64_t Words::integer(std::string_view name, int64_t otherwise) const {
  if (has(name)) read_number(values_.find(name)->second, otherwise);
  return otherwise;
}
double Words::number(std::string_view name, double otherwise) const {
  if (has(name)) read_number(values_.find(name)->second, otherwise);
  return otherwise;
}

std::string help_text(const Command& command) {
  std::string out = text("usage: mote ", command.name);
  if (!command.operands.empty()) out += text(" ", command.operands);
  if (!command.options.empty()) out += " [OPTIONS]";
  out += text("\n\n", command.meaning, "\n");
  if (!command.options.empty()) out += "\n";
  auto left_of = [](const Option& option) {
    return text("  --", option.name, option.value.empty() ? "" : " ", option.value);
  };
  size_t width = 22;
  for (const Option& option : command.options)
    width = std::max(width, left_of(option).size() + 1);
  for (const Option& option : command.options) {
    std::string left = left_of(option);
    left.resize(width, ' ');
    out += text(left, before_meaning(option), option.meaning, "\n");
  }
  if (!command.more.empty()) out += text("\n", command.more, "\n");
  return out;
}

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace mote
