// The words of a command line. A command says in data what it takes; parsing checks the words
// against that, so that a command's code starts with values that make sense.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mote {

// The numbers that an option takes, both ends among them.
struct Range {
  double least = 0, most = std::numeric_limits<double>::infinity();
  bool above = false;  // the least itself is too little
};

bool contains(const Range&, double value);  // not of NaN
std::string range_text(const Range&);       // " from 1 to 8"; ", 1 or more"

// --name VALUE. What may follow is said by its letter: "N" a whole number, "X" a number; anything
// else is text; "" nothing, the option is a switch.
struct Option {
  std::string_view name, value, meaning;
  std::string_view of = "";  // "gpt|llama2c": the choices of the first operand that take it; "" all
  Range range = {};
};

class Words;

struct Command {
  std::string_view name;
  std::string_view operands;  // "mnist|cifar FILE [NAME]": choices, any text, may be left out
  std::string_view meaning;   // one line
  std::span<const Option> options;
  int (*run)(const Words&);    // returns the exit status; errors are exceptions
  std::string_view more = "";  // what else `mote help COMMAND` says
};

class Words {
 public:
  // Throws a User error that names the word, and the nearest name where one is near.
  Words(const Command&, std::span<const char* const> words);

  bool has(std::string_view name) const { return values_.contains(name); }
  std::string text(std::string_view name, const std::string& otherwise = "") const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  const std::string& operand(size_t i) const { return operands_[i]; }
  size_t operand_count() const { return operands_.size(); }
  bool wants_help() const { return wants_help_; }

 private:
  void take_option(const Command&, std::string_view name, const std::string& value);
  void check_operands(const Command&) const;
  void check_choice(const Command&) const;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> operands_;
  bool wants_help_ = false;
};

std::string help_text(const Command&);
std::string shell_quoted(const std::string& word);  // a shell reads it as this one word

}  // namespace mote
