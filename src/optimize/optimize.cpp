#include "optimize/optimize.h"

#include "base/flags.h"

namespace mote {

UOp optimize(UOp body, const Target& target) {
  if (flag(Flag::NOOPT)) return body;
  for (const Action& a : choose_actions(body, target))
    if (UOp next = apply(body, a)) body = next;
  return body;
}

}  // namespace mote
