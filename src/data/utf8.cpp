#include "data/utf8.h"

#include <algorithm>
#include <iterator>

namespace mote::data {

namespace {

struct ClassRange {
  uint32_t first, last;
  CharacterClass kind;
};
constexpr ClassRange ranges[] = {
#define RANGE(first, last, kind) {first, last, CharacterClass::kind},
#include "data/unicode_classes.def"
#undef RANGE
};

}  // namespace

CharacterClass class_of(uint32_t c) {
  auto at = std::partition_point(std::begin(ranges), std::end(ranges),
                                 [&](const ClassRange& r) { return r.last < c; });
  return at != std::end(ranges) && at->first <= c ? at->kind : CharacterClass::Other;
}

}  // namespace mote::data
