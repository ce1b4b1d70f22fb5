// `mote devices`: what this machine can run programs on, and why not.
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "runtime/cpu_info.h"
#include "runtime/device.h"

namespace {

using mote::text;

struct Row {
  std::string name, why_not;  // why_not is empty for a device that is available
  std::string about;
  bool computes = true;
  mote::Target target;
  int64_t memory_bytes = 0;
};

std::vector<Row> find_devices() {
  std::vector<Row> rows;
  for (const mote::DeviceRow& known : mote::device_rows()) {
    Row row{.name = known.name};
    if (known.available(&row.why_not)) {
      mote::Device& device = mote::device(known.name);
      row.about = device.about();
      row.computes = device.computes();
      row.target = device.target();
      row.memory_bytes = device.byte_limit();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned char>(c));
    if (c == '"' || c == '\\')
      out += text('\\', c);
    else if (static_cast<unsigned char>(c) < 0x20)
      out += code;
    else
      out += c;
  }
  return out + "\"";
}

std::string to_json(const Row& r) {
  if (!r.why_not.empty())
    return text("{\"name\": ", quoted(r.name),
                ", \"available\": false, \"why_not\": ", quoted(r.why_not), "}");
  return text("{\"name\": ", quoted(r.name), ", \"available\": true, \"about\": ", quoted(r.about),
              ", \"computes\": ", r.computes, ", \"threads\": ", r.target.threads,
              ", \"vector_bytes\": ", r.target.vector_bytes, ", \"l1_bytes\": ", r.target.l1_bytes,
              ", \"l2_bytes\": ", r.target.l2_bytes, ", \"l3_bytes\": ", mote::cpu_info().l3_bytes,
              ", \"memory_bytes\": ", r.memory_bytes == INT64_MAX ? "null" : text(r.memory_bytes),
              "}");
}

std::string size_text(int64_t bytes) {
  if (bytes == INT64_MAX) return "without limit";
  const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  double shown = static_cast<double>(bytes);
  size_t unit = 0;
  for (; shown >= 1024 && unit < 4; ++unit) shown /= 1024;
  char out[32];
  std::snprintf(out, sizeof out, "%.4g %s", shown, units[unit]);
  return out;
}

std::string to_line(const Row& r) {
  std::string out = r.name + std::string(r.name.size() < 16 ? 16 - r.name.size() : 1, ' ');
  if (!r.why_not.empty()) return out + "not available: " + r.why_not;
  out += r.about;
  if (!r.computes) return out;
  return text(out, "; ", r.target.threads, r.target.threads == 1 ? " thread, " : " threads, ",
              r.target.vector_bytes * 8, "-bit vectors, caches ", size_text(r.target.l1_bytes),
              " / ", size_text(r.target.l2_bytes), " / ", size_text(mote::cpu_info().l3_bytes),
              ", memory ", size_text(r.memory_bytes));
}

}  // namespace

int run_devices(Arguments args) {
  const bool json = args.count == 1 && std::string(args.values[0]) == "--json";
  if (args.count > 0 && !json) {
    std::fprintf(stderr, "mote: devices takes --json or nothing, got '%s'\n", args.values[0]);
    return 2;
  }
  std::vector<Row> rows = find_devices();
  for (size_t i = 0; i < rows.size(); ++i)
    std::printf("%s%s%s\n", json ? i ? " " : "[" : "",
                (json ? to_json(rows[i]) : to_line(rows[i])).c_str(),
                json ? i + 1 < rows.size() ? "," : "]" : "");
  return 0;
}
