// What the compiler may do to floats, in one table (freedoms.def). Who uses a freedom asks here.
#pragma once
#include <span>

#include "ir/node.h"
#include "ir/target.h"

namespace mote {

enum class Freedom : uint8_t {
#define FREEDOM(name, allows, example) name,
#include "ir/freedoms.def"
#undef FREEDOM
};

bool allows(Freedom f);  // by the flags of this thread

// Whether a Reduce may fold in another order than that of its sources: always if none shows.
bool may_reorder(UOp reduce);
// Whether products are to be fused with the sums they go into.
bool contracts(const Target& target);

// The table's words, for docs.
struct FreedomText {
  const char *name, *allows, *example;
};
std::span<const FreedomText> freedom_texts();

}  // namespace mote
