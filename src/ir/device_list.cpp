#include "ir/device_list.h"

#include <deque>
#include <mutex>

#include "base/error.h"
#include "base/flags.h"

namespace mote {

namespace {

struct Names {
  std::mutex mutex;
  // A deque: references stay valid.
  std::deque<std::string> list{"", flag_texts()[static_cast<size_t>(Flag::DEV)].value};
};
Names& names() {
  static Names* n = new Names;
  return *n;
}

std::string normalise_one(std::string_view name) {
  std::string out;
  for (char c : name) out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  size_t colon = out.find(':');
  std::string_view number =
      colon == std::string::npos ? "0" : std::string_view(out).substr(colon + 1);
  bool digits = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
  check(!out.empty() && out[0] >= 'A' && out[0] <= 'Z' && digits, "[device] '", name,
        "' is not a device name; write for example CPU or CPU:1");
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  check(number.size() <= 9, "[device] the number in '", name, "' is too large");
  std::string kind = out.substr(0, colon);
  return number.empty() ? kind : text(kind, ":", number);
}

std::string normalise(std::string_view list) {
  std::string out;
  for (size_t at = 0; at <= list.size();) {
    size_t comma = std::min(list.find(',', at), list.size());
    if (at) out += ',';
    out += normalise_one(list.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

}  // namespace

uint8_t intern_device(std::string_view text) {
  std::string wanted = normalise(text);
  Names& n = names();
  std::lock_guard lock(n.mutex);
  for (size_t i = 1; i < n.list.size(); ++i)
    if (n.list[i] == wanted) return static_cast<uint8_t>(i);
  check(n.list.size() < 256, "more than 255 device lists in one process");
  n.list.push_back(std::move(wanted));
  return static_cast<uint8_t>(n.list.size() - 1);
}

const std::string& device_name(uint8_t id) {
  Names& n = names();
  std::lock_guard lock(n.mutex);
  return n.list[id];
}

}  // namespace mote
