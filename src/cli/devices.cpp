// `mote devices`: lists the devices, and says what unavailable ones need.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "io/json.h"
#include "runtime/cpu_info.h"
#include "runtime/device.h"

using namespace mote;

namespace {

struct Row {
  std::string name, why_not;  // why_not is empty for a device that is available
  std::string about;
  bool computes = true;
  Target target;
  int64_t memory_bytes = 0;
};

std::vector<Row> find_devices() {
  std::vector<Row> rows;
  for (const DeviceRow& known : device_rows()) {
    Row row{.name = known.name};
    if (known.available(&row.why_not)) {
      Device& device = mote::device(known.name);
      row.about = device.about();
      row.computes = device.computes();
      row.target = device.target();
      row.memory_bytes = device.pool().byte_limit();
    }
    row.why_not = printable(row.why_not);  // it may name what the environment says
    rows.push_back(std::move(row));
  }
  return rows;
}

void write_json(JsonWriter& out, const Row& r) {
  out.begin('{').key("name").value(r.name).key("available").value(r.why_not.empty());
  if (!r.why_not.empty()) {
    out.key("why_not").value(r.why_not).end();
    return;
  }
  out.key("about").value(r.about).key("computes").value(r.computes);
  out.key("threads").value(r.target.threads).key("vector_bytes").value(r.target.vector_bytes);
  out.key("l1_bytes").value(r.target.l1_bytes).key("l2_bytes").value(r.target.l2_bytes);
  out.key("l3_bytes").value(cpu_info().l3_bytes).key("memory_bytes");
  if (r.memory_bytes == INT64_MAX)
    out.value(std::nan(""));
  else
    out.value(r.memory_bytes);
  out.end();
}

std::string to_line(const Row& r) {
  std::string out = r.name + std::string(r.name.size() < 16 ? 16 - r.name.size() : 1, ' ');
  if (!r.why_not.empty()) return out + "not available: " + r.why_not;
  out += r.about;
  if (!r.computes) return out;
  return text(out, "; ", r.target.threads, r.target.threads == 1 ? " thread, " : " threads, ",
              r.target.vector_bytes * 8, "-bit vectors, caches ", size_text(r.target.l1_bytes),
              " / ", size_text(r.target.l2_bytes), " / ", size_text(cpu_info().l3_bytes),
              ", memory ", size_text(r.memory_bytes));
}

int run_devices(const Words& words) {
  JsonWriter json;
  json.begin('[');
  for (const Row& row : find_devices()) {
    if (words.has("json"))
      write_json(json, row);
    else
      std::printf("%s\n", to_line(row).c_str());
  }
  if (words.has("json")) std::printf("%s\n", json.end().text().c_str());
  return 0;
}

constexpr Option options[] = {
    {"json", "", "print JSON"}
};

}  // namespace

const Command mote::devices_command = {"devices", "", "list devices, and what unavailable ones need",
                                       options, run_devices};
