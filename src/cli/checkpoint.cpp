#include "cli/checkpoint.h"

#include "base/error.h"
#include "base/utf8.h"
#include "cli/settings.h"

namespace mote {

namespace {
const std::string kSetting = "setting.";
}

void save_checkpoint(const std::string& path, const Checkpoint& c) {
  Metadata metadata = {
      {"task",           c.task                          },
      {"step",           std::to_string(c.step)          },
      {"order.seed",     std::to_string(c.order.seed)    },
      {"order.epoch",    std::to_string(c.order.epoch)   },
      {"order.position", std::to_string(c.order.position)}
  };
  for (const auto& [name, value] : c.settings) metadata.emplace_back(kSetting + name, value);
  save_safetensors(path, c.tensors, metadata);
}

Checkpoint load_checkpoint(const std::string& path) {
  FileInfo info = file_info(path);
  check(info.format == "safetensors", "[checkpoint] ", printable(path),
        ": needs a safetensors file, got ", info.format);
  const Metadata& m = info.metadata;
  Checkpoint c;
  c.task = find(m, "task", path);
  c.step = find_integer(m, "step", path);
  c.order = {static_cast<uint64_t>(find_integer(m, "order.seed", path)),
             find_integer(m, "order.epoch", path), find_integer(m, "order.position", path)};
  for (const auto& [name, value] : m)
    if (name.starts_with(kSetting)) c.settings.emplace_back(name.substr(kSetting.size()), value);
  c.tensors = load_safetensors(path);
  return c;
}

std::vector<NamedTensor> part_of(const std::vector<NamedTensor>& all, const std::string& prefix) {
  std::vector<NamedTensor> out;
  for (const NamedTensor& t : all)
    if (t.name.starts_with(prefix + "."))
      out.push_back({t.name.substr(prefix.size() + 1), t.tensor});
  return out;
}

}  // namespace mote
