#include "engine/searched.h"

#include <mote/search.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>

#include "base/build_id.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/utf8.h"
#include "engine/realize.h"
#include "ir/provenance.h"
#include "runtime/disk.h"
#include "runtime/disk_cache.h"
#include "runtime/output_file.h"

namespace mote {

namespace {

constexpr std::string_view kFirstLine = "mote searched actions 1";
constexpr size_t kLongestLine = 1 << 16;

std::string hex(uint64_t word) { return hex_text(word, 16); }

using Name = std::pair<std::string, std::string>;  // kernel, device
struct Table {
  std::mutex mutex;
  bool read = false;  // the file of this build
  std::map<Name, Found> found;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

std::string file_of_build() {  // in the folder of the compile cache
  return text("searched-", std::string_view(build_id()).substr(0, 16), ".txt");
}

std::string line_of(const Name& name, const Found& f) {
  return text(name.first, "\t", name.second, "\t", fixed_text(f.before_ms, 6), "\t",
              fixed_text(f.after_ms, 6), "\t", f.actions, "\n");
}

// False: no such line.
bool read_line(const std::string& line, std::map<Name, Found>& into) {
  std::istringstream in(line);
  std::string kernel, device, before, after;
  Found f;
  if (!std::getline(in, kernel, '\t') || !std::getline(in, device, '\t') ||
      !std::getline(in, before, '\t') || !std::getline(in, after, '\t'))
    return false;
  std::getline(in, f.actions);
  if (!read_number(before, f.before_ms) || !read_number(after, f.after_ms)) return false;
  try {
    parse_actions(f.actions);
  } catch (const Error&) { return false; }
  into[{kernel, device}] = std::move(f);
  return true;
}

// Up to the next end of a line, which is taken off as well; one that is longer is cut.
std::string_view take_line(std::string_view& text, size_t longest) {
  const std::string_view line = text.substr(0, text.substr(0, longest + 1).find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line.substr(0, longest + 1);
}

// With the table's lock. A line without its end was cut short: another process is writing it, or
// was killed.
void read_file_of_build(Table& t) {
  if (t.read) return;
  t.read = true;
  std::istringstream file(compile_cache().read_lines(file_of_build()).value_or(""));
  for (std::string line; std::getline(file, line) && !file.eof();) read_line(line, t.found);
}

// One write of whole lines at the end of the file; lines of several processes do not mix. A failure
// costs the memory of a search, nothing else.
void append_to_file(const std::string& lines) {
  const std::string why = compile_cache().add_lines(file_of_build(), lines);
  if (!why.empty())
    std::fprintf(stderr, "mote: warning: what was found is not remembered: %s\n",
                 printable(why).c_str());
}

}  // namespace

std::string kernel_key(UOp body) {
  std::string loops;
  for (Node* end : body->src().first(1))
    for (Node* r : end->src().subspan(1)) loops += text("_", r->sources[0]->hi);
  return text("k", loops, "-", hex(body->hash));
}

std::string device_key(Device& device) {
  const Target& t = device.target();
  const std::string all =
      text(device.about(), " ", to_string(t), flag(Flag::STRICT) ? " strict" : "");
  return text(device.kind(), "-", t.threads, "-", hex(hash_bytes(all.data(), all.size())));
}

bool anything_searched() {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  read_file_of_build(t);
  return !t.found.empty();
}

std::optional<Found> find_searched(const std::string& kernel, const std::string& device) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  read_file_of_build(t);
  auto it = t.found.find({kernel, device});
  if (it == t.found.end()) return std::nullopt;
  return it->second;
}

void remember_searched(const std::string& kernel, const std::string& device, const Found& found) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  read_file_of_build(t);
  t.found[{kernel, device}] = found;
  append_to_file(line_of({kernel, device}, found));
}

std::optional<Tuned> searched_actions(UOp body, Device& device) {
  if (flag(Flag::NOOPT) || flag(Flag::DRAW) || !device.holds_data()) return std::nullopt;
  {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    read_file_of_build(t);
    if (t.found.empty()) return std::nullopt;
  }
  const std::optional<Found> found = find_searched(kernel_key(body), device_key(device));
  if (!found) return std::nullopt;
  Tuned tuned{{}, parse_actions(found->actions)};
  tuned.body = apply_all(body, tuned.actions);
  return tuned.body ? std::optional(tuned) : std::nullopt;
}

void reload_searched() {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  t.read = false;
  t.found.clear();
}

int64_t export_searched(const std::string& path) {
  CallScope call("search", Loc::current());
  Table& t = table();
  std::lock_guard lock(t.mutex);
  read_file_of_build(t);
  OutputFile file(path);
  file.write(text(kFirstLine, "\n"));
  for (const auto& [name, found] : t.found) file.write(line_of(name, found));
  file.commit();
  return static_cast<int64_t>(t.found.size());
}

int64_t import_searched(const std::string& path) {
  CallScope call("search", Loc::current());
  const MappedFile file = map_file(path);
  const std::shared_ptr<void> unmap(file.context, [&](void* c) { if (file.unmap) file.unmap(c); });
  std::string_view rest(static_cast<const char*>(file.data), static_cast<size_t>(file.bytes));
  check(take_line(rest, kFirstLine.size()) == kFirstLine, "[search] ", printable(path),
        " has no searched actions: its first line is not '", kFirstLine, "'");
  std::string lines;
  std::map<Name, Found> read;
  for (int64_t number = 2; !rest.empty(); ++number) {
    const std::string line(take_line(rest, kLongestLine));
    check(line.size() <= kLongestLine && read_line(line, read), "[search] ", printable(path), ":",
          number, ": cannot read '", printable(line.substr(0, 60)), "'");
  }
  for (const auto& [name, found] : read) lines += line_of(name, found);
  {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    read_file_of_build(t);
    for (const auto& [name, found] : read) t.found[name] = found;
    if (!lines.empty()) append_to_file(lines);
  }
  clear_caches();
  return static_cast<int64_t>(read.size());
}

}  // namespace mote
