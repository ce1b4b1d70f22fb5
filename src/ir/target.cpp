#include "ir/target.h"

#include "base/number.h"

namespace mote {

static std::string value_text(OpSet set) {
  return hex_text(set.bits[1], 16) + hex_text(set.bits[0], 16);
}
static std::string value_text(const std::vector<Fragment>& list) {
  std::string out = "[";
  for (const Fragment& f : list) out += std::string(out.size() > 1 ? "," : "") + f.name;
  return out + "]";
}
static std::string value_text(double v) { return shortest_text(v); }
template <class T>
static std::string value_text(T v) {
  return std::to_string(v);
}

Fragment::Step Fragment::Layout::at(int lane_number, int register_number) const {
  Step sum{0, 0};
  auto add = [&](const std::vector<Step>& steps, int number) {
    for (size_t bit = 0; bit < steps.size(); ++bit)
      if (number >> bit & 1) sum.row += steps[bit].row, sum.column += steps[bit].column;
  };
  add(lane, lane_number);
  add(reg, register_number);
  return sum;
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
