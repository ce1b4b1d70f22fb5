#include "ir/target.h"

#include "base/number.h"

namespace mote {

static std::string value_text(OpSet set) {
  return hex_text(set.bits[1], 16) + hex_text(set.bits[0], 16);
}
static std::string value_text(double v) { return shortest_text(v); }
template <class T>
static std::string value_text(T v) {
  return std::to_string(v);
}

std::string to_string(const Target& target) {
  std::string out = target.name;
#define FIELD(type, field, value, meaning) \
  out += std::string(" ") + #field + "=" + value_text(target.field);
#include "ir/target.def"
#undef FIELD
  return out;
}

}  // namespace mote
