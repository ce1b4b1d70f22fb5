#include <mote/fields.h>

namespace mote {

std::string_view take_name(std::string_view& names) {
  size_t comma = names.find(',');
  std::string_view name = names.substr(0, comma);
  names.remove_prefix(comma == names.npos ? names.size() : comma + 1);
  size_t first = name.find_first_not_of(" \t\n"), last = name.find_last_not_of(" \t\n");
  return name.substr(first, last + 1 - first);
}

std::string join_path(const std::string& path, std::string_view name) {
  std::string out = path;
  if (!out.empty()) out += '.';
  return out.append(name);
}

}  // namespace mote
