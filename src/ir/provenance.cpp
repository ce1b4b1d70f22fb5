#include "ir/provenance.h"

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/lifetime.h"

namespace mote {

namespace {

struct Open {
  const char* method = "";
  const char* module = "";
  const char* file = nullptr;
  uint32_t line = 0;
  uint32_t id = 0;  // of the open call; 0 until a node asks for it
};
thread_local Open open_call;

struct Table {
  std::mutex mutex;
  std::unordered_map<uint64_t, uint32_t> ids;
  std::vector<Provenance*> rows{new Provenance{}};  // never freed: nodes and kernels name them
};
Table& table() {
  static Table* t = new Table;
  return *t;
}

// The calls this thread made lately: a loop asks for the same few again and again.
struct Known {
  uint64_t key = 0;
  uint32_t id = 0;
};
thread_local Known known_calls[256];

uint32_t id_in_table(uint64_t key) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto [it, fresh] = t.ids.try_emplace(key, static_cast<uint32_t>(t.rows.size()));
  if (fresh)
    t.rows.push_back(
        new Provenance{open_call.method, open_call.module, open_call.file, open_call.line});
  return it->second;
}

std::string place_of_open_call() {
  if (!open_call.file || !open_call.line) return "";
  return text(" (", open_call.file, ":", open_call.line, ")");
}
MOTE_RUN_FIRST void hook() { error_place = place_of_open_call; }

}  // namespace

CallScope::CallScope(const char* method, const std::source_location& where) {
  if (open_call.file) return;
  outermost_.emplace();
  check_not_forked_amid_call();
  open_call.method = method;
  open_call.file = where.file_name();
  open_call.line = where.line();
  open_call.id = 0;
}

CallScope::~CallScope() {
  if (!outermost_) return;
  open_call.method = "";
  open_call.file = nullptr;
  open_call.id = 0;
}

namespace {

// "Encoder.Linear", one text for each pair of modules that call each other, kept for ever.
const char* module_path(const char* outer, const char* inner) {
  if (!*outer) return inner;
  static auto* mutex = new std::mutex;
  static auto* paths = new std::map<std::pair<const char*, const char*>, std::string>;
  std::lock_guard lock(*mutex);
  std::string& path = (*paths)[{outer, inner}];
  if (path.empty()) path = text(outer, ".", inner);
  return path.c_str();
}

}  // namespace

// The call's id is asked for anew: nodes inside belong to another module.
ModuleScope::ModuleScope(const char* module) : before_(open_call.module) {
  open_call.module = module_path(before_, module);
  open_call.id = 0;
}
ModuleScope::~ModuleScope() {
  open_call.module = before_;
  open_call.id = 0;
}

ProvenanceScope::ProvenanceScope(uint32_t id) : before_(open_call.id) { open_call.id = id; }
ProvenanceScope::~ProvenanceScope() { open_call.id = before_; }

uint32_t current_provenance() {
  if (open_call.id || !open_call.file) return open_call.id;
  // File and method names are literals, module paths are kept: their addresses identify them within
  // a process.
  uint64_t key = mix(mix(reinterpret_cast<uintptr_t>(open_call.file), open_call.line),
                     mix(reinterpret_cast<uintptr_t>(open_call.method),
                         reinterpret_cast<uintptr_t>(open_call.module)));
  Known& known = known_calls[key % std::size(known_calls)];
  if (known.key != key) known = {key, id_in_table(key)};
  return open_call.id = known.id;
}

const Provenance& provenance(uint32_t id) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  return *t.rows[id];
}

const char* current_method() { return open_call.method; }

std::string place(uint32_t id) {
  const Provenance& p = provenance(id);
  return p.line ? text(p.file, ":", p.line) : "";
}

}  // namespace mote
