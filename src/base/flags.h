// All settings, in one table (flags.def). Read from MOTE_<NAME> at first use; the command-line
// program and the tests also read the short names. Settable in code for a scope and thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mote {

enum class Flag {
#define FLAG(name, kind, value, changes, doc) name,
#include "base/flags.def"
#undef FLAG
};

// User error, naming the flag and what it takes, if the environment's value cannot be read.
int64_t flag(Flag f);
const std::string& flag_text(Flag f);

// The values that are set on the thread which makes it.
class FlagScopes {
 public:
  FlagScopes();
  ~FlagScopes();
  FlagScopes(const FlagScopes&) = delete;
  void set() const;  // on this thread, in place of its own

 private:
  struct Values;
  std::unique_ptr<Values> values_;
};

// Overrides a flag on this thread until destroyed.
class FlagScope {
 public:
  FlagScope(Flag f, int64_t value);
  FlagScope(Flag f, std::string value);
  explicit FlagScope(const FlagScopes& all) { all.set(); }  // of whom this thread works for
  ~FlagScope() { before_.set(); }

 private:
  const FlagScopes before_;
};

// Of all flags that can change generated code, as they are now on this thread.
uint64_t code_flags_hash();
// Also read DEBUG=1 and the like, not only MOTE_DEBUG=1. Call before the first flag is read.
void read_short_flag_names();
// The table's words, for help texts and docs, and as "NAME  default  meaning" lines.
struct FlagText {
  std::string name, value, meaning;  // value: by default
};
std::vector<FlagText> flag_texts();
std::string flags_help();

}  // namespace mote
