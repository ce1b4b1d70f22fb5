#include "optimize/optimize.h"

#include "base/flags.h"
#include "optimize/moves.h"

namespace mote {

UOp apply_all(UOp body, std::span<const Action> list, std::string* refused) {
  for (const Action& a : list)
    if (!(body = apply(body, a, refused))) return {};
  return body;
}

std::vector<Action> default_actions(UOp body, const Target& target) {
  constexpr int64_t kMostDrawn = 16;
  if (flag(Flag::NOOPT)) return {};
  if (const int64_t draw = flag(Flag::DRAW))
    return draw_actions(body, target, static_cast<uint64_t>(draw / kMostDrawn),
                        static_cast<int>(draw % kMostDrawn));
  return choose_actions(body, target);
}

UOp optimize(UOp body, const Target& target) {
  return apply_all(body, default_actions(body, target));
}

}  // namespace mote
