// `mote info`: what a file of tensors holds.
#include <mote/io.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/same_file.h"
#include "io/json.h"

using namespace mote;

namespace {

constexpr size_t kShownOfValue = 60;

void print_json(const std::string& path, const FileInfo& info) {
  JsonWriter json;
  json.begin('{').key("file").value(as_utf8(path)).key("format").value(info.format);
  json.key("bytes").value(info.bytes).key("metadata").begin('{');
  for (const auto& [name, value] : info.metadata) json.key(name).value(as_utf8(value));
  json.end().key("parts").begin('[');
  for (const FileInfo::Part& part : info.parts) {
    json.begin('{').key("name").value(as_utf8(part.name)).key("type").value(part.type);
    json.key("shape").begin('[');
    for (int64_t size : part.shape) json.value(size);
    json.end().key("offset").value(part.offset).key("bytes").value(part.bytes).end();
  }
  std::printf("%s\n", json.end().end().text().c_str());
}

// On one line, cut where it gets long.
std::string shown(const std::string& value) {
  if (value.size() <= kShownOfValue && printable(value) == value) return value;
  return value.size() <= kShownOfValue ? quoted(value)
                                       : text(quoted(value), " (", value.size(), " bytes)");
}

std::string shape_text(const FileInfo::Part& part) {
  if (part.type == "file") return "";
  std::string out;
  for (int64_t size : part.shape) out += (out.empty() ? "" : " x ") + std::to_string(size);
  return out.empty() ? "scalar" : out;
}

void print_table(const std::string& path, const FileInfo& info) {
  std::printf("%s: %s, %s\n", printable(path).c_str(), info.format.c_str(),
              size_text(info.bytes).c_str());
  size_t key = 0, name = 4, shape = 5, type = 4;
  for (const auto& [k, v] : info.metadata) key = std::max(key, shown(k).size());
  for (const FileInfo::Part& part : info.parts) {
    name = std::max(name, shown(part.name).size());
    shape = std::max(shape, shape_text(part).size());
    type = std::max(type, part.type.size());
  }
  auto width = [](size_t n) { return static_cast<int>(std::min<size_t>(n, 64)); };
  if (!info.metadata.empty()) std::printf("\nmetadata\n");
  for (const auto& [k, v] : info.metadata)
    std::printf("  %-*s  %s\n", width(key), shown(k).c_str(), shown(v).c_str());
  if (info.parts.empty()) return;
  std::printf("\n  %-*s  %-*s  %-*s  %s\n", width(name), "name", width(type), "type", width(shape),
              "shape", "size");
  int64_t total = 0;
  for (const FileInfo::Part& part : info.parts) {
    total += part.bytes;
    std::printf("  %-*s  %-*s  %-*s  %s\n", width(name), shown(part.name).c_str(), width(type),
                part.type.c_str(), width(shape), shape_text(part).c_str(),
                size_text(part.bytes).c_str());
  }
  std::printf("  %zu in all, %s\n", info.parts.size(), size_text(total).c_str());
}

int run_info(const Words& words) {
  check_distinct_files("info", std::vector<UsedPath>{
                                   {"FILE", words.operand(0)}
  });
  FileInfo info = file_info(words.operand(0));
  if (words.has("json"))
    print_json(words.operand(0), info);
  else
    print_table(words.operand(0), info);
  return 0;
}

constexpr Option options[] = {
    {"json", "", "print JSON"}
};

}  // namespace

const Command mote::info_command = {
    "info",
    "FILE",
    "list the contents of a file: tensors and metadata",
    options,
    run_info,
    "Formats: safetensors, NumPy, PyTorch, GGUF, tar and zip, plain or compressed by gzip or xz."};
