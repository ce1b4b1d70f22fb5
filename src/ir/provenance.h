// Who made a node: the tensor method, the module and the user's file and line. Outside identity.
#pragma once
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>

#include "base/float_environment.h"
#include "base/fork.h"

namespace mote {

struct Provenance {
  const char* method = "";
  const char* module = "";
  const char* file = "";
  uint32_t line = 0;
};

// Opened by every public call; only the outermost one of a thread counts, so that the line kept is
// the user's and not the library's. Inside, floats round as they do by default, whatever the
// caller's thread is set to. A User error in a child that was forked amid another thread's call.
// Costs a few nanoseconds.
class CallScope {
 public:
  CallScope(const char* method, const std::source_location& where);
  ~CallScope();
  CallScope(const CallScope&) = delete;

 private:
  struct Outermost {
    InsideLibrary inside;
    FloatEnvironment nearest;
  };
  std::optional<Outermost> outermost_;
};
// Names the module (layer) that is running, for nodes made inside.
class ModuleScope {
 public:
  explicit ModuleScope(const char* module);
  ~ModuleScope();

 private:
  const char* before_;
};

// Nodes made inside have this provenance, as if the call that had it were open (0: no change).
class ProvenanceScope {
 public:
  explicit ProvenanceScope(uint32_t id);
  ~ProvenanceScope();
  ProvenanceScope(const ProvenanceScope&) = delete;

 private:
  uint32_t before_;
};

uint32_t current_provenance();                 // interned id; 0 when no call is open
const Provenance& provenance(uint32_t id);
const char* current_method();                  // "" when no call is open
std::string place(uint32_t id);                // "file:line" or ""

}  // namespace mote
