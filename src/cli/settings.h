// What a training run was told: by the command line, else by the checkpoint it is resumed from,
// else by default. Every setting asked for is kept, by the option's name, to go into the
// checkpoint.
#pragma once
#include <mote/io.h>

#include "cli/options.h"

namespace mote {

class Settings {
 public:
  Settings(const Words& words, Metadata saved) : words_(words), saved_(std::move(saved)) {}
  std::string text(std::string_view name, const std::string& otherwise);
  // Within the range: a checkpoint's settings are no more trusted than a command line.
  int64_t integer(std::string_view name, int64_t otherwise, const Range& range = {.least = 1});
  double number(std::string_view name, double otherwise, const Range& range = {});
  std::string path(std::string_view name);                      // absolute, or "" if none was given
  void set(const std::string& name, const std::string& value);  // whatever was told
  const Metadata& asked() const { return asked_; }
  const Words& words() const { return words_; }

 private:
  const Words& words_;
  Metadata saved_, asked_;
};

// The settings among a checkpoint's values, and what their names begin with there.
constexpr const char* kSetting = "setting";
Metadata settings_in(const Metadata& values);
// The value of a key; an error that names the file without one.
const std::string& find(const Metadata&, std::string_view key, const std::string& file);
int64_t find_integer(const Metadata&, std::string_view key, const std::string& file);
bool same_number(const std::string& a, const std::string& b);  // 0.1 and 0.10

}  // namespace mote
