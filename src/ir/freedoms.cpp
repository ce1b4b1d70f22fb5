#include "ir/freedoms.h"

#include "base/flags.h"

namespace mote {

bool allows(Freedom) { return !flag(Flag::STRICT); }

bool may_reorder(UOp reduce) {
  const Op op = static_cast<Op>(reduce->ints(0));
  const bool rounds = is_float(reduce->dtype) && (op == Op::Add || op == Op::Mul);
  return !rounds || allows(Freedom::Reassociate);
}

bool contracts(const Target& target) { return target.fma && allows(Freedom::Contract); }

std::span<const FreedomText> freedom_texts() {
  static constexpr FreedomText rows[] = {
#define FREEDOM(name, allows, example) {#name, allows, example},
#include "ir/freedoms.def"
#undef FREEDOM
  };
  return rows;
}

}  // namespace mote
